#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include "daemon/config/settings.hpp"
#include "daemon/service/reload.hpp"
#include "daemon/telemetry/device_clock.hpp"
#include "daemon/telemetry/report.hpp"
#include "daemon/telemetry/timeline.hpp"

namespace penstock {

/// What all shards said when they were last asked, by their number; missing where one did not answer.
using shard_answers = std::vector<std::optional<shard_report>>;

/// Asks the shards for their reports on behalf of everybody who wants them: who asks while the shards are being asked,
/// or within `freshness` after they all answered, gets the same answers. So however many clients scrape, a shard writes
/// no more than ten reports a second. Thread: the admin's.
class shard_reports {
 public:
  using consumer = std::function<void(std::shared_ptr<const shard_answers>)>;
  /// Asks all shards, and calls what it is given once.
  using question = std::function<void(std::function<void(shard_answers)>)>;

  static constexpr std::chrono::milliseconds freshness{100};

  shard_reports(question ask_all, time_source now) : ask_all_(std::move(ask_all)), now_(std::move(now)) {}

  /// Calls `done` once, at once or later.
  void ask(consumer done);

 private:
  void take(shard_answers answers);

  question ask_all_;
  time_source now_;
  std::vector<consumer> waiting_;
  std::shared_ptr<const shard_answers> last_;
  time_point last_at_;
};

/// Pages of all shards, by number; missing where one did not answer.
using timeline_answers = std::vector<std::optional<timeline_page>>;

/// Gathers what the shards remember of their batches, page by page, and has a thread of its own make a timeline for
/// Perfetto of it, so that neither a shard nor the admin's thread is held for long. One at a time. Thread: the admin's.
class trace_collector {
 public:
  /// By shard; a shard without a cursor is not asked.
  using cursors = std::vector<std::optional<std::uint64_t>>;
  /// Asks each shard for the page from its cursor on, and calls what it is given once.
  using question = std::function<void(cursors, std::function<void(timeline_answers)>)>;
  /// The timeline as JSON; "" when a page could not be read.
  using consumer = std::function<void(std::string)>;

  /// The most that is kept while pages are gathered, of all shards together; the oldest are let go first.
  static constexpr std::size_t most_bytes = std::size_t{32} << 20U;

  trace_collector(boost::asio::io_context& admin, question ask);

  [[nodiscard]] bool is_busy() const noexcept { return gathered_ != nullptr; }
  /// The batches that were done in the last so long, as far as they are remembered. Calls `done` once; `is_busy` must
  /// be false.
  void collect(std::size_t shards, std::chrono::nanoseconds last, consumer done);

 private:
  struct gathering {
    std::chrono::nanoseconds last{};
    consumer done;
    cursors next;
    std::deque<std::string> pages;
    std::size_t bytes = 0;
    std::size_t rounds = 0;
  };

  void ask();
  void take(const timeline_answers& answers);
  void write();

  boost::asio::io_context& admin_;
  question ask_;
  std::shared_ptr<gathering> gathered_;
  boost::asio::thread_pool writer_{1};
};

enum class daemon_state : std::uint8_t { starting, ready, draining };

/// "starting", "ready", "draining".
[[nodiscard]] constexpr std::string_view name_of(daemon_state state) noexcept {
  constexpr std::array<std::string_view, 3> names{"starting", "ready", "draining"};
  return names[static_cast<std::size_t>(state)];
}

/// What is known of the daemon beside what its shards say.
struct daemon_facts {
  daemon_state state = daemon_state::starting;
  std::chrono::system_clock::time_point started;
  std::chrono::nanoseconds uptime{};
};

/// The configuration of the lowest version that a shard serves.
[[nodiscard]] configuration_report configuration_of(const shard_answers& shards);

/// The object that docs/admin-http.md describes.
[[nodiscard]] std::string print_status(const daemon_facts& facts, const shard_answers& shards);

}  // namespace penstock
