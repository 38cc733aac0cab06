#include "daemon/admin/http/admin_endpoint.hpp"

#include <utility>

namespace penstock {
namespace {

using clock = std::chrono::steady_clock;

// What is not asked for; nobody reads it.
timeline_page no_page() {
  return {};
}

}  // namespace

admin_endpoint::admin_endpoint(boost::asio::io_context& admin, std::deque<shard_thread>& shards, const settings& how,
                               reloader reload, std::function<daemon_vitals()> vitals)
    : shards_(shards),
      roll_call_(admin, shards),
      reports_(
          [this](std::function<void(shard_answers)> done) {
            roll_call_.ask<shard_report>(
                patience, [](shard& asked) { return asked.report(); }, std::move(done));
          },
          clock::now),
      traces_(admin,
              [this](const trace_collector::cursors& from, std::function<void(timeline_answers)> done) {
                roll_call_.ask<timeline_page>(
                    patience,
                    [from](shard& asked) {
                      const std::optional<std::uint64_t>& cursor = from[asked.number()];
                      return cursor ? asked.trace(*cursor) : no_page();
                    },
                    std::move(done));
              }),
      api_({reports_, traces_, metrics_, std::move(reload), clock::now, how.wheel.hang_timeout / 2,
            [this] { return shards_.size(); }, std::move(vitals)}),
      server_(admin, how.admin, [this](const http_request& asked, std::function<void(http_reply)> done) {
        api_.answer(asked, std::move(done));
      }) {}

void admin_endpoint::start() {
  api_.set(daemon_state::ready);
  server_.start();
}

}  // namespace penstock
