#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/operation.hpp"
#include "kernels/session.hpp"

namespace penstock::bench {

/// One operator with its parameters and a batch.
struct operator_case {
  std::string name;  ///< "fir, 64 taps"
  std::string op;
  parameters settings;
  std::vector<tensor_spec> inputs;  ///< of one frame
  std::int64_t frames = 1;          ///< of a batch
  /// For an operator with state: all frames belong to one session, else each to its own.
  bool one_session = false;
  /// Earlier frames of each session, all zero, so that its state is complete from the start.
  std::int64_t earlier_frames = 0;
  /// The batch is larger than any cache of a GPU.
  bool beyond_cache = false;

  [[nodiscard]] tensor_spec output() const;
  /// Of a batch of all inputs, and of its output.
  [[nodiscard]] std::size_t input_bytes() const;
  [[nodiscard]] std::size_t output_bytes() const;
  /// The batch's frames as an operator with state sees them; empty for other operators.
  [[nodiscard]] std::vector<session_frame> session_frames() const;
  [[nodiscard]] std::size_t sessions() const noexcept;
};

/// Every operator of the catalogue, most of them with 64 frames of 1,024 samples and with one of 1 Mi samples.
[[nodiscard]] std::vector<operator_case> operator_cases();
/// Those, some for GPUs alone, and a batch of about 256 MiB for each.
[[nodiscard]] std::vector<operator_case> gpu_operator_cases();

/// Always the same batch of an input: noise of deviation 0.3, integers over their whole range. It repeats after 32 MiB.
[[nodiscard]] std::vector<std::byte> input_batch(const operator_case& subject, std::size_t input);

/// Name, operator, parameters, specs and frames, for numpy_worker.py.
[[nodiscard]] nlohmann::ordered_json to_json(const operator_case& subject);

/// f32, f16 or bf16 numbers; of other types the bytes as f32.
[[nodiscard]] std::vector<float> numbers_in(const std::vector<std::byte>& bytes, element_type type);

/// The largest difference relative to the largest expected number. Infinite unless both have the same length, are not
/// empty and finite, and not all expected numbers are 0.
[[nodiscard]] double difference_of(const std::vector<float>& numbers, const std::vector<float>& expected);

/// A plain call of a library that does an operator's work, or the part of it that `call` names.
struct library_call {
  const char* key;                  ///< of the ratio in the result: "of_cublas"
  std::string call;                 ///< "cublasSgeam"
  std::unique_ptr<operation> work;  ///< on the operator's inputs
  std::size_t output_bytes = 0;
  element_type output_type = element_type::f32;
  /// Difference of its output from what the operator's output implies, relative to the largest number.
  std::function<double(const std::vector<float>& numbers, const std::vector<float>& operators)> difference;
};

struct library_call_list {
  std::vector<library_call> calls;
  std::vector<std::string> missing;  ///< why others could not be made
};

/// Plain CUDA, cuFFT, cuDNN and cuBLAS beside the operators. Nothing made here may outlive the device. Thread: one.
class library_calls {
 public:
  library_calls() = default;
  library_calls(const library_calls&) = delete;
  library_calls& operator=(const library_calls&) = delete;
  virtual ~library_calls() = default;

  /// A copy of `bytes` on the device.
  [[nodiscard]] virtual std::unique_ptr<operation> copy(std::size_t bytes) const = 0;
  /// A launch of an empty kernel.
  [[nodiscard]] virtual std::unique_ptr<operation> empty_launch() const = 0;
  /// Never throws because of a library.
  [[nodiscard]] virtual library_call_list calls_for(const operator_case& subject) const = 0;
  /// Versions of the libraries, 0 where there is none, and the size of the device's second-level cache.
  [[nodiscard]] virtual nlohmann::ordered_json facts() const = 0;
};

/// OpenBLAS beside `matmul` on the host; none for other operators.
[[nodiscard]] library_call_list openblas_calls(const operator_case& subject);
/// oneDNN beside `convolve` on the host; none for other operators, or in a build without its headers.
[[nodiscard]] library_call_list onednn_calls(const operator_case& subject);

/// On the first device, which is open. nullptr in a build without CUDA.
[[nodiscard]] std::unique_ptr<library_calls> open_library_calls();

}  // namespace penstock::bench
