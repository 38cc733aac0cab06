#include "tests/bench/completion/completion.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
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

constexpr std::size_t streams = 8;
constexpr std::size_t payloads[] = {256, 4096, 65536, 1048576};

const std::vector<batch_form>& forms() {
  static const std::vector<batch_form> all{
      {.name = "stream callback", .told = notice::callback},
      {.name = "stream callback, thread asleep", .told = notice::callback, .asleep = true},
      {.name = "host function", .told = notice::host_function},
      {.name = "event polled", .told = notice::event},
      {.name = "graph, event polled", .told = notice::event, .graph = true},
      {.name = "flag by a kernel behind", .told = notice::flag_behind},
      {.name = "graph, flag by a kernel behind", .told = notice::flag_behind, .graph = true},
      {.name = "flag by the stream", .told = notice::flag_by_stream},
      {.name = "mapped input, event polled", .told = notice::event, .mapped_input = true},
      {.name = "mapped input and output, flag by the kernel",
       .told = notice::flag_in_kernel,
       .mapped_input = true,
       .mapped_output = true},
  };
  return all;
}

double microseconds_since(clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(clock::now() - begin).count();
}

/// One form at one payload: a batch a stream, and what the repeats gave.
struct contender {
  batch_form form;
  wake_up wake;
  std::vector<std::unique_ptr<bare_batch>> batches;
  std::vector<double> latency_p50_us, latency_p99_us, latency_cpu_us;
  std::vector<double> batches_per_second, rate_cpu_us;

  void time_one_at_a_time(std::size_t count);
  void time_all_streams(std::chrono::milliseconds duration);
};

void contender::time_one_at_a_time(std::size_t count) {
  bare_batch& batch = *batches.front();
  std::vector<double> times;
  times.reserve(count);
  for (std::size_t warm_up = 0; warm_up < count / 10; ++warm_up) {
    batch.submit();
    batch.wait();
  }
  const double cpu_begin = process_cpu_seconds();
  for (std::size_t at = 0; at < count; ++at) {
    const clock::time_point begin = clock::now();
    batch.submit();
    batch.wait();
    times.push_back(microseconds_since(begin));
  }
  latency_cpu_us.push_back((process_cpu_seconds() - cpu_begin) * 1e6 / static_cast<double>(count));
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
    } else if (!form.asleep) {
      left.turn();
    } else if (!wake.rest(patience::seconds)) {
      patience::end();
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

ordered_json measure(std::size_t bytes, const std::vector<bare_stream>& on, const bench_options& options) {
  std::vector<std::unique_ptr<contender>> contenders;
  for (const batch_form& form : available(forms())) {
    auto made = std::make_unique<contender>();
    made->form = form;
    for (const bare_stream& stream : on) {
      made->batches.push_back(std::make_unique<bare_batch>(form, stream.get(), bytes, 1, &made->wake));
    }
    contenders.push_back(std::move(made));
  }
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (const auto& each : contenders) {
      each->time_one_at_a_time(options.quick ? 100 : 1000);
      each->time_all_streams(std::chrono::milliseconds{options.quick ? 20 : 100});
    }
    std::fprintf(stderr, "\rcompletion: %zu bytes, repeat %d of %d   ", bytes, repeat + 1, options.repeats);
  }
  ordered_json row = {{"bytes", bytes}, {"ways", ordered_json::object()}};
  for (const auto& each : contenders) {
    row["ways"][each->form.name] = {{"latency_p50_us", to_json(spread_of(each->latency_p50_us))},
                                    {"latency_p99_us", to_json(spread_of(each->latency_p99_us))},
                                    {"latency_cpu_us", to_json(spread_of(each->latency_cpu_us))},
                                    {"batches_per_second", to_json(spread_of(each->batches_per_second))},
                                    {"rate_cpu_us", to_json(spread_of(each->rate_cpu_us))}};
  }
  return row;
}

}  // namespace

ordered_json run_completion(const bench_options& options) {
  ordered_json result = {{"benchmark", "completion"},  {"machine", machine_facts()}, {"device", use_gpu(options)},
                         {"repeats", options.repeats}, {"streams", streams},         {"rows", ordered_json::array()}};
  std::vector<bare_stream> on(streams);
  for (bare_stream& each : on) {
    each = make_bare_stream();
  }
  for (const std::size_t bytes : payloads) {
    result["rows"].push_back(measure(bytes, on, options));
  }
  std::fputc('\n', stderr);
  return result;
}

}  // namespace penstock::bench
