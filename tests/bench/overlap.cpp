#include "tests/bench/overlap.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <penstock/client.hpp>

#include "daemon/device/backend.hpp"
#include "tests/bench/benchmarks.hpp"
#include "tests/bench/servers.hpp"
#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

constexpr std::size_t chunk_counts[] = {1, 2, 4, 8, 16, 32};
constexpr std::size_t max_chunks = 64;

void require(fault failed) {
  if (failed) {
    throw std::runtime_error(fmt::format("the device failed: {}", failed.name));
  }
}

parameters settings_of(const overlap_work& work) {
  parameters settings;
  settings.set("template", matched_filter{work.taps}.values());
  settings.set("mode", std::string("same"));
  settings.set("method", std::string("direct"));
  return settings;
}

std::vector<tensor_spec> inputs() {
  return {{element_type::f32, {static_cast<std::int64_t>(overlap_work::row)}, false}};
}

void fill(std::byte* memory, std::size_t bytes) {
  std::mt19937 random(20240609);
  std::uniform_real_distribution<float> value(-1, 1);
  for (std::size_t at = 0; at < bytes; at += sizeof(float)) {
    const float next = value(random);
    std::memcpy(memory + at, &next, sizeof next);
  }
}

/// Microseconds of each stage alone, by the device's clock: the shortest of several runs.
struct stage_times {
  double copy_in = 1e12;
  double compute = 1e12;
  double copy_out = 1e12;
};

stage_times measure_stages(device& target, const overlap_work& work) {
  const overlap_buffers buffers(target, work);
  const std::unique_ptr<operation> kernel = work.compile(target);
  const std::vector<chunk> whole = chunks_of(buffers, 1);
  std::vector<std::unique_ptr<event>> points;
  for (int point = 0; point < 4; ++point) {
    points.push_back(target.open_event(true));
  }
  const std::unique_ptr<stream> queue = target.open_stream(stream_priority::normal);
  stage_times best;
  for (int turn = 0; turn < 7; ++turn) {
    require(queue->record(*points[0]));
    require(queue->copy_in(buffers.input.get(), buffers.pinned_input.get(), work.bytes()));
    require(queue->record(*points[1]));
    require(queue->launch(*kernel, whole.front().launch));
    require(queue->record(*points[2]));
    require(queue->copy_out(buffers.pinned_output.get(), buffers.output.get(), work.bytes()));
    require(queue->record(*points[3]));
    require(queue->synchronize());
    if (turn > 0) {
      best.copy_in = std::min(best.copy_in, points[1]->elapsed_us(*points[0]));
      best.compute = std::min(best.compute, points[2]->elapsed_us(*points[1]));
      best.copy_out = std::min(best.copy_out, points[3]->elapsed_us(*points[2]));
    }
  }
  return best;
}

// As many taps as make the kernel take as long as a copy. Its time grows with them, though not from zero: a few steps
// of the rule of three come close.
std::pair<overlap_work, stage_times> tune(device& target, std::size_t rows) {
  std::pair<overlap_work, stage_times> best;
  double best_miss = 1e12;
  overlap_work next{rows, 64};
  for (int step = 0; step < 6; ++step) {
    const stage_times times = measure_stages(target, next);
    const double copy = (times.copy_in + times.copy_out) / 2;
    const double miss = std::abs(std::log(times.compute / copy));
    if (miss < best_miss) {
      best_miss = miss;
      best = {next, times};
    }
    const double wanted = std::round(static_cast<double>(next.taps) * copy / times.compute);
    const auto taps = static_cast<std::size_t>(std::clamp(wanted, 1.0, 8191.0));
    if (taps == next.taps) {
      break;
    }
    next.taps = taps;
  }
  return best;
}

// The streams of our device: stands for plain CUDA on the host backend.
class device_way final : public overlap_way {
 public:
  device_way(device& target, const overlap_buffers& buffers, operation& kernel, std::size_t chunks)
      : buffers_(buffers), kernel_(kernel), chunks_(chunks_of(buffers, chunks)) {
    while (streams_.size() < overlap_streams) {
      streams_.push_back(target.open_stream(stream_priority::normal));
    }
  }

  double run() override {
    const clock::time_point begin = clock::now();
    for (std::size_t at = 0; at < chunks_.size(); ++at) {
      const chunk& each = chunks_[at];
      stream& queue = *streams_[at % streams_.size()];
      require(queue.copy_in(buffers_.input.get() + each.offset, buffers_.pinned_input.get() + each.offset, each.bytes));
      require(queue.launch(kernel_, each.launch));
      require(
          queue.copy_out(buffers_.pinned_output.get() + each.offset, buffers_.output.get() + each.offset, each.bytes));
    }
    for (const std::unique_ptr<stream>& each : streams_) {
      require(each->synchronize());
    }
    return std::chrono::duration<double>(clock::now() - begin).count();
  }

