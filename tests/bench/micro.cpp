#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "daemon/batch/completion_queue.hpp"
#include "daemon/batch/slot_ring.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/pipeline/check.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/clients.hpp"
#include "daemon/telemetry/recorder.hpp"
#include "proto/message.hpp"
#include "tests/bench/benchmarks.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

constexpr std::size_t slots = 16;  // the daemon's default

/// Pointers from one thread to another, in order. Both wait by yielding.
template <typename Pointer>
class hand_over {
 public:
  /// Waits while `slots` pointers have not been taken.
  void put(Pointer pointer) noexcept {
    std::atomic<Pointer>& place = places_[put_++ % slots];
    while (place.load(std::memory_order_acquire) != nullptr) {
      std::this_thread::yield();
    }
    place.store(pointer, std::memory_order_release);
  }
  /// nullptr if there is none.
  [[nodiscard]] Pointer take() noexcept {
    std::atomic<Pointer>& place = places_[taken_ % slots];
    Pointer const pointer = place.load(std::memory_order_acquire);
    if (pointer != nullptr) {
      place.store(nullptr, std::memory_order_release);
      ++taken_;
    }
    return pointer;
  }

 private:
  std::array<std::atomic<Pointer>, slots> places_{};  // set by the giver, cleared by the taker
  std::size_t put_ = 0;                               // the giver's
  std::size_t taken_ = 0;                             // the taker's
};

/// Calls `work` with each pointer on a thread of its own.
template <typename Pointer, typename Work>
class other_thread {
 public:
  explicit other_thread(Work work) : work_(work), thread_([this] { run(); }) {}
  other_thread(const other_thread&) = delete;
  other_thread& operator=(const other_thread&) = delete;
  ~other_thread() {
    stopped_ = true;
    thread_.join();
  }
  void give(Pointer pointer) noexcept { passed_.put(pointer); }

 private:
  void run() {
    for (;;) {
      if (Pointer const next = passed_.take(); next != nullptr) {
        work_(next);
      } else if (stopped_) {
        return;
      } else {
        std::this_thread::yield();
      }
    }
  }

  Work work_;
  hand_over<Pointer> passed_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

struct slot_bench {
  std::unique_ptr<device> opened = open_host_device(1);
  wake_event signal;
  completion_queue completed{signal};
  slot_ring all{*opened, slots,     {.pinned_input = 4096, .pinned_output = 64, .workspace = 64, .max_frames = 1},
                false,   completed, signal};
};

void slot_on_one_thread(benchmark::State& state) {
  slot_bench bench;
  for (auto _ : state) {
    slot_ring::drop(*bench.all.claim());
    (void)bench.all.collect();
  }
}

void slot_dropped_by_another_thread(benchmark::State& state) {
  slot_bench bench;
  const auto drop = [](slot* held) { slot_ring::drop(*held); };
  {
    other_thread<slot*, decltype(drop)> dropper(drop);
    for (auto _ : state) {
      slot* claimed = bench.all.claim();
      for (; claimed == nullptr; claimed = bench.all.claim()) {
        if (!bench.all.collect()) {
          std::this_thread::yield();
        }
      }
      dropper.give(claimed);
    }
  }
  (void)bench.all.collect();
}

void completion_on_one_thread(benchmark::State& state) {
  wake_event signal;
  completion_queue queue(signal);
  completion_node node;
  for (auto _ : state) {
    queue.push(node);
    benchmark::DoNotOptimize(queue.take());
  }
}

void completion_pushed_by_another_thread(benchmark::State& state) {
  wake_event signal;
  completion_queue queue(signal);
  std::vector<completion_node> nodes(slots);
  const auto push = [&](completion_node* node) { queue.push(*node); };
  other_thread<completion_node*, decltype(push)> pusher(push);
  for (completion_node& each : nodes) {
    pusher.give(&each);
  }
  completion_node* next = nullptr;
  for (auto _ : state) {
    while (next == nullptr) {
      next = queue.take();
      if (next == nullptr) {
        std::this_thread::yield();
      }
    }
    completion_node* const taken = next;
    next = taken->next;
    pusher.give(taken);
  }
}

std::vector<std::byte> submit_part() {
  wire::message_header header;
  header.type = wire::message_type::submit;
  header.frames = 1;
  header.tensors = 1;
  wire::tensor_header tensor;
  tensor.type = wire::float32_type;
  tensor.dimensions = 2;
  tensor.shape = {1, 1024};
  tensor.bytes = 4096;
  std::vector<std::byte> part(wire::part_bytes(1));
  wire::encode(header, part);
  wire::encode(tensor, std::span(part).subspan(wire::header_bytes));
  return part;
}

void message_decoded(benchmark::State& state) {
  const std::vector<std::byte> part = submit_part();
  wire::message_header header;
  wire::tensor_header tensor;
  for (auto _ : state) {
    benchmark::DoNotOptimize(part.data());
    benchmark::DoNotOptimize(wire::decode(part, header));
    benchmark::DoNotOptimize(wire::decode_tensor(part, header, 0, tensor));
  }
}

void message_encoded(benchmark::State& state) {
  std::vector<std::byte> part(wire::part_bytes(1));
  wire::message_header header;
  header.type = wire::message_type::result;
  header.tensors = 1;
  const wire::tensor_header tensor;
  for (auto _ : state) {
    wire::encode(header, part);
    wire::encode(tensor, std::span(part).subspan(wire::header_bytes));
    benchmark::DoNotOptimize(part.data());
    benchmark::ClobberMemory();
  }
}

pipeline_declaration affine_declaration(std::size_t frames) {
  pipeline_declaration declaration;
  declaration.name = "y";
  declaration.input = {element_type::f32, {64}, false};
  declaration.batch.max_frames = static_cast<std::int64_t>(frames);
  stage_declaration stage;
  stage.name = "y";
  stage.op = "affine";
  stage.settings.set("a", 2.0);
  stage.settings.set("b", 1.0);
  declaration.stages.push_back(std::move(stage));
  return check_pipeline(std::move(declaration));
}

/// Slots with full batches and the recorder that keeps them in the timeline, without device events. More slots and
/// requests than a core's first cache holds.
class timeline_bench {
 public:
  explicit timeline_bench(std::size_t requests) : opened_(open_host_device(1)), requests_(slots * requests) {
    plans_.push_back(compile_plan(affine_declaration(requests), 0, *opened_));
    clocks_ = std::make_unique<clock_pool>(*opened_, plans_, 0);
    recorder_ = std::make_unique<recorder>(*opened_, *clocks_, plans_, slots, timing_settings{.batches_per_second = 0},
                                           clock::now);
    for (std::size_t at = 0; at < slots; ++at) {
      slots_.push_back(std::make_unique<slot>());
      fill(*slots_.back(), at, requests);
    }
  }

