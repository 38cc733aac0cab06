#include "client/cli/shard_timeline.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace penstock::cli {

namespace {

// Twice the maximum of timing.recent_batches.
constexpr std::uint64_t most_batches = std::uint64_t{1} << 21U;

}  // namespace

void shard_timeline::catch_up(chrome_trace& trace) {
  std::uint64_t taken = 0;
  const bool looks_back = cursor_ == 0;
  std::int64_t began = 0;
  while (true) {
    const trace_page page = at_->trace(cursor_, timeout_);
    trace.add(page.json);
    const chrome_trace::page_facts& facts = trace.last_page();
    now_ns_ = facts.now_ns;
    began = began == 0 ? facts.now_ns : began;
    if (facts.batches > 0) {
      // Numbers begin at 1; after a gap the shard continues with the oldest batch that it has.
      const traced_batch& first = std::span(trace.batches()).last(facts.batches).front();
      const std::uint64_t wanted = std::max<std::uint64_t>(cursor_, 1);
      if (first.number > wanted && looks_back) {
        since_ns_ = first.completed;
      } else if (first.number > wanted) {
        missed_ += first.number - wanted;
      }
    }
    taken += facts.batches;
    if (facts.batches > 0 && (page.next_cursor <= cursor_ || taken > most_batches)) {
      throw std::runtime_error("the daemon's timeline has no end");
    }
    cursor_ = page.next_cursor;
    if (facts.batches == 0 || facts.newest_ns >= began) {
      return;
    }
  }
}

std::vector<shard_timeline> timelines_of(client_options daemon, std::chrono::nanoseconds timeout,
                                         std::ostream& complaints) {
  daemon.stays = true;
  daemon.transport = transport::zmq;  // a page is small
  auto first = std::make_unique<client>(daemon);
  const server_info server = first->server();
  std::vector<shard_timeline> all;
  all.emplace_back(std::move(first), timeout);
  for (std::size_t shard = 0; shard < server.shards.size(); ++shard) {
    if (shard == server.shard) {
      continue;
    }
    daemon.url = server.shards[shard];
    try {
      if (daemon.url.empty()) {
        throw connect_error("it does not listen where this daemon was reached");
      }
      all.emplace_back(std::make_unique<client>(daemon), timeout);
    } catch (const connect_error& unreachable) {
      complaints << "penstock: shard " << shard << " is left out: " << unreachable.what() << "\n";
    }
  }
  return all;
}

}  // namespace penstock::cli
