#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include "daemon/timeline/timeline_page.hpp"

namespace penstock {

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

}  // namespace penstock
