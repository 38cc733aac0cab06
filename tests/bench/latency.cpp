#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/config/settings.hpp"
#include "daemon/device/backend.hpp"
#include "tests/bench/benchmarks.hpp"
#include "tests/bench/closed_loop.hpp"
#include "tests/bench/open_loop.hpp"
#include "tests/bench/servers.hpp"
#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using clock = std::chrono::steady_clock;

void require(fault failed) {
  if (failed) {
    throw std::runtime_error("the device failed: " + std::string(failed.name));
  }
}

std::unique_ptr<operation> compile_affine(device& target, std::int64_t floats) {
  parameters settings;
  settings.set("a", 2.0);
  settings.set("b", 1.0);
  const std::vector<tensor_spec> inputs{{element_type::f32, {floats}, false}};
  return target.compile("affine", {settings, inputs, 1});
}

/// One batch on the device without anything around it: copy in, one `affine` kernel, copy out, notice to the host.
class single_batch {
 public:
  single_batch(std::unique_ptr<device> opened, std::size_t bytes)
      : device_(std::move(opened)),
        bytes_(bytes),
        pinned_input_(device_->allocate_pinned(bytes)),
        pinned_output_(device_->allocate_pinned(bytes)),
        input_(device_->allocate(bytes)),
        output_(device_->allocate(bytes)),
        kernel_(compile_affine(*device_, static_cast<std::int64_t>(bytes / sizeof(float)))),
        scratch_(device_->allocate(std::max<std::size_t>(kernel_->scratch_bytes(), 1))),
        stream_(device_->open_stream(stream_priority::normal)),
        done_(device_->open_event(false)),
        operands_{input_.get()},
        launch_{.inputs = operands_,
                .output = output_.get(),
                .scratch = scratch_.get(),
                .extent = {1, static_cast<std::int64_t>(bytes / sizeof(float))},
                .session = {}} {}

  /// Median duration of `count` batches, one after the other, until the host knows of each.
  double p50_us(completion_mode mode, std::size_t count) {
    std::vector<double> took;
    for (std::size_t at = 0; at < count; ++at) {
      const clock::time_point begin = clock::now();
      require(stream_->copy_in(input_.get(), pinned_input_.get(), bytes_));
      require(stream_->launch(*kernel_, launch_));
      require(stream_->copy_out(pinned_output_.get(), output_.get(), bytes_));
      if (mode == completion_mode::callback) {
        await_callback();
      } else {
        await_event();
      }
      took.push_back(std::chrono::duration<double, std::micro>(clock::now() - begin).count());
    }
    return quantile(std::move(took), 0.5);
  }

 private:
  void await_callback() {
    told_.store(false, std::memory_order_relaxed);
    require(stream_->on_complete(
        [](void* context, fault /*status*/) noexcept {
          static_cast<std::atomic<bool>*>(context)->store(true, std::memory_order_release);
        },
        &told_));
    while (!told_.load(std::memory_order_acquire)) {
    }
  }

  void await_event() {
    require(stream_->record(*done_));
    fault why;
    while (done_->query(why) == event::state::pending) {
    }
    require(why);
  }

  std::unique_ptr<device> device_;
  std::size_t bytes_;
  device_memory pinned_input_;
  device_memory pinned_output_;
  device_memory input_;
  device_memory output_;
  std::unique_ptr<operation> kernel_;
  device_memory scratch_;
  std::unique_ptr<stream> stream_;
  std::unique_ptr<event> done_;
  std::array<const void*, 1> operands_;
  operation_arguments launch_;
  std::atomic<bool> told_{false};  // written by p50_us() and by the device's thread
};

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::size_t frame_bytes = 4096;
constexpr std::size_t floats = frame_bytes / sizeof(float);
constexpr std::size_t clients = 8;
constexpr double loads[] = {0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95};
constexpr std::array<std::pair<const char*, double>, 5> quantiles{
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}}};

struct contender {
  const char* name;
  std::string endpoint;
  bool hello;
};

// Of one server at one load.
struct load_figures {
  std::array<std::vector<double>, quantiles.size()> quantiles_us;  // by quantile, then repeat; of RESULTs or echoes
  std::uint64_t sent = 0;                                          // in all repeats, as the counts below
  std::uint64_t refused = 0;
  std::uint64_t unanswered = 0;

  void add(const open_loop_totals& run) {
    std::vector<double> latencies;
    for (const open_loop_result& each : run.results) {
      latencies.push_back(each.latency_us);
    }
    for (std::size_t part = 0; part < quantiles.size(); ++part) {
      quantiles_us[part].push_back(quantile(latencies, quantiles[part].second));
    }
    sent += run.sent;
    refused += run.refused;
    unanswered += run.unanswered;
  }
  [[nodiscard]] ordered_json json() const {
    ordered_json all;
    for (std::size_t part = 0; part < quantiles.size(); ++part) {
      all[quantiles[part].first] = to_json(spread_of(quantiles_us[part]));
    }
    all.update({{"sent", sent}, {"refused", refused}, {"unanswered", unanswered}});
    return all;
  }
};

