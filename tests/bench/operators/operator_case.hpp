#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/operation.hpp"
#include "kernels/session_frame.hpp"

namespace penstock::bench {

/// What one operator is timed with.
struct operator_case {
  std::string name;  ///< "fir, 64 taps"
  std::string op;
  parameters settings;
  std::vector<tensor_spec> inputs;  ///< of one frame
  std::int64_t frames = 1;          ///< of a batch
  /// For an operator that keeps state: whether the batch's frames are one session's, else each is its own session's.
  bool one_session = false;
  /// Frames that each session had before, of zeros: what an operator keeps of a session is there from the start.
  std::int64_t earlier_frames = 0;
  /// Whether the batch is so large that no cache of a GPU holds it.
  bool beyond_cache = false;

  [[nodiscard]] tensor_spec output() const;
  /// Bytes of a batch of all inputs, and of the output.
  [[nodiscard]] std::size_t input_bytes() const;
  [[nodiscard]] std::size_t output_bytes() const;
  /// The batch's frames as an operator that keeps state is told of them.
  [[nodiscard]] std::vector<session_frame> session_frames() const;
  [[nodiscard]] std::size_t sessions() const noexcept;
};

/// Every operator of the catalogue, most of them as 64 frames of 1,024 samples and as one of 1 Mi samples.
[[nodiscard]] std::vector<operator_case> operator_cases();
/// Those, what a GPU alone is asked, and behind the smaller batches one of about 256 MiB.
[[nodiscard]] std::vector<operator_case> gpu_operator_cases();

/// The same batch of an input whenever it is asked for: noise of deviation 0.3, integers over their whole range. Behind
/// 32 MiB it repeats itself.
[[nodiscard]] std::vector<std::byte> input_batch(const operator_case& what, std::size_t input);

/// Name, operator, parameters, specs and frames, as the process that times numpy is told.
[[nodiscard]] nlohmann::ordered_json to_json(const operator_case& what);

}  // namespace penstock::bench
