#include "tests/bench/operators/operators.hpp"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "daemon/device/backend.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/operators/bare_calls.hpp"
#include "tests/bench/operators/numpy_process.hpp"
#include "tests/bench/operators/operator_timing.hpp"
#include "tests/bench/operators/reference.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

// From numpy and the libraries, which work in f32 in places where an operator does not; relative to the largest number.
constexpr double most_difference = 1e-4;

void write_file(const fs::path& file, const std::vector<std::byte>& bytes) {
  std::ofstream stream(file, std::ios::binary);
  if (!stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) {
    throw std::runtime_error("cannot write " + file.string());
  }
}

class folder {
 public:
  folder() : path_((fs::temp_directory_path() / "penstock-operators-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw std::runtime_error("cannot make a folder for the operators' data");
    }
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] fs::path file(const std::string& name) const { return fs::path(path_) / name; }

 private:
  std::string path_;
};

/// Has numpy's process make ready for the same work on the same data; it compares the results.
ordered_json prepare_numpy(numpy_process& numpy, const operator_case& what, operator_rig& rig) {
  const folder data;
  ordered_json inputs = ordered_json::array();
  for (std::size_t input = 0; input < what.inputs.size(); ++input) {
    const fs::path file = data.file("input" + std::to_string(input));
    write_file(file, input_batch(what, input));
    inputs.push_back(file.string());
  }
  write_file(data.file("result"), rig.result());
  const ordered_json answer =
      numpy.ask({{"case", to_json(what)}, {"inputs", inputs}, {"result", data.file("result").string()}});
  if (!(answer.at("difference").get<double>() <= most_difference)) {
    throw std::runtime_error(what.name + ": numpy comes to another result, by " + answer.at("difference").dump());
  }
  return answer;
}

/// Somebody whose time is compared with the operator's.
struct contender {
  std::string key;  ///< of the comparison: "of_copy"
  std::function<double(double seconds)> run;
  std::vector<double> times;
};

/// Who takes turns with an operator, and what else its row says of them.
struct contest {
  std::vector<contender> contenders;
  std::vector<std::unique_ptr<reference>> references;
  ordered_json notes = ordered_json::object();
};

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> made(bytes.size() / sizeof(float));
  std::memcpy(made.data(), bytes.data(), made.size() * sizeof(float));
  return made;
}

void add_reference(contest& to, std::string key, std::unique_ptr<reference> what) {
  to.contenders.push_back({std::move(key), [&timed = *what](double seconds) { return timed.run(seconds); }, {}});
  to.references.push_back(std::move(what));
}

/// Takes a library's call into the contest, unless it fails or comes to another result: then the row says so.
void add_counterpart(contest& to, device& on, operator_rig& rig, bare_counterpart& what) {
  const auto leave_out = [&](const std::string& why) { to.notes["not_measured"].push_back(what.call + ": " + why); };
  try {
    const std::span<const void* const> inputs = rig.arguments().inputs;
    auto made = std::make_unique<reference>(on, std::move(what.what),
                                            std::vector<const void*>(inputs.begin(), inputs.end()), what.output_bytes);
    const double difference = what.difference(floats_of(made->result()), floats_of(rig.result()));
    if (!(difference <= most_difference)) {
      leave_out(fmt::format("another result, by {:.1e} of the largest", difference));
      return;
    }
    to.notes["called"][what.key] = what.call;
    add_reference(to, what.key, std::move(made));
  } catch (const std::runtime_error& error) {
    leave_out(error.what());
  }
}

void add_bare(contest& to, device& on, const operator_case& what, operator_rig& rig, const bare_calls& bare) {
  bare_counterparts found = bare.beside(what);
  for (bare_counterpart& each : found.made) {
    add_counterpart(to, on, rig, each);
  }
  for (const std::string& why : found.missing) {
    to.notes["not_measured"].push_back(why);
  }
}

void add_numpy(contest& to, const operator_case& what, operator_rig& rig, numpy_process& numpy) {
  to.notes["numpy_way"] = prepare_numpy(numpy, what, rig).at("way");
  to.contenders.push_back({"of_numpy",
                           [&numpy](double seconds) {
                             return numpy.ask({{"seconds", seconds}}).at("seconds").get<double>();
                           },
                           {}});
}

ordered_json row_of(const operator_case& what, const std::vector<double>& own, const contest& beside) {
  const auto bytes = static_cast<double>(what.input_bytes() + what.output_bytes());
  std::vector<double> rates;
  for (const double each : own) {
    rates.push_back(bytes / each);
  }
  ordered_json row = {{"name", what.name},
                      {"op", what.op},
                      {"frames", what.frames},
                      {"samples", what.inputs.front().shape.front()},
                      {"bytes", what.input_bytes() + what.output_bytes()},
                      {"seconds", to_json(spread_of(own))},
                      {"bytes_per_second", to_json(spread_of(rates))}};
  for (const contender& each : beside.contenders) {
    if (each.key == "of_numpy") {
      row["numpy_seconds"] = to_json(spread_of(each.times));
    }
    row[each.key] = to_json(spread_of(ratios(each.times, own)));
  }
  row.update(beside.notes);
  return row;
}

ordered_json measure(device& on, const operator_case& what, const bare_calls* bare, numpy_process* numpy,
                     const bench_options& options) {
  const double seconds = options.quick ? 0.002 : 0.03;
  operator_rig rig(on, what);
  contest beside;
  add_reference(beside, what.beyond_cache ? "of_memory" : "of_copy", copy_beside(on, what, bare));
  if (bare != nullptr) {
    add_bare(beside, on, what, rig, *bare);
  }
  if (numpy != nullptr) {
    add_numpy(beside, what, rig, *numpy);
  }
  std::vector<double> own;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    own.push_back(rig.run(seconds));
    for (contender& each : beside.contenders) {
      each.times.push_back(each.run(seconds));
    }
  }
  return row_of(what, own, beside);
}

/// What a launch takes that does nothing: no batch takes less.
ordered_json launch_seconds(device& on, const bare_calls& bare, const bench_options& options) {
  const std::unique_ptr<operation> nothing = bare.nothing();
  timed_operation timed(on, *nothing, {});
  std::vector<double> times;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    times.push_back(timed.run(options.quick ? 0.002 : 0.03));
  }
  return to_json(spread_of(times));
}

}  // namespace

ordered_json run_operators(const bench_options& options) {
  const bool cuda = options.backend == "cuda";
  const std::unique_ptr<device> on = cuda ? open_cuda_device(0) : open_host_device(1);
  const std::unique_ptr<bare_calls> bare = cuda ? open_bare_calls() : nullptr;
  std::optional<numpy_process> numpy;
  if (!cuda) {
    numpy.emplace();
  }
  const device_facts& facts = on->facts();
  ordered_json result = {{"benchmark", "operators"},
                         {"machine", machine_facts()},
                         {"device", {{"backend", facts.backend}, {"name", facts.name}, {"detail", facts.detail}}},
                         {"repeats", options.repeats}};
  if (bare != nullptr) {
    result.update(bare->facts());
    result["launch_seconds"] = launch_seconds(*on, *bare, options);
  }
  result["rows"] = ordered_json::array();
  const std::vector<operator_case> cases = cuda ? gpu_operator_cases() : operator_cases();
  for (const operator_case& each : cases) {
    result["rows"].push_back(measure(*on, each, bare.get(), numpy ? &*numpy : nullptr, options));
    std::fprintf(stderr, "\roperators: %zu of %zu   ", result["rows"].size(), cases.size());
  }
  std::fputc('\n', stderr);
  return result;
}

}  // namespace penstock::bench
