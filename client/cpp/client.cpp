#include <utility>

#include <penstock/client.hpp>
#include <penstock/session.hpp>

#include "client/cpp/client_implementation.hpp"

namespace penstock {

client::client(client_options options) : self_(std::make_unique<implementation>(std::move(options))) {}

client::~client() {
  if (self_->is_foreign()) {
    [[maybe_unused]] const auto* const parents = self_.release();  // its thread and its sockets are the parent's
  }
}

server_info client::server() const {
  return self_->catalogue()->server();
}
std::vector<pipeline_info> client::pipelines() const {
  return self_->catalogue()->pipelines();
}

std::uint64_t client::submit(std::string_view pipeline, request what, completion done) {
  return self_->submit(pipeline, nullptr, what, std::move(done), true);
}

std::future<result> client::submit(std::string_view pipeline, request what) {
  std::future<result> future;
  self_->submit(pipeline, nullptr, what, keep_promise_of(future), true);
  return future;
}

std::optional<std::uint64_t> client::try_submit(std::string_view pipeline, request what, completion done) {
  const std::uint64_t id = self_->submit(pipeline, nullptr, what, std::move(done), false);
  return id == 0 ? std::nullopt : std::optional{id};
}

std::optional<std::future<result>> client::try_submit(std::string_view pipeline, request what) {
  std::future<result> future;
  const std::uint64_t id = self_->submit(pipeline, nullptr, what, keep_promise_of(future), false);
  return id == 0 ? std::nullopt : std::optional{std::move(future)};
}

session client::open_session(std::string_view pipeline, std::string_view name) {
  return {*self_, self_->open_session(pipeline, name)};
}

std::optional<lent_memory> client::lend(std::size_t bytes) {
  return self_->lend(bytes);
}
shared_memory_info client::shared_memory() const {
  return self_->shared_memory();
}

std::uint64_t client::reserve_id() noexcept {
  return self_->reserve_id();
}
void client::cancel(std::uint64_t id) {
  self_->cancel(id);
}

std::chrono::nanoseconds client::ping(std::chrono::nanoseconds timeout) {
  return self_->ask(wire::message_type::ping, 0, timeout).round_trip;
}

std::string client::status_json(std::chrono::nanoseconds timeout) {
  return self_->ask(wire::message_type::get_status, 0, timeout).body;
}

trace_page client::trace(std::uint64_t cursor, std::chrono::nanoseconds timeout) {
  link::probe::answer answer = self_->ask(wire::message_type::get_trace, cursor, timeout);
  return {std::move(answer.body), answer.next_cursor};
}

client_counters client::counters() const noexcept {
  const auto read = [](const std::atomic<std::uint64_t>& each) { return each.load(std::memory_order_relaxed); };
  const link::atomic_counters& from = self_->counters();
  return {read(from.submitted),         read(from.results), read(from.errors),
          read(from.sent_again),        read(from.hellos),  read(from.unmatched_replies),
          read(from.malformed_replies), read(from.shared),  read(from.thrown),
          read(from.unshared)};
}

}  // namespace penstock