open_loop_totals run_load(const contender& server, double rate, std::chrono::nanoseconds span, std::uint64_t seed) {
  open_loop_threads threads({.endpoint = server.endpoint,
                             .floats = floats,
                             .clients = clients,
                             .rate = rate / static_cast<double>(clients),
                             .span = span,
                             .seed = seed,
                             .hello = server.hello});
  threads.start();
  while (!threads.done_within(milliseconds{1000})) {
  }
  return threads.totals();
}

double capacity_of(const contender& server, bool quick) {
  closed_loop loop({.endpoint = server.endpoint, .floats = floats, .clients = clients, .in_flight = 16});
  loop.run(milliseconds{200});
  return loop.run(milliseconds{quick ? 300 : 3000}).requests_per_second;
}

ordered_json measure_loads(const std::vector<contender>& contenders, double capacity, const bench_options& options) {
  const std::chrono::nanoseconds span = milliseconds{options.quick ? 200 : 3000};
  std::map<double, std::vector<load_figures>> all;  // by load, then contender
  interleave(options, "latency", [&](int repeat) {
    for (const double load : loads) {
      all[load].resize(contenders.size());
      for (std::size_t at = 0; at < contenders.size(); ++at) {
        all[load][at].add(run_load(contenders[at], load * capacity, span, static_cast<std::uint64_t>(repeat) + 1));
      }
    }
  });
  ordered_json rows = ordered_json::array();
  for (const auto& [load, figures] : all) {
    ordered_json row = {{"load", load}, {"requests_per_second", load * capacity}};
    for (std::size_t at = 0; at < contenders.size(); ++at) {
      row[contenders[at].name] = figures[at].json();
    }
    rows.push_back(row);
  }
  return rows;
}

// One request at a time on an idle daemon, beside its parts alone, turn by turn.
ordered_json measure_idle(const std::vector<contender>& contenders, const bench_options& options) {
  comparison all;
  for (const contender& each : contenders) {
    all.add(each.name, {.endpoint = each.endpoint, .hello = each.hello, .floats = floats});
  }
  const milliseconds span = options.turn();
  all.warm_up(span / 4);
  single_batch batch(options.backend == "cuda" ? open_cuda_device(0) : open_host_device(1), frame_bytes);
  std::array<std::vector<double>, 2> bare;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    all.turn(span);
    bare[0].push_back(batch.p50_us(completion_mode::callback, options.quick ? 200 : 5000));
    bare[1].push_back(batch.p50_us(completion_mode::poll, options.quick ? 200 : 5000));
  }
  ordered_json result = all.figures();
  result["bare_callback_us"] = to_json(spread_of(bare[0]));
  result["bare_poll_us"] = to_json(spread_of(bare[1]));
  result["bare_turns"] = {{"callback", bare[0]}, {"poll", bare[1]}};
  return result;
}

}  // namespace

// Latency of 4 KiB requests: at 10 to 95 % of the daemon's capacity by open-loop load, and one at a time on an idle
// daemon beside the round trip of an echo and a batch on the bare device.
ordered_json run_latency(const bench_options& options) {
  endpoint_source endpoints;
  const std::string configuration = affine_configuration{.floats = {floats}}.text();
  const echo_server echo(endpoints.tcp());
  const testing::daemon_process callback({options.backend, "callback", configuration, endpoints.tcp()});
  const testing::daemon_process poll({options.backend, "poll", configuration, endpoints.tcp()});
  std::vector<contender> contenders{
      {"echo", echo.endpoint(), false}, {"callback", callback.endpoint(), true}, {"poll", poll.endpoint(), true}};
  std::optional<testing::daemon_process> automatic;  // on the host `auto` is `callback`
  if (options.backend == "cuda") {
    automatic.emplace(testing::daemon_options{options.backend, "auto", configuration, endpoints.tcp()});
    contenders.push_back({"auto", automatic->endpoint(), true});
  }
  const double capacity =
      std::min(capacity_of(contenders[1], options.quick), capacity_of(contenders[2], options.quick));
  ordered_json result = new_result("latency", options, device_of(callback.endpoint()));
  result.update({{"bytes", frame_bytes}, {"clients", clients}, {"capacity_per_second", capacity}});
  result["rows"] = measure_loads(contenders, capacity, options);
  result["idle"] = measure_idle(contenders, options);
  return result;
}

}  // namespace penstock::bench
