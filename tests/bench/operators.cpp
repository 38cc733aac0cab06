#include "tests/bench/operators.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/device/backend.hpp"
#include "daemon/device/device.hpp"
#include "kernels/half.hpp"
#include "tests/bench/benchmarks.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

// Relative to the largest number: numpy and the libraries work in f32 in places where an operator does not.
constexpr double max_difference = 1e-4;
constexpr std::size_t alignment = 256;

void require(fault failed) {
  if (failed) {
    throw std::runtime_error("the device failed: " + std::string(failed.name));
  }
}

/// numpy and scipy on one thread of a process of their own, or CuPy on the GPU, which times one operator:
/// numpy_worker.py.
class numpy_process {
 public:
  /// Throws std::runtime_error if it cannot be started.
  explicit numpy_process(bool on_gpu) {
    // A socket pair, so that a dead worker is an error of `send` and not a signal.
    int requests[2];
    int answers[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, requests) != 0 || ::pipe2(answers, O_CLOEXEC) != 0) {
      throw std::runtime_error("cannot make pipes to numpy's process");
    }
    child_ = ::fork();
    if (child_ < 0) {
      throw std::runtime_error("cannot start numpy's process");
    }
    if (child_ == 0) {
      become_worker(requests[1], answers[1], on_gpu);
    }
    ::close(requests[1]);
    ::close(answers[1]);
    requests_ = requests[0];
    answers_ = answers[0];
  }
  numpy_process(const numpy_process&) = delete;
  numpy_process& operator=(const numpy_process&) = delete;
  ~numpy_process() {
    ::close(requests_);
    ::close(answers_);
    ::waitpid(child_, nullptr, 0);
  }

  /// Sends a line and waits for the answer. Throws std::runtime_error if the process has ended.
  [[nodiscard]] ordered_json ask(const ordered_json& request) {
    const std::string line = request.dump() + "\n";
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t count = ::send(requests_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      sent += require_alive(count);
    }
    for (;;) {
      if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
        const ordered_json answer = ordered_json::parse(unread_.substr(0, end));
        unread_.erase(0, end + 1);
        return answer;
      }
      char piece[4096];
      unread_.append(piece, require_alive(::read(answers_, piece, sizeof piece)));
    }
  }

 private:
  [[noreturn]] static void become_worker(int requests, int answers, bool on_gpu) {
    ::dup2(requests, STDIN_FILENO);
    ::dup2(answers, STDOUT_FILENO);
    for (const char* const limit : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"}) {
      ::setenv(limit, "1", 1);
    }
    // Debian's packages, or what has CuPy.
    ::execlp(on_gpu ? "python3" : "/usr/bin/python3", "python3", "-B", PENSTOCK_NUMPY_WORKER,
             on_gpu ? "--cupy" : static_cast<const char*>(nullptr), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  static std::size_t require_alive(ssize_t count) {
    if (count <= 0) {
      throw std::runtime_error("numpy's process has ended: are NumPy and SciPy, or CuPy, installed?");
    }
    return static_cast<std::size_t>(count);
  }

  pid_t child_ = -1;
  int requests_ = -1;
  int answers_ = -1;
  std::string unread_;
};

/// One block of device memory for all that a batch needs, as large as a slot with the default configuration.
class batch_memory {
 public:
  batch_memory(device& target, std::size_t pieces, std::size_t bytes)
      : block_(target.allocate(std::max(std::size_t{8} << 20U, pieces * alignment + bytes))) {}

  [[nodiscard]] std::byte* take(std::size_t bytes) noexcept {
    std::byte* const piece = block_.get() + taken_;
    taken_ += (bytes + alignment - 1) / alignment * alignment;
    return piece;
  }

 private:
  device_memory block_;
  std::size_t taken_ = 0;
};

/// Times an operation by the device's events: several launches back to back on one stream.
class timed_operation {
 public:
  /// `arguments` point at device memory that outlives this.
  timed_operation(device& target, operation& work, const operation_arguments& arguments)
      : work_(work),
        arguments_(arguments),
        stream_(target.open_stream(stream_priority::normal)),
        begin_(target.open_event(true)),
        end_(target.open_event(true)) {
    static_cast<void>(run_times(1));
    last_ = run_times(1);
  }

  /// Runs it for about `seconds`. Returns the seconds of one run. Throws std::runtime_error if the device fails.
  [[nodiscard]] double run(double seconds) {
    constexpr int max_launches = 1000;
    return last_ = run_times(std::clamp(static_cast<int>(seconds / std::max(last_, 1e-9)), 1, max_launches));
  }

 private:
  [[nodiscard]] double run_times(int count) {
    require(stream_->record(*begin_));
    for (int each = 0; each < count; ++each) {
      require(stream_->launch(work_, arguments_));
      require(stream_->flush());
    }
    require(stream_->record(*end_));
    require(stream_->synchronize());
    return 1e-6 * end_->elapsed_us(*begin_) / count;
  }

  operation& work_;
  operation_arguments arguments_;
  std::unique_ptr<stream> stream_;
  std::unique_ptr<event> begin_;
  std::unique_ptr<event> end_;
  double last_ = 0;
};

std::vector<std::byte> read_back(device& target, const std::byte* place, std::size_t bytes) {
  const device_memory pinned = target.allocate_pinned(bytes);
  const std::unique_ptr<stream> copies = target.open_stream(stream_priority::normal);
  require(copies->copy_out(pinned.get(), place, bytes));
  require(copies->synchronize());
  return {pinned.get(), pinned.get() + bytes};
}

/// An operator of the catalogue with the batch of its case.
class operator_rig {
 public:
  operator_rig(device& target, const operator_case& subject)
      : target_(target),
        output_bytes_(subject.output_bytes()),
        compiled_(target.compile(
            subject.op, {.settings = subject.settings, .inputs = subject.inputs, .max_frames = subject.frames})),
        memory_(target, subject.inputs.size() + 3,
                subject.input_bytes() + output_bytes_ + compiled_->scratch_bytes() +
                    subject.session_frames().size() * sizeof(session_frame)),
        output_(memory_.take(output_bytes_)) {
    for (std::size_t input = 0; input < subject.inputs.size(); ++input) {
      const std::vector<std::byte> batch = input_batch(subject, input);
      addresses_.push_back(upload(batch.data(), batch.size()));
    }
    arguments_ = {.inputs = addresses_,
                  .output = output_,
                  .scratch = memory_.take(compiled_->scratch_bytes()),
                  .extent = {.frames = subject.frames, .leading = subject.inputs.front().shape.front()},
                  .session = {}};
    const std::vector<session_frame> frames = subject.session_frames();
    if (!frames.empty()) {
      std::byte* const place = upload(frames.data(), frames.size() * sizeof(session_frame));
      const std::size_t stride = (compiled_->state_bytes() + alignment - 1) / alignment * alignment;
      pool_ = target.allocate(2 * subject.sessions() * stride);
      clear(pool_.get(), 2 * subject.sessions() * stride);
      arguments_.session = {
          .frames = reinterpret_cast<const session_frame*>(place), .pool = pool_.get(), .stride = stride};
    }
    timed_.emplace(target, *compiled_, arguments_);
  }

  [[nodiscard]] double run(double seconds) { return timed_->run(seconds); }
  /// Output of the last run.
  [[nodiscard]] std::vector<std::byte> result() { return read_back(target_, output_, output_bytes_); }
  [[nodiscard]] const operation_arguments& arguments() const noexcept { return arguments_; }

 private:
  std::byte* upload(const void* source, std::size_t bytes) {
    std::byte* const place = memory_.take(bytes);
    const device_memory pinned = target_.allocate_pinned(bytes);
    std::memcpy(pinned.get(), source, bytes);
    const std::unique_ptr<stream> copies = target_.open_stream(stream_priority::normal);
    require(copies->copy_in(place, pinned.get(), bytes));
    require(copies->synchronize());
    return place;
  }

  /// States of sessions that are not at their beginning must be such as an operator may have left.
  void clear(std::byte* place, std::size_t bytes) {
    constexpr std::size_t piece = std::size_t{1} << 20U;
    const device_memory zeros = target_.allocate_pinned(piece);
    std::memset(zeros.get(), 0, piece);
    const std::unique_ptr<stream> copies = target_.open_stream(stream_priority::normal);
    for (std::size_t at = 0; at < bytes; at += piece) {
      require(copies->copy_in(place + at, zeros.get(), std::min(piece, bytes - at)));
    }
    require(copies->synchronize());
  }

  device& target_;
  std::size_t output_bytes_;
  std::unique_ptr<operation> compiled_;
  batch_memory memory_;
  std::vector<const void*> addresses_;
  std::byte* output_;
  device_memory pool_;
  operation_arguments arguments_;
  std::optional<timed_operation> timed_;
};

/// An operation that is timed beside an operator, with output and scratch memory of its own.
class reference {
 public:
  /// `inputs`: the operator's, which must outlive it; empty: one of its own of `output_bytes`.
  reference(device& target, std::unique_ptr<operation> work, std::vector<const void*> inputs, std::size_t output_bytes)
      : target_(target),
        work_(std::move(work)),
        output_bytes_(output_bytes),
        memory_(target, 3, 2 * output_bytes + work_->scratch_bytes()),
        inputs_(std::move(inputs)),
        output_(memory_.take(output_bytes)) {
    if (inputs_.empty()) {
      inputs_.push_back(memory_.take(output_bytes));
    }
    timed_.emplace(target, *work_,
                   operation_arguments{.inputs = inputs_,
                                       .output = output_,
                                       .scratch = memory_.take(work_->scratch_bytes()),
                                       .extent = {},
                                       .session = {}});
  }
  reference(const reference&) = delete;
  reference& operator=(const reference&) = delete;
  /// The operation goes before its stream, so that a library can release it.
  ~reference() { work_.reset(); }

  [[nodiscard]] double run(double seconds) { return timed_->run(seconds); }
  /// Output of the last run.
  [[nodiscard]] std::vector<std::byte> result() { return read_back(target_, output_, output_bytes_); }

 private:
  device& target_;
  std::unique_ptr<operation> work_;
  std::size_t output_bytes_;
  batch_memory memory_;
  std::vector<const void*> inputs_;
  std::byte* output_;
  std::optional<timed_operation> timed_;
};

class host_copy final : public operation {
 public:
  explicit host_copy(std::size_t bytes) : bytes_(bytes) {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    std::memcpy(arguments.output, arguments.inputs[0], bytes_);
    return {};
  }

 private:
  std::size_t bytes_;
};

class data_folder {
 public:
  /// Returns the file's path.
  std::string write(const std::string& name, const std::vector<std::byte>& bytes) const {
    const fs::path file = folder_.path() / name;
    std::ofstream stream(file, std::ios::binary);
    if (!stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) {
      throw std::runtime_error("cannot write " + file.string());
    }
    return file.string();
  }

 private:
  testing::temporary_folder folder_;
};

/// An operator and what takes turns with it.
class operator_comparison {
 public:
  operator_comparison(device& target, const operator_case& subject)
      : target_(target), subject_(subject), rig_(target, subject) {}

  /// A copy of as many bytes as the operator moves: half of them are read, half are written.
  void add_copy(const library_calls* libraries) {
    const std::size_t bytes = (subject_.input_bytes() + subject_.output_bytes()) / 2;
    std::unique_ptr<operation> copy =
        libraries != nullptr ? libraries->copy(bytes) : std::make_unique<host_copy>(bytes);
    add(subject_.beyond_cache ? "of_memory" : "of_copy",
        std::make_unique<reference>(target_, std::move(copy), std::vector<const void*>{}, bytes));
  }

  void add_libraries(library_call_list found) {
    for (library_call& each : found.calls) {
      add_library(each);
    }
    for (const std::string& reason : found.missing) {
      notes_["not_measured"].push_back(reason);
    }
  }

  /// Another result, or none, is noted in the row.
  void add_cupy(numpy_process& cupy) {
    try {
      add_numpy(cupy, "cupy");
    } catch (const std::runtime_error& error) {
      notes_["not_measured"].push_back(error.what());
    }
  }

  /// numpy does the same work on the same data and compares the results. Throws std::runtime_error if they differ.
  void add_numpy(numpy_process& numpy, const std::string& name = "numpy") {
    const data_folder data;
    ordered_json inputs = ordered_json::array();
    for (std::size_t input = 0; input < subject_.inputs.size(); ++input) {
      inputs.push_back(data.write("input" + std::to_string(input), input_batch(subject_, input)));
    }
    const ordered_json answer =
        numpy.ask({{"case", to_json(subject_)}, {"inputs", inputs}, {"result", data.write("result", rig_.result())}});
    // A loop that feeds back what it made carries its roundings on.
    const double allowed = subject_.op == "clock" ? 10 * max_difference : max_difference;
    if (!(answer.at("difference").get<double>() <= allowed)) {
      throw std::runtime_error(subject_.name + ": " + name + " has another result, by " +
                               answer.at("difference").dump());
    }
    notes_[name] = answer.at("way");
    contenders_.push_back({"of_" + name,
                           [&numpy](double seconds) {
                             return numpy.ask({{"seconds", seconds}}).at("seconds").get<double>();
                           },
                           {}});
  }

  void turn(double seconds) {
    times_.push_back(rig_.run(seconds));
    for (contender& each : contenders_) {
      each.times.push_back(each.run(seconds));
    }
  }

  [[nodiscard]] ordered_json row() const {
    const auto bytes = static_cast<double>(subject_.input_bytes() + subject_.output_bytes());
    std::vector<double> rates;
    for (const double each : times_) {
      rates.push_back(bytes / each);
    }
    ordered_json row = {{"name", subject_.name},
                        {"op", subject_.op},
                        {"frames", subject_.frames},
                        {"samples", subject_.inputs.front().shape.front()},
                        {"bytes", subject_.input_bytes() + subject_.output_bytes()},
                        {"seconds", to_json(spread_of(times_))},
                        {"bytes_per_second", to_json(spread_of(rates))}};
    for (const contender& each : contenders_) {
      row[each.key] = to_json(spread_of(ratios(each.times, times_)));
    }
    row.update(notes_);
    return row;
  }

 private:
  struct contender {
    std::string key;  ///< of the ratio in the row
    std::function<double(double seconds)> run;
    std::vector<double> times;
  };

  void add(std::string key, std::unique_ptr<reference> added) {
    contenders_.push_back({std::move(key), [&timed = *added](double seconds) { return timed.run(seconds); }, {}});
    references_.push_back(std::move(added));
  }

  // Leaves out a call that fails or has another result; the row says so.
  void add_library(library_call& call) {
    try {
      const std::span<const void* const> inputs = rig_.arguments().inputs;
      auto added = std::make_unique<reference>(
          target_, std::move(call.work), std::vector<const void*>(inputs.begin(), inputs.end()), call.output_bytes);
      const double difference = call.difference(numbers_in(added->result(), call.output_type),
                                                numbers_in(rig_.result(), subject_.output().type));
      if (!(difference <= max_difference)) {
        throw std::runtime_error(fmt::format("another result, by {:.1e} of the largest", difference));
      }
      notes_["calls"][call.key] = call.call;
      add(call.key, std::move(added));
    } catch (const std::runtime_error& error) {
      notes_["not_measured"].push_back(call.call + ": " + error.what());
    }
  }

  device& target_;
  const operator_case& subject_;
  operator_rig rig_;
  std::vector<double> times_;
  std::vector<contender> contenders_;
  std::vector<std::unique_ptr<reference>> references_;
  ordered_json notes_ = ordered_json::object();
};

// No batch takes less than the launch of an empty kernel.
ordered_json launch_seconds(device& target, const library_calls& libraries, int repeats, double seconds) {
  const std::unique_ptr<operation> empty = libraries.empty_launch();
  timed_operation timed(target, *empty, {});
  std::vector<double> times;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    times.push_back(timed.run(seconds));
  }
  return to_json(spread_of(times));
}

}  // namespace