 private:
  const overlap_buffers& buffers_;
  operation& kernel_;
  std::vector<chunk> chunks_;
  std::vector<std::unique_ptr<stream>> streams_;
};

client_options options_for(const std::string& endpoint, const overlap_work& work, std::size_t chunks) {
  client_options options;
  options.url = endpoint;
  options.name = "penstock-bench";
  options.retry_after = std::chrono::seconds{20};
  options.transport = transport::shared_memory;
  options.shared_bytes = 2 * (chunks + 1) * (work.bytes() / chunks + 4096);
  options.shared_at_first = options.shared_bytes;
  options.shared_from_bytes = 1;
  return options;
}

/// A daemon and a client with shared memory: one request a chunk, and the frames lie where the device copies them from.
class daemon_way final : public overlap_way {
 public:
  daemon_way(const std::string& backend, const char* completion, const overlap_work& work, std::size_t chunks)
      : daemon_({backend, completion, work.configuration(chunks), endpoint_source().tcp()}),
        client_(options_for(daemon_.endpoint(), work, chunks)),
        frames_per_chunk_(static_cast<std::uint32_t>(work.rows / chunks)),
        bytes_per_chunk_(work.bytes() / chunks) {
    while (chunks_.size() < chunks) {
      std::optional<lent_memory> memory = client_.lend(bytes_per_chunk_);
      if (!memory) {
        throw std::runtime_error("the daemon shares no memory: " + client_.shared_memory().absence);
      }
      fill(memory->bytes().data(), bytes_per_chunk_);
      chunks_.push_back(std::move(*memory));
    }
  }

  double run() override {
    std::vector<std::future<result>> results;
    const clock::time_point begin = clock::now();
    for (const lent_memory& each : chunks_) {
      client::request request;
      request.bytes = std::span<const std::byte>(each.bytes()).first(bytes_per_chunk_);
      request.frames = frames_per_chunk_;
      request.release = [] {};
      results.push_back(client_.submit("work", std::move(request)));
    }
    for (std::future<result>& each : results) {
      (void)each.get();
    }
    return std::chrono::duration<double>(clock::now() - begin).count();
  }

 private:
  testing::daemon_process daemon_;
  client client_;
  std::uint32_t frames_per_chunk_;
  std::size_t bytes_per_chunk_;
  std::vector<lent_memory> chunks_;
};

/// Ways by name and number of chunks, and the seconds of each repeat.
class overlap_ways {
 public:
  void add(const std::string& name, std::size_t chunks, std::unique_ptr<overlap_way> way) {
    way->run();
    way->run();
    ways_[{name, chunks}] = std::move(way);
  }
  void turn() {
    for (const auto& [name, way] : ways_) {
      seconds_[name].push_back(way->run());
    }
  }
  [[nodiscard]] const std::vector<double>& seconds(const std::string& name, std::size_t chunks) const {
    return seconds_.at({name, chunks});
  }

 private:
  using key = std::pair<std::string, std::size_t>;
  std::map<key, std::unique_ptr<overlap_way>> ways_;
  std::map<key, std::vector<double>> seconds_;
};

ordered_json milliseconds(std::vector<double> seconds) {
  for (double& each : seconds) {
    each *= 1e3;
  }
  return to_json(spread_of(seconds));
}

ordered_json figures_of(const overlap_ways& ways, const char* name, std::size_t chunks) {
  const std::vector<double>& own = ways.seconds(name, chunks);
  return {{"ms", milliseconds(own)},
          {"speedup", to_json(spread_of(ratios(ways.seconds("bare", 1), own)))},
          {"of_bare", to_json(spread_of(ratios(ways.seconds("bare", chunks), own)))}};
}

}  // namespace

std::string overlap_work::configuration(std::size_t chunks) const {
  return fmt::format(
      "config_version = 1\n[daemon]\nlog_level = \"warn\"\n[device]\nslots = {}\n"
      "[clients]\ncredit_bytes = \"512 MiB\"\nmax_request_bytes = \"128 MiB\"\nreply_queue_bytes = \"512 MiB\"\n"
      "reply_cache_bytes = \"0 B\"\n[shared_memory]\nmax_bytes = \"2 GiB\"\nmax_client_bytes = \"1 GiB\"\n"
      "[[pipeline]]\nname = \"work\"\ninput = {{ dtype = \"f32\", shape = [{}] }}\n"
      "batch = {{ max_frames = {}, max_bytes = \"{} B\" }}\n{}",
      std::max<std::size_t>(chunks, 2), row, rows / chunks, bytes(), matched_filter{taps}.stage("y"));
}

