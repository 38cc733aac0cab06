#include "tests/bench/overlap/overlap.hpp"

#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/device/backend.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/overlap/core_way.hpp"
#include "tests/bench/overlap/overlap_ways.hpp"
#include "tests/bench/overlap/wire_way.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t chunk_counts[] = {1, 2, 4, 8, 16, 32};
constexpr std::size_t drawn_chunks = 8;

/// Ways by name, and what each took, by repeat.
class contest {
 public:
  void add(const std::string& name, std::unique_ptr<overlap_way> way) {
    if (way != nullptr) {
      way->run();
      way->run();
      ways_.emplace_back(name, std::move(way));
    }
  }
  void run() {
    for (const auto& [name, way] : ways_) {
      seconds_[name].push_back(way->run());
    }
  }
  [[nodiscard]] bool has(const std::string& name) const { return seconds_.count(name) != 0; }
  [[nodiscard]] const std::vector<double>& seconds(const std::string& name) const { return seconds_.at(name); }

 private:
  std::vector<std::pair<std::string, std::unique_ptr<overlap_way>>> ways_;
  std::map<std::string, std::vector<double>> seconds_;
};

std::string named(const char* way, std::size_t chunks) {
  return way + std::to_string(chunks);
}

void add_ways(contest& all, device& on, const overlap_buffers& with, operation& kernel, const overlap_work& work,
              const std::string& backend) {
  const bool cuda = on.facts().backend == "cuda";
  if (cuda) {
    all.add("pageable", make_pageable_way(with, work));
    all.add("pinned", make_pinned_way(with, work));
  }
  for (const std::size_t chunks : chunk_counts) {
    std::unique_ptr<overlap_way> bare = cuda ? make_bare_way(with, work, chunks) : nullptr;
    all.add(named("bare", chunks), bare ? std::move(bare) : make_seam_way(on, with, kernel, chunks));
    if (cuda) {
      all.add(named("told", chunks), make_told_way(with, work, chunks));
    }
    all.add(named("callback", chunks), std::make_unique<core_way>(on, work, chunks, completion_mode::callback));
    all.add(named("poll", chunks), std::make_unique<core_way>(on, work, chunks, completion_mode::poll));
    all.add(named("wire", chunks), std::make_unique<wire_way>(backend, work, chunks));
  }
}

ordered_json milliseconds(const std::vector<double>& seconds) {
  std::vector<double> values;
  for (const double each : seconds) {
    values.push_back(1e3 * each);
  }
  return to_json(spread_of(values));
}

// Of each way its time, its speedup over one chunk by bare CUDA, and how that stands beside bare CUDA's.
ordered_json row_of(const contest& all, std::size_t chunks) {
  const std::vector<double>& serial = all.seconds("bare1");
  const std::vector<double>& bare = all.seconds(named("bare", chunks));
  ordered_json row = {{"chunks", chunks},
                      {"model", 3.0 * static_cast<double>(chunks) / (static_cast<double>(chunks) + 2)}};
  for (const char* const way : {"bare", "told", "callback", "poll", "wire"}) {
    if (!all.has(named(way, chunks))) {
      continue;
    }
    const std::vector<double>& own = all.seconds(named(way, chunks));
    row[way] = {{"ms", milliseconds(own)},
                {"speedup", to_json(spread_of(ratios(serial, own)))},
                {"of_bare", to_json(spread_of(ratios(bare, own)))}};
  }
  if (row.contains("told")) {
    row["callback"]["of_told"] =
        to_json(spread_of(ratios(all.seconds(named("told", chunks)), all.seconds(named("callback", chunks)))));
  }
  return row;
}

// A batch is not timed until the reading of those before it is paid for, so some runs are not timed whole.
ordered_json drawn(device& on, const overlap_work& work) {
  core_way core(on, work, drawn_chunks, completion_mode::poll, true);
  std::vector<timeline_bar> bars;
  for (int attempt = 0; attempt < 50 && bars.empty(); ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    core.run();
    bars = core.timeline();
  }
  ordered_json made = ordered_json::array();
  for (const timeline_bar& each : bars) {
    made.push_back(
        {{"stream", each.stream}, {"what", each.what}, {"begin_us", each.begin_us}, {"end_us", each.end_us}});
  }
  return made;
}

}  // namespace

ordered_json run_overlap(const bench_options& options) {
  const bool cuda = options.backend == "cuda";
  const opened_device opened = open_device({.backend = cuda ? backend_choice::cuda : backend_choice::host,
                                            .ids = {0},
                                            .every_device = false,
                                            .shards = 1,
                                            .host_threads = 0});
  device& on = *opened.device;
  const tuned_work tuned = tune(on, options.quick ? 256 : 2048);
  const overlap_buffers buffers(on, tuned.work);
  const std::unique_ptr<operation> kernel = tuned.work.compile(on);
  contest all;
  add_ways(all, on, buffers, *kernel, tuned.work, options.backend);
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    all.run();
    std::fprintf(stderr, "\roverlap: repeat %d of %d   ", repeat + 1, options.repeats);
  }
  std::fputc('\n', stderr);
  const device_facts& facts = on.facts();
  ordered_json result = {
      {"benchmark", "overlap"},
      {"machine", machine_facts()},
      {"device", {{"backend", facts.backend}, {"name", facts.name}, {"detail", facts.detail}}},
      {"repeats", options.repeats},
      {"bytes", tuned.work.bytes()},
      {"taps", tuned.work.taps},
      {"streams", overlap_streams},
      {"bare_cuda", cuda && all.has("pageable")},
      {"stages_us",
       {{"copy_in", tuned.times.copy_in}, {"compute", tuned.times.compute}, {"copy_out", tuned.times.copy_out}}}};
  for (const char* const serial : {"pageable", "pinned"}) {
    if (all.has(serial)) {
      result[serial] = {{"ms", milliseconds(all.seconds(serial))},
                        {"speedup", to_json(spread_of(ratios(all.seconds("bare1"), all.seconds(serial))))}};
    }
  }
  result["rows"] = ordered_json::array();
  for (const std::size_t chunks : chunk_counts) {
    result["rows"].push_back(row_of(all, chunks));
  }
  result["timeline"] = drawn(on, tuned.work);
  return result;
}

}  // namespace penstock::bench
