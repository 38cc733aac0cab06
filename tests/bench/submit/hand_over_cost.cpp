#include "tests/bench/submit/hand_over_cost.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "tests/bench/bare_batch.hpp"
#include "tests/bench/patience.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/bench/submit/submit_thread.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr batch_form polled{.name = "event", .told = notice::event};

double microseconds_since(clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(clock::now() - begin).count();
}

/// Batches, one for each stream, and who submits them.
class contender {
 public:
  contender(const char* way, std::optional<submit_thread::rest> thread, std::size_t bytes,
            const std::vector<bare_stream>& on)
      : way_(way), handed_(on.size()) {
    for (std::size_t at = 0; at < on.size(); ++at) {
      batches_.push_back(std::make_unique<bare_batch>(polled, on[at].get(), bytes, 1));
      handed_[at].batch = batches_.back().get();
    }
    if (thread) {
      thread_ = std::make_unique<submit_thread>(*thread);
    }
  }

  void measure(const bench_options& options) {
    time_handing(options.quick ? 20 : 200);
    time_alone(options.quick ? 50 : 1000);
    time_rate(milliseconds{options.quick ? 30 : 200});
    batches_.front()->check();
  }
  [[nodiscard]] ordered_json row() const {
    return {{"way", way_},
            {"cpu_us", to_json(spread_of(cpu_us_))},
            {"until_done_us", to_json(spread_of(until_done_us_))},
            {"batches_per_second", to_json(spread_of(per_second_))}};
  }

 private:
  void submit(std::size_t at) {
    if (thread_ != nullptr) {
      thread_->hand(handed_[at]);
    } else {
      batches_[at]->submit();
    }
  }
  [[nodiscard]] bool done(std::size_t at) {
    return handed_[at].submitted.load(std::memory_order_acquire) && batches_[at]->done();
  }
  void wait(std::size_t at) {
    patience left;
    while (!done(at)) {
      left.turn();
    }
  }

  void time_handing(int bursts) {
    double cpu_seconds = 0;
    for (int burst = 0; burst < bursts; ++burst) {
      const double begin = thread_cpu_seconds();
      for (std::size_t at = 0; at < batches_.size(); ++at) {
        submit(at);
      }
      cpu_seconds += thread_cpu_seconds() - begin;
      for (std::size_t at = 0; at < batches_.size(); ++at) {
        wait(at);
      }
    }
    cpu_us_.push_back(cpu_seconds * 1e6 / (bursts * static_cast<double>(batches_.size())));
  }

  void time_alone(int count) {
    std::vector<double> all;
    for (int each = 0; each < count; ++each) {
      const clock::time_point begin = clock::now();
      submit(0);
      wait(0);
      all.push_back(microseconds_since(begin));
    }
    until_done_us_.push_back(quantile(all, 0.5));
  }

  void time_rate(milliseconds span) {
    const clock::time_point begin = clock::now();
    for (std::size_t at = 0; at < batches_.size(); ++at) {
      submit(at);
    }
    std::size_t count = 0;
    patience left;
    while (clock::now() - begin < span) {
      for (std::size_t at = 0; at < batches_.size(); ++at) {
        if (done(at)) {
          submit(at);
          ++count;
          left.renew();
        }
      }
      left.turn();
    }
    per_second_.push_back(static_cast<double>(count) * 1e6 / microseconds_since(begin));
    for (std::size_t at = 0; at < batches_.size(); ++at) {
      wait(at);
    }
  }

  const char* way_;
  std::vector<std::unique_ptr<bare_batch>> batches_;
  std::vector<handed_batch> handed_;
  std::unique_ptr<submit_thread> thread_;  // ends before the batches
  std::vector<double> cpu_us_, until_done_us_, per_second_;
};

}  // namespace

ordered_json measure_hand_over(std::size_t bytes, const std::vector<bare_stream>& on, const bench_options& options) {
  std::vector<std::unique_ptr<contender>> all;
  all.push_back(std::make_unique<contender>("by the thread itself", std::nullopt, bytes, on));
  all.push_back(std::make_unique<contender>("by a thread that spins", submit_thread::rest::none, bytes, on));
  all.push_back(std::make_unique<contender>("by a thread that sleeps", submit_thread::rest::asleep, bytes, on));
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (auto& each : all) {
      each->measure(options);
    }
  }
  ordered_json rows = ordered_json::array();
  for (const auto& each : all) {
    rows.push_back(each->row());
  }
  return rows;
}

}  // namespace penstock::bench