std::unique_ptr<operation> overlap_work::compile(device& target) const {
  const parameters settings = settings_of(*this);
  const std::vector<tensor_spec> specs = inputs();
  return target.compile("correlate", {settings, specs, static_cast<std::int64_t>(rows)});
}

std::unique_ptr<operation> overlap_work::compile(make_operation factory) const {
  const parameters settings = settings_of(*this);
  const std::vector<tensor_spec> specs = inputs();
  return factory({settings, specs, static_cast<std::int64_t>(rows)});
}

overlap_buffers::overlap_buffers(device& target, const overlap_work& work)
    : rows(work.rows),
      pinned_input(target.allocate_pinned(work.bytes())),
      pinned_output(target.allocate_pinned(work.bytes())),
      input(target.allocate(work.bytes())),
      output(target.allocate(work.bytes())),
      scratch_stride((work.compile(target)->scratch_bytes() + 255) / 256 * 256) {
  scratch = target.allocate(std::max<std::size_t>(scratch_stride * max_chunks, 256));
  fill(pinned_input.get(), work.bytes());
}

std::vector<chunk> chunks_of(const overlap_buffers& buffers, std::size_t count) {
  const std::size_t rows = buffers.rows / count;
  std::vector<chunk> chunks(count);
  for (std::size_t at = 0; at < count; ++at) {
    chunk& each = chunks[at];
    each.bytes = rows * overlap_work::row * sizeof(float);
    each.offset = at * each.bytes;
    each.input = buffers.input.get() + each.offset;
    each.launch = {.inputs = {&each.input, 1},
                   .output = buffers.output.get() + each.offset,
                   .scratch = buffers.scratch.get() + at * buffers.scratch_stride,
                   .extent = {static_cast<std::int64_t>(rows), overlap_work::row},
                   .session = {}};
  }
  return chunks;
}

#ifndef PENSTOCK_BENCH_CUDA
std::unique_ptr<overlap_way> make_pageable_way(const overlap_buffers& /*buffers*/, const overlap_work& /*work*/) {
  return nullptr;
}

std::unique_ptr<overlap_way> make_bare_way(const overlap_buffers& /*buffers*/, const overlap_work& /*work*/,
                                           std::size_t /*chunks*/) {
  return nullptr;
}
#endif

// Copy in, compute and copy out, equally long, cut into chunks: the speedup by overlap in the daemon with shared
// memory, beside plain CUDA with the same chunks and beside the default stream.
ordered_json run_overlap(const bench_options& options) {
  const bool cuda = options.backend == "cuda";
  const opened_device opened = open_device({.backend = cuda ? backend_choice::cuda : backend_choice::host,
                                            .ids = {0},
                                            .every_device = false,
                                            .shards = 1,
                                            .host_threads = 0});
  device& target = *opened.device;
  const auto [work, times] = tune(target, options.quick ? 256 : 2048);
  const overlap_buffers buffers(target, work);
  const std::unique_ptr<operation> kernel = work.compile(target);
  std::unique_ptr<overlap_way> pageable = cuda ? make_pageable_way(buffers, work) : nullptr;
  const bool has_cuda = pageable != nullptr;
  overlap_ways ways;
  if (has_cuda) {
    ways.add("pageable", 1, std::move(pageable));
  }
  for (const std::size_t chunks : chunk_counts) {
    ways.add("bare", chunks,
             has_cuda ? make_bare_way(buffers, work, chunks)
                      : std::make_unique<device_way>(target, buffers, *kernel, chunks));
    for (const char* const completion : {"callback", "poll"}) {
      ways.add(completion, chunks, std::make_unique<daemon_way>(options.backend, completion, work, chunks));
    }
  }
  interleave(options, "overlap", [&](int /*repeat*/) { ways.turn(); });
  const device_facts& facts = target.facts();
  ordered_json result =
      new_result("overlap", options, {{"backend", facts.backend}, {"name", facts.name}, {"detail", facts.detail}});
  result.update(
      {{"bytes", work.bytes()},
       {"taps", work.taps},
       {"streams", overlap_streams},
       {"bare_cuda", has_cuda},
       {"stages_us", {{"copy_in", times.copy_in}, {"compute", times.compute}, {"copy_out", times.copy_out}}}});
  if (has_cuda) {
    result["pageable"] = figures_of(ways, "pageable", 1);
  }
  for (const std::size_t chunks : chunk_counts) {
    const auto count = static_cast<double>(chunks);
    ordered_json row = {{"chunks", chunks}, {"model", 3 * count / (count + 2)}};
    for (const char* const way : {"bare", "callback", "poll"}) {
      row[way] = figures_of(ways, way, chunks);
    }
    result["rows"].push_back(row);
  }
  return result;
}

}  // namespace penstock::bench
