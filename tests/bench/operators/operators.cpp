#include "tests/bench/operators/operators.hpp"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "daemon/device/backend.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/operators/bare_operations.hpp"
#include "tests/bench/operators/numpy_process.hpp"
#include "tests/bench/operators/operator_timing.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr double most_difference = 1e-4;  // from numpy, which works in f32 in places where an operator does not

class host_copy_operation final : public operation {
 public:
  explicit host_copy_operation(std::size_t bytes) : bytes_(bytes) {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    std::memcpy(arguments.output, arguments.inputs[0], bytes_);
    return {};
  }

 private:
  std::size_t bytes_;
};

/// A reference on the device, with memory of its own.
class reference {
 public:
  reference(device& on, std::unique_ptr<operation> what, std::size_t bytes_in, std::size_t bytes_out)
      : what_(std::move(what)),
        memory_(on, 3, bytes_in + bytes_out + what_->scratch_bytes()),
        address_(memory_.take(bytes_in)),
        timed_(on, *what_,
               {.inputs = {&address_, 1},
                .output = memory_.take(bytes_out),
                .scratch = memory_.take(what_->scratch_bytes()),
                .extent = {},
                .session = {}}) {}

  [[nodiscard]] double run(double seconds) { return timed_.run(seconds); }

 private:
  std::unique_ptr<operation> what_;
  batch_memory memory_;
  const void* address_;
  timed_operation timed_;
};

/// Moves as many bytes as the operator: half of them are read, half are written.
std::unique_ptr<reference> copy_for(device& on, const operator_case& what) {
  const std::size_t bytes = (what.input_bytes() + what.output_bytes()) / 2;
  const bool cuda = on.facts().backend == "cuda";
  std::unique_ptr<operation> copy = cuda ? make_cuda_copy(bytes) : std::make_unique<host_copy_operation>(bytes);
  return copy == nullptr ? nullptr : std::make_unique<reference>(on, std::move(copy), bytes, bytes);
}

std::unique_ptr<reference> transform_for(device& on, const operator_case& what) {
  if (what.op != "power_spectrum" || on.facts().backend != "cuda") {
    return nullptr;
  }
  const std::int64_t length = what.inputs.front().shape.front();
  std::unique_ptr<operation> transform = make_bare_transform(length, what.frames, is_complex(what.inputs.front().type));
  const std::size_t spectrum = static_cast<std::size_t>(what.frames * length) * 2 * sizeof(float);
  return transform == nullptr ? nullptr
                              : std::make_unique<reference>(on, std::move(transform), what.input_bytes(), spectrum);
}

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

struct contest {
  std::vector<double> own;
  std::vector<double> copy;
  std::vector<double> transform;
  std::vector<double> numpy;
};

ordered_json row_of(const operator_case& what, const contest& times) {
  const auto bytes = static_cast<double>(what.input_bytes() + what.output_bytes());
  std::vector<double> rates;
  for (const double each : times.own) {
    rates.push_back(bytes / each);
  }
  ordered_json row = {{"name", what.name},
                      {"op", what.op},
                      {"frames", what.frames},
                      {"samples", what.inputs.front().shape.front()},
                      {"bytes", what.input_bytes() + what.output_bytes()},
                      {"seconds", to_json(spread_of(times.own))},
                      {"bytes_per_second", to_json(spread_of(rates))}};
  if (!times.copy.empty()) {
    row["of_copy"] = to_json(spread_of(ratios(times.copy, times.own)));
  }
  if (!times.transform.empty()) {
    row["of_cufft"] = to_json(spread_of(ratios(times.transform, times.own)));
  }
  if (!times.numpy.empty()) {
    row["numpy_seconds"] = to_json(spread_of(times.numpy));
    row["of_numpy"] = to_json(spread_of(ratios(times.numpy, times.own)));
  }
  return row;
}

ordered_json measure(device& on, const operator_case& what, numpy_process* numpy, const bench_options& options) {
  const double seconds = options.quick ? 0.002 : 0.03;
  operator_rig rig(on, what);
  const std::unique_ptr<reference> copy = copy_for(on, what);
  const std::unique_ptr<reference> transform = transform_for(on, what);
  const ordered_json way = numpy != nullptr ? prepare_numpy(*numpy, what, rig) : ordered_json{};
  contest times;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    times.own.push_back(rig.run(seconds));
    if (copy != nullptr) {
      times.copy.push_back(copy->run(seconds));
    }
    if (transform != nullptr) {
      times.transform.push_back(transform->run(seconds));
    }
    if (numpy != nullptr) {
      times.numpy.push_back(numpy->ask({{"seconds", seconds}}).at("seconds").get<double>());
    }
  }
  ordered_json row = row_of(what, times);
  if (numpy != nullptr) {
    row["numpy_way"] = way.at("way");
  }
  return row;
}

}  // namespace

ordered_json run_operators(const bench_options& options) {
  const bool cuda = options.backend == "cuda";
  const std::unique_ptr<device> on = cuda ? open_cuda_device(0) : open_host_device(1);
  std::optional<numpy_process> numpy;
  if (!cuda) {
    numpy.emplace();
  }
  const device_facts& facts = on->facts();
  ordered_json result = {{"benchmark", "operators"},
                         {"machine", machine_facts()},
                         {"device", {{"backend", facts.backend}, {"name", facts.name}, {"detail", facts.detail}}},
                         {"repeats", options.repeats},
                         {"rows", ordered_json::array()}};
  const std::vector<operator_case> cases = operator_cases();
  for (const operator_case& each : cases) {
    result["rows"].push_back(measure(*on, each, numpy ? &*numpy : nullptr, options));
    std::fprintf(stderr, "\roperators: %zu of %zu   ", result["rows"].size(), cases.size());
  }
  std::fputc('\n', stderr);
  return result;
}

}  // namespace penstock::bench
