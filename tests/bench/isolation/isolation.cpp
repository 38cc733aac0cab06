#include "tests/bench/isolation/isolation.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "tests/bench/bare_batch.hpp"
#include "tests/bench/bare_gpu.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/patience.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;
using std::chrono::duration;
using std::chrono::microseconds;

// With the stream of the holder there are eight: as many as the device has queues for without being told otherwise.
constexpr std::size_t streams = 7;
constexpr std::size_t batches_a_stream = 8;
constexpr std::size_t bytes = 4096;
constexpr microseconds pace{200};
constexpr microseconds hold_period{10'000};

constexpr batch_form observers[] = {
    {.name = "stream callback", .told = notice::callback},
    {.name = "host function", .told = notice::host_function},
    {.name = "event polled", .told = notice::event},
};

/// Holds CUDA's thread for a while, again and again, on a stream of its own.
class holder {
 public:
  holder(notice by, microseconds length) : by_(by), length_(length) {}
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;
  ~holder() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

  /// Enqueues the next hold when it is time and the last one is over.
  void hold_when_due(clock::time_point now) {
    if (length_.count() == 0 || now < next_ || holding_.load(std::memory_order_acquire)) {
      return;
    }
    next_ = now + hold_period;
    holding_.store(true, std::memory_order_relaxed);
    if (by_ == notice::callback) {
      require(cudaStreamAddCallback(stream_.get(), on_callback, this, 0), "cudaStreamAddCallback");
    } else {
      require(cudaLaunchHostFunc(stream_.get(), hold, this), "cudaLaunchHostFunc");
    }
  }

 private:
  static void CUDART_CB on_callback(cudaStream_t /*stream*/, cudaError_t /*status*/, void* self) { hold(self); }
  static void CUDART_CB hold(void* self) {
    auto* const held = static_cast<holder*>(self);
    std::this_thread::sleep_for(held->length_);
    held->holding_.store(false, std::memory_order_release);
  }

  const notice by_;
  const microseconds length_;
  bare_stream stream_ = make_bare_stream();
  clock::time_point next_{};
  std::atomic<bool> holding_{false};  ///< set by the thread that enqueues, cleared by CUDA's
};

/// The batches of one way to be told, in turn over the streams.
class observed_batches {
 public:
  observed_batches(const batch_form& form, const std::vector<bare_stream>& on) : places_(streams * batches_a_stream) {
    for (std::size_t at = 0; at < places_.size(); ++at) {
      places_[at].batch = std::make_unique<bare_batch>(form, on[at % on.size()].get(), bytes, 1);
    }
  }

  /// Latencies in µs, each from the time when the batch was due. `longest_submit_us` becomes the longest that one
  /// batch took to enqueue.
  std::vector<double> run(clock::duration length, holder& beside, double& longest_submit_us);

 private:
  struct place {
    std::unique_ptr<bare_batch> batch;
    clock::time_point due;
    bool in_flight = false;
  };

  void collect(std::vector<double>& latencies);

  std::vector<place> places_;
  std::size_t in_flight_ = 0;
};

void observed_batches::collect(std::vector<double>& latencies) {
  for (place& each : places_) {
    if (each.in_flight && each.batch->done()) {
      latencies.push_back(duration<double, std::micro>(clock::now() - each.due).count());
      each.in_flight = false;
      --in_flight_;
    }
  }
}

std::vector<double> observed_batches::run(clock::duration length, holder& beside, double& longest_submit_us) {
  const auto count = static_cast<std::size_t>(length / pace);
  std::vector<double> latencies;
  latencies.reserve(count);
  patience left;
  const clock::time_point begin = clock::now();
  std::size_t sent = 0;
  while (latencies.size() < count) {
    const clock::time_point now = clock::now();
    if (sent < count) {
      beside.hold_when_due(now);
    }
    place& next = places_[sent % places_.size()];
    const clock::time_point due = begin + pace * sent;
    if (sent < count && now >= due && !next.in_flight) {
      next.batch->submit();
      longest_submit_us = std::max(longest_submit_us, duration<double, std::micro>(clock::now() - now).count());
      next.due = due;
      next.in_flight = true;
      ++in_flight_;
      ++sent;
    }
    const std::size_t before = latencies.size();
    collect(latencies);
    if (latencies.size() != before || in_flight_ == 0) {
      left.renew();
    } else {
      left.turn();
    }
  }
  return latencies;
}

/// One observer beside one holder.
struct cell {
  std::size_t observer;
  notice held_by;
  microseconds length;
  std::vector<double> p50_us, p99_us, most_us, late, submit_most_us;

  void run(observed_batches& observed, clock::duration duration_of_run);
  [[nodiscard]] ordered_json row() const;
};

void cell::run(observed_batches& observed, clock::duration duration_of_run) {
  double longest_submit_us = 0;
  holder beside(held_by, length);
  const std::vector<double> latencies = observed.run(duration_of_run, beside, longest_submit_us);
  const auto late_count = std::count_if(latencies.begin(), latencies.end(), [](double each) { return each > 1000; });
  p50_us.push_back(quantile(latencies, 0.5));
  p99_us.push_back(quantile(latencies, 0.99));
  most_us.push_back(quantile(latencies, 1));
  late.push_back(static_cast<double>(late_count) / static_cast<double>(latencies.size()));
  submit_most_us.push_back(longest_submit_us);
}

ordered_json cell::row() const {
  return {{"observer", observers[observer].name},
          {"held_by", held_by == notice::callback ? "stream callback" : "host function"},
          {"held_ms", static_cast<double>(length.count()) * 1e-3},
          {"p50_us", to_json(spread_of(p50_us))},
          {"p99_us", to_json(spread_of(p99_us))},
          {"most_us", to_json(spread_of(most_us))},
          {"late", to_json(spread_of(late))},
          {"submit_most_us", to_json(spread_of(submit_most_us))}};
}

std::vector<cell> cells() {
  std::vector<cell> all;
  for (const notice by : {notice::callback, notice::host_function}) {
    for (const int held_ms : {0, 1, 5}) {
      for (std::size_t observer = 0; observer < std::size(observers); ++observer) {
        all.push_back({observer, by, microseconds{held_ms * 1000}, {}, {}, {}, {}, {}});
      }
    }
  }
  return all;
}

}  // namespace

ordered_json run_isolation(const bench_options& options) {
  ordered_json result = {{"benchmark", "isolation"},     {"machine", machine_facts()},
                         {"device", use_gpu(options)},   {"repeats", options.repeats},
                         {"streams", streams},           {"bytes", bytes},
                         {"pace_us", pace.count()},      {"hold_period_ms", hold_period.count() / 1000},
                         {"rows", ordered_json::array()}};
  std::vector<bare_stream> on(streams);
  for (bare_stream& each : on) {
    each = make_bare_stream();
  }
  std::vector<std::unique_ptr<observed_batches>> observed;
  for (const batch_form& form : observers) {
    observed.push_back(std::make_unique<observed_batches>(form, on));
  }
  std::vector<cell> all = cells();
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (cell& each : all) {
      each.run(*observed[each.observer], std::chrono::milliseconds{options.quick ? 60 : 400});
    }
    std::fprintf(stderr, "\risolation: repeat %d of %d   ", repeat + 1, options.repeats);
  }
  std::fputc('\n', stderr);
  for (const cell& each : all) {
    result["rows"].push_back(each.row());
  }
  return result;
}

}  // namespace penstock::bench
