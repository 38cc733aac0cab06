#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/benchmarks.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

constexpr std::size_t streams = 8;
constexpr std::size_t payloads[] = {256, 4096, 65536, 1048576};

constexpr batch_form forms[] = {
    {.name = "stream callback", .told = notice::callback},
    {.name = "host function", .told = notice::host_function},
    {.name = "event polled", .told = notice::event},
    {.name = "graph, event polled", .told = notice::event, .graph = true},
    {.name = "mapped memory, flag polled", .told = notice::flag},
};

double microseconds_since(clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(clock::now() - begin).count();
}

/// One form at one payload: a batch a stream, and what the repeats gave.
struct contender {
  batch_form form;
  std::vector<std::unique_ptr<bare_batch>> batches;
  std::vector<double> submit_us, latency_p50_us, latency_p99_us, latency_cpu_us;
  std::vector<double> batches_per_second, rate_cpu_us;

  void time_one_at_a_time(std::size_t count);
  void time_all_streams(std::chrono::milliseconds duration);
};

void contender::time_one_at_a_time(std::size_t count) {
  bare_batch& batch = *batches.front();
  std::vector<double> times;
  std::vector<double> submits;
  times.reserve(count);
  submits.reserve(count);
  for (std::size_t warm_up = 0; warm_up < count / 10; ++warm_up) {
    batch.submit();
    batch.wait();
  }
  const double cpu_begin = process_cpu_seconds();
  for (std::size_t at = 0; at < count; ++at) {
    const clock::time_point begin = clock::now();
    batch.submit();
    submits.push_back(microseconds_since(begin));
    batch.wait();
    times.push_back(microseconds_since(begin));
  }
  latency_cpu_us.push_back((process_cpu_seconds() - cpu_begin) * 1e6 / static_cast<double>(count));
  submit_us.push_back(quantile(submits, 0.5));
  latency_p50_us.push_back(quantile(times, 0.5));
  latency_p99_us.push_back(quantile(times, 0.99));
}

// Every stream has one batch in flight; what is done is submitted again.
void contender::time_all_streams(std::chrono::milliseconds duration) {
  patience left;
  std::size_t completed = 0;
  for (const auto& each : batches) {
    each->submit();
  }
  const double cpu_begin = process_cpu_seconds();
  const clock::time_point begin = clock::now();
  while (clock::now() - begin < duration) {
    bool progress = false;
    for (const auto& each : batches) {
      if (each->done()) {
        each->submit();
        ++completed;
        progress = true;
      }
    }
    if (progress) {
      left.renew();
    } else {
      left.poll();
    }
  }
  const double seconds = microseconds_since(begin) * 1e-6;
  const double cpu_seconds = process_cpu_seconds() - cpu_begin;
  batches_per_second.push_back(static_cast<double>(completed) / seconds);
  rate_cpu_us.push_back(completed == 0 ? 0 : cpu_seconds * 1e6 / static_cast<double>(completed));
  for (const auto& each : batches) {
    each->wait();
    each->check();
  }
}

ordered_json measure(std::size_t bytes, const std::vector<bare_stream>& all_streams, const bench_options& options) {
  std::vector<std::unique_ptr<contender>> contenders;
  for (const batch_form& form : forms) {
    auto added = std::make_unique<contender>();
    added->form = form;
    for (const bare_stream& stream : all_streams) {
      added->batches.push_back(std::make_unique<bare_batch>(form, stream.get(), bytes));
    }
    contenders.push_back(std::move(added));
  }
  interleave(options, fmt::format("completion: {} bytes", bytes), [&](int /*repeat*/) {
    for (const auto& each : contenders) {
      each->time_one_at_a_time(options.quick ? 100 : 1000);
      each->time_all_streams(std::chrono::milliseconds{options.quick ? 20 : 100});
    }
  });
  ordered_json row = {{"bytes", bytes}};
  for (const auto& each : contenders) {
    row[each->form.name] = {{"submit_us", to_json(spread_of(each->submit_us))},
                            {"latency_p50_us", to_json(spread_of(each->latency_p50_us))},
                            {"latency_p99_us", to_json(spread_of(each->latency_p99_us))},
                            {"latency_cpu_us", to_json(spread_of(each->latency_cpu_us))},
                            {"batches_per_second", to_json(spread_of(each->batches_per_second))},
                            {"rate_cpu_us", to_json(spread_of(each->rate_cpu_us))}};
  }
  return row;
}

}  // namespace

// How soon the host learns that a batch is done, and what that costs it, by the ways that CUDA has: one batch at a
// time, and one on each of eight streams.
ordered_json run_completion(const bench_options& options) {
  ordered_json result = new_result("completion", options, use_gpu(options));
  result["streams"] = streams;
  const std::vector<bare_stream> all_streams = make_bare_streams(streams);
  for (const std::size_t bytes : payloads) {
    result["rows"].push_back(measure(bytes, all_streams, options));
  }
  return result;
}

}  // namespace penstock::bench