std::vector<float> numbers_in(const std::vector<std::byte>& bytes, element_type type) {
  const bool small = type == element_type::f16 || type == element_type::bf16;
  std::vector<float> numbers(bytes.size() / (small ? 2 : sizeof(float)));
  if (!small) {
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
    return numbers;
  }
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * at, sizeof bits);
    numbers[at] = type == element_type::f16 ? to_float(half_bits{bits}) : to_float(brain_bits{bits});
  }
  return numbers;
}

double difference_of(const std::vector<float>& numbers, const std::vector<float>& expected) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (numbers.size() != expected.size()) {
    return infinity;
  }
  double largest = 0;
  double difference = 0;
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    if (!std::isfinite(numbers[at]) || !std::isfinite(expected[at])) {
      return infinity;
    }
    largest = std::max(largest, std::abs(static_cast<double>(expected[at])));
    difference = std::max(difference, std::abs(static_cast<double>(numbers[at]) - static_cast<double>(expected[at])));
  }
  return largest > 0 ? difference / largest : infinity;
}

#ifndef PENSTOCK_BENCH_ONEDNN
library_call_list onednn_calls(const operator_case& /*subject*/) {
  return {};
}
#endif

#ifndef PENSTOCK_BENCH_CUDA
std::unique_ptr<library_calls> open_library_calls() {
  return nullptr;
}
#endif

