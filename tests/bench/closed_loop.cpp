#include "tests/bench/closed_loop.hpp"

#include <algorithm>
#include <future>
#include <thread>

#include "tests/bench/closed_loop_thread.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {

closed_loop::closed_loop(const closed_loop_settings& settings) {
  const std::size_t cores = std::max<std::size_t>(std::thread::hardware_concurrency() / 4, 1);
  const std::size_t count = std::min(cores, settings.clients);
  std::size_t first = 0;
  for (std::size_t at = 0; at < count; ++at) {
    closed_loop_settings share = settings;
    share.clients = (settings.clients - first) / (count - at);
    threads_.push_back(std::make_unique<closed_loop_thread>(share, first));
    first += share.clients;
  }
}

closed_loop::~closed_loop() = default;
closed_loop::closed_loop(closed_loop&& other) noexcept = default;

load_result closed_loop::run(std::chrono::milliseconds span) {
  using clock = std::chrono::steady_clock;
  const clock::time_point begin = clock::now();
  std::vector<std::future<closed_loop_thread::outcome>> running;
  for (std::size_t at = 1; at < threads_.size(); ++at) {
    running.push_back(std::async(std::launch::async, [&each = *threads_[at], span] { return each.run(span); }));
  }
  closed_loop_thread::outcome all = threads_.front()->run(span);
  for (auto& each : running) {
    const closed_loop_thread::outcome part = each.get();
    all.replies += part.replies;
    all.latencies_us.insert(all.latencies_us.end(), part.latencies_us.begin(), part.latencies_us.end());
  }
  const std::chrono::duration<double> took = clock::now() - begin;
  return {static_cast<double>(all.replies) / took.count(), quantile(all.latencies_us, 0.5),
          quantile(all.latencies_us, 0.99), static_cast<std::size_t>(all.replies)};
}

}  // namespace penstock::bench