  void keep(std::size_t batch) {
    slot& kept = *slots_[batch % slots];
    const time_point now = clock::now();
    recorder_->turn(now);
    recorder_->opened(kept);
    recorder_->closed(kept);
    kept.work.launched = now;
    recorder_->launching(kept);
    recorder_->completed(kept);
    for (const request* each : kept.work.requests) {
      recorder_->replied(*each);
    }
    recorder_->collected();
  }

 private:
  void fill(slot& filled, std::size_t index, std::size_t requests) {
    constexpr std::size_t messages_per_clock = 16;  // a shard reads the clock once for so many
    filled.index = static_cast<std::uint32_t>(index);
    filled.streams = {0};
    filled.work.pipeline = &plans_.front();
    filled.work.frames = static_cast<std::int64_t>(requests);
    client_record& client = *clients_.admit("client", clock::now());
    clock::time_point received;
    for (std::size_t place = 0; place < requests; ++place) {
      request& added = requests_[index * requests + place];
      received = place % messages_per_clock == 0 ? clock::now() : received;
      added.client = &client;
      added.pipeline = &plans_.front();
      added.id = place;
      added.frames = 1;
      added.received = received;
      filled.work.requests.push_back(&added);
    }
  }

  std::unique_ptr<device> opened_;
  std::vector<plan> plans_;
  std::unique_ptr<clock_pool> clocks_;
  std::unique_ptr<recorder> recorder_;
  client_table clients_{1, 1024};
  std::vector<request> requests_;
  std::vector<std::unique_ptr<slot>> slots_;
};

void timeline_batch_kept(benchmark::State& state) {
  timeline_bench bench(static_cast<std::size_t>(state.range(0)));
  std::size_t batch = 0;
  for (auto _ : state) {
    bench.keep(batch++);
  }
}

BENCHMARK(slot_on_one_thread)->UseRealTime();
BENCHMARK(slot_dropped_by_another_thread)->UseRealTime();
BENCHMARK(completion_on_one_thread)->UseRealTime();
BENCHMARK(completion_pushed_by_another_thread)->UseRealTime();
BENCHMARK(message_decoded)->UseRealTime();
BENCHMARK(message_encoded)->UseRealTime();
BENCHMARK(timeline_batch_kept)->Arg(1)->Arg(64)->UseRealTime();

/// Collects the repetitions of each benchmark.
class collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration && !run.error_occurred) {
        ns_[run.run_name.function_name + (run.run_name.args.empty() ? "" : ", " + run.run_name.args)].push_back(
            run.GetAdjustedRealTime());
      }
    }
  }
  [[nodiscard]] const std::map<std::string, std::vector<double>>& ns() const noexcept { return ns_; }

 private:
  std::map<std::string, std::vector<double>> ns_;
};

}  // namespace

// Costs of single steps on the path of a frame, by Google Benchmark, in random order: a slot, a completion, a message,
// a batch in the timeline with 1 and 64 requests. On few cores the rows with two threads also measure the scheduler.
ordered_json run_micro(const bench_options& options) {
  std::vector<std::string> lines{"penstock-bench", "--benchmark_repetitions=" + std::to_string(options.repeats),
                                 "--benchmark_enable_random_interleaving=true",
                                 std::string("--benchmark_min_time=") + (options.quick ? "0.01" : "0.2")};
  std::vector<char*> arguments;
  for (std::string& line : lines) {
    arguments.push_back(line.data());
  }
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  collector all;
  benchmark::RunSpecifiedBenchmarks(&all);
  ordered_json result = new_result("micro", options, no_device());
  for (const auto& [name, ns] : all.ns()) {
    result["rows"].push_back({{"step", name}, {"ns", to_json(spread_of(ns))}});
  }
  return result;
}

}  // namespace penstock::bench
