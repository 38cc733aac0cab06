#include "tests/bench/overlap/overlap_work.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "daemon/pipeline/check.hpp"
#include "tests/bench/matched_filter.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t most_chunks = 64;

void require(fault failed) {
  if (failed) {
    throw std::runtime_error(fmt::format("the device failed: {}", failed.name));
  }
}

parameters settings_of(const overlap_work& what) {
  parameters settings;
  settings.set("template", matched_filter{what.taps}.values());
  settings.set("mode", std::string("same"));
  settings.set("method", std::string("direct"));
  return settings;
}

tensor_spec input_of() {
  return {element_type::f32, {static_cast<std::int64_t>(overlap_work::row)}, false};
}

void fill(std::byte* memory, std::size_t bytes) {
  std::mt19937 random(20240609);
  std::uniform_real_distribution<float> value(-1, 1);
  for (std::size_t at = 0; at < bytes; at += sizeof(float)) {
    const float next = value(random);
    std::memcpy(memory + at, &next, sizeof next);
  }
}

}  // namespace

pipeline_declaration overlap_work::declaration(std::size_t chunks) const {
  pipeline_declaration made;
  made.name = fmt::format("chunks{}", chunks);
  made.input = input_of();
  made.batch.max_frames = static_cast<std::int64_t>(rows / chunks);
  made.batch.max_bytes = bytes();
  stage_declaration stage;
  stage.name = "y";
  stage.op = "correlate";
  stage.settings = settings_of(*this);
  made.stages.push_back(std::move(stage));
  return check_pipeline(std::move(made));
}

std::string overlap_work::configuration(std::size_t chunks) const {
  return fmt::format(
      "config_version = 1\n[daemon]\nlog_level = \"warn\"\n[device]\nslots = {}\n"
      "[clients]\ncredit_bytes = \"512 MiB\"\nmax_request_bytes = \"128 MiB\"\nreply_queue_bytes = \"512 MiB\"\n"
      "reply_cache_bytes = \"0 B\"\n"
      "[[pipeline]]\nname = \"work\"\ninput = {{ dtype = \"f32\", shape = [{}] }}\n"
      "batch = {{ max_frames = {}, max_bytes = \"{} B\" }}\n{}",
      std::max<std::size_t>(chunks, 2), row, rows / chunks, bytes(), matched_filter{taps}.stage("y"));
}

std::unique_ptr<operation> overlap_work::compile(device& on) const {
  const parameters settings = settings_of(*this);
  const std::vector<tensor_spec> inputs{input_of()};
  return on.compile("correlate", {settings, inputs, static_cast<std::int64_t>(rows)});
}

std::unique_ptr<operation> overlap_work::compile(make_operation with) const {
  const parameters settings = settings_of(*this);
  const std::vector<tensor_spec> inputs{input_of()};
  return with({settings, inputs, static_cast<std::int64_t>(rows)});
}

overlap_buffers::overlap_buffers(device& on, const overlap_work& what)
    : rows(what.rows),
      pinned_input(on.allocate_pinned(what.bytes())),
      pinned_output(on.allocate_pinned(what.bytes())),
      input(on.allocate(what.bytes())),
      output(on.allocate(what.bytes())),
      scratch_stride((what.compile(on)->scratch_bytes() + 255) / 256 * 256) {
  scratch = on.allocate(std::max<std::size_t>(scratch_stride * most_chunks, 256));
  fill(pinned_input.get(), what.bytes());
}

stage_times measure_stages(device& on, const overlap_work& what) {
  const overlap_buffers buffers(on, what);
  const std::unique_ptr<operation> kernel = what.compile(on);
  const void* const input = buffers.input.get();
  const operation_arguments arguments{.inputs = {&input, 1},
                                      .output = buffers.output.get(),
                                      .scratch = buffers.scratch.get(),
                                      .extent = {static_cast<std::int64_t>(what.rows), overlap_work::row},
                                      .session = {}};
  std::vector<std::unique_ptr<event>> points;
  for (int point = 0; point < 4; ++point) {
    points.push_back(on.open_event(true));
  }
  const std::unique_ptr<stream> queue = on.open_stream(stream_priority::normal);
  stage_times best{1e12, 1e12, 1e12};
  for (int turn = 0; turn < 7; ++turn) {
    require(queue->record(*points[0]));
    require(queue->copy_in(buffers.input.get(), buffers.pinned_input.get(), what.bytes()));
    require(queue->record(*points[1]));
    require(queue->launch(*kernel, arguments));
    require(queue->record(*points[2]));
    require(queue->copy_out(buffers.pinned_output.get(), buffers.output.get(), what.bytes()));
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

// The kernel's time grows with its taps, though not from nothing: a few steps of the rule of three come close.
tuned_work tune(device& on, std::size_t rows) {
  tuned_work best;
  double best_miss = 1e12;
  overlap_work next{rows, 64};
  for (int step = 0; step < 6; ++step) {
    const stage_times times = measure_stages(on, next);
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

}  // namespace penstock::bench