// Every operator alone on the device by the device's clock, beside a copy of as many bytes. On the host backend with
// one thread, beside numpy and scipy on one core; on CUDA also with batches larger than any cache, beside cuFFT and
// cuBLAS, and beside CuPy where that has the operator whole.
ordered_json run_operators(const bench_options& options) {
  const bool cuda = options.backend == "cuda";
  const double seconds = options.quick ? 0.002 : 0.03;
  const std::unique_ptr<device> target = cuda ? open_cuda_device(0) : open_host_device(1);
  const std::unique_ptr<library_calls> libraries = cuda ? open_library_calls() : nullptr;
  numpy_process numpy(cuda);
  const device_facts& facts = target->facts();
  ordered_json result =
      new_result("operators", options, {{"backend", facts.backend}, {"name", facts.name}, {"detail", facts.detail}});
  if (libraries != nullptr) {
    result.update(libraries->facts());
    result["launch_seconds"] = launch_seconds(*target, *libraries, options.repeats, seconds);
  }
  std::vector<operator_case> cases = cuda ? gpu_operator_cases() : operator_cases();
  std::erase_if(cases, [&](const operator_case& each) { return each.name.find(options.only) == std::string::npos; });
  for (const operator_case& each : cases) {
    operator_comparison all(*target, each);
    all.add_copy(libraries.get());
    all.add_libraries(libraries != nullptr ? libraries->calls_for(each) : openblas_calls(each));
    if (!cuda) {
      all.add_libraries(onednn_calls(each));
      all.add_numpy(numpy);
    } else if (each.op == "resample" || each.op == "channelize") {
      all.add_cupy(numpy);
    }
    for (int repeat = 0; repeat < options.repeats; ++repeat) {
      all.turn(seconds);
    }
    result["rows"].push_back(all.row());
    std::fprintf(stderr, "\roperators: %zu of %zu   ", result["rows"].size(), cases.size());
  }
  std::fputc('\n', stderr);
  return result;
}

}  // namespace penstock::bench
