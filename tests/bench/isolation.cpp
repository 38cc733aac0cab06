#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/benchmarks.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;
using std::chrono::duration;
using std::chrono::microseconds;

// With the stream of the holder there are eight, the default number of the device's queues.
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

/// Blocks CUDA's callback thread for a while, again and again, from a stream of its own.
class holder {
 public:
  holder(notice way, microseconds length) : way_(way), length_(length) {}
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;
  ~holder() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

  /// Enqueues the next block when it is due and the previous one is over.
  void hold_when_due(clock::time_point now) {
    if (length_.count() == 0 || now < next_ || holding_.load(std::memory_order_acquire)) {
      return;
    }
    next_ = now + hold_period;
    holding_.store(true, std::memory_order_relaxed);
    if (way_ == notice::callback) {
      require(cudaStreamAddCallback(stream_.get(), on_callback, this, 0), "cudaStreamAddCallback");
    } else {
      require(cudaLaunchHostFunc(stream_.get(), hold, this), "cudaLaunchHostFunc");
    }
  }

 private:
  static void CUDART_CB on_callback(cudaStream_t /*stream*/, cudaError_t /*status*/, void* self) { hold(self); }
  static void CUDART_CB hold(void* self) {
    auto* const owner = static_cast<holder*>(self);
    std::this_thread::sleep_for(owner->length_);
    owner->holding_.store(false, std::memory_order_release);
  }

  const notice way_;
  const microseconds length_;
  bare_stream stream_ = make_bare_stream();
  clock::time_point next_{};
  std::atomic<bool> holding_{false};  ///< set by the thread that enqueues, cleared by CUDA's
};

/// Batches at a steady pace over all streams, with one kind of notice.
class observed_batches {
 public:
  observed_batches(const batch_form& form, const std::vector<bare_stream>& all_streams)
      : places_(streams * batches_a_stream) {
    for (std::size_t at = 0; at < places_.size(); ++at) {
      places_[at].batch = std::make_unique<bare_batch>(form, all_streams[at % all_streams.size()].get(), bytes);
    }
  }

  /// Latencies in µs from the time when each batch was due. `longest_submit_us`: the slowest submit.
  std::vector<double> run(clock::duration length, holder& held, double& longest_submit_us);

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

std::vector<double> observed_batches::run(clock::duration length, holder& held, double& longest_submit_us) {
  const auto count = static_cast<std::size_t>(length / pace);
  std::vector<double> latencies;
  latencies.reserve(count);
  patience left;
  const clock::time_point begin = clock::now();
  std::size_t sent = 0;
  while (latencies.size() < count) {
    const clock::time_point now = clock::now();
    if (sent < count) {
      held.hold_when_due(now);
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
      left.poll();
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
  holder held(held_by, length);
  const std::vector<double> latencies = observed.run(duration_of_run, held, longest_submit_us);
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
  for (const notice way : {notice::callback, notice::host_function}) {
    for (const int held_ms : {0, 1, 5}) {
      for (std::size_t observer = 0; observer < std::size(observers); ++observer) {
        all.push_back({observer, way, microseconds{held_ms * 1000}, {}, {}, {}, {}, {}});
      }
    }
  }
  return all;
}

}  // namespace

// What a callback that blocks CUDA's thread on one stream does to completions on the others: batches at a steady pace,
// with latencies from the time each was due, by the way in which the host learns of them.
ordered_json run_isolation(const bench_options& options) {
  ordered_json result = new_result("isolation", options, use_gpu(options));
  result.update({{"streams", streams},
                 {"bytes", bytes},
                 {"pace_us", pace.count()},
                 {"hold_period_ms", hold_period.count() / 1000}});
  const std::vector<bare_stream> all_streams = make_bare_streams(streams);
  std::vector<std::unique_ptr<observed_batches>> observed;
  for (const batch_form& form : observers) {
    observed.push_back(std::make_unique<observed_batches>(form, all_streams));
  }
  std::vector<cell> all = cells();
  interleave(options, "isolation", [&](int /*repeat*/) {
    for (cell& each : all) {
      each.run(*observed[each.observer], std::chrono::milliseconds{options.quick ? 60 : 400});
    }
  });
  for (const cell& each : all) {
    result["rows"].push_back(each.row());
  }
  return result;
}

}  // namespace penstock::bench
