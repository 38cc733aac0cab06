#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// An operator with state, and how the signals of its sessions are cut.
struct session_case {
  std::string op;
  parameters settings;
  tensor_spec input;
  std::uint64_t seed = 1;
  std::int64_t max_frames = 6;   ///< the most frames of a batch
  std::int64_t least_steps = 1;  ///< of a frame of a variable input; 0: some frames are empty
  /// Steps that each session is older than its signal, from `aged_from` steps of it on: as if it had seen so many
  /// before. From its beginning on, the states are first zero bytes, as steps of zeros leave them in an operator that
  /// keeps steps. The age is a multiple of the operator's rate.
  std::int64_t age = 0;
  std::int64_t aged_from = 0;
  std::vector<std::byte> state{};  ///< with an age and no `aged_from`: the states at first, in place of zero bytes
  /// operation_arguments::numbers of a frame of a session, which begins at `step` of its signal; called for each frame
  /// in their order. Without it the stage is not tuned.
  std::function<std::vector<double>(std::size_t session, std::int64_t step)> numbers{};

  /// The output's spec; throws parameter_error.
  [[nodiscard]] tensor_spec output() const;
  [[nodiscard]] session_traits traits() const;
  /// Bytes of one step of the signals and of one step of the results, or of the result of a frame.
  [[nodiscard]] std::size_t input_step_bytes() const;
  [[nodiscard]] std::size_t output_step_bytes() const;
  /// For failures: operator, input, seed.
  [[nodiscard]] std::string text() const;
};

/// Takes several sessions through an operator with state, and checks that it keeps the rules of operation.hpp.
///
/// The signal of each session is cut at random: into frames of 0 or 1 … N steps for "max N"; into whole frames for a
/// fixed input (the signal is then such frames, wherever their time lies) and for an operator on whole frames (a step
/// is then a frame). The frames of all sessions are put at random into batches, those of a session in order, sometimes
/// several in one batch. The batches run one after the other.
///
/// The states start as garbage, and so does all other memory that is not input: bytes 0xFF, which are NaN in f32 and
/// f64 and −1 in integers. They fill the output, the scratch, the gap after frames that are shorter than the pitch, and
/// the surroundings of all memory that an operation gets.
class session_runner {
 public:
  explicit session_runner(std::unique_ptr<device> target);

  /// The output steps of each session, as bytes. Fails the test if the operation wrote elsewhere than to its output,
  /// its scratch, and the new states of the sessions in the batch. Throws parameter_error and device_error; a fault of
  /// the device is thrown as std::runtime_error.
  [[nodiscard]] std::vector<std::vector<std::byte>> run(const session_case& setup,
                                                        std::span<const std::vector<std::byte>> signals);

  /// The same for elements: float, std::complex<float>, integers.
  template <class Out, class In>
  [[nodiscard]] std::vector<std::vector<Out>> run(const session_case& setup,
                                                  const std::vector<std::vector<In>>& signals) {
    std::vector<std::vector<std::byte>> raw(signals.size());
    for (std::size_t session = 0; session < signals.size(); ++session) {
      const auto bytes = std::as_bytes(std::span{signals[session]});
      raw[session].assign(bytes.begin(), bytes.end());
    }
    const std::vector<std::vector<std::byte>> given = run(setup, raw);
    std::vector<std::vector<Out>> out(given.size());
    for (std::size_t session = 0; session < given.size(); ++session) {
      out[session].resize(given[session].size() / sizeof(Out));
      const std::span<std::byte> to = std::as_writable_bytes(std::span{out[session]});
      std::copy_n(given[session].begin(), to.size(), to.begin());
    }
    return out;
  }

 private:
  std::unique_ptr<device> device_;
  std::unique_ptr<stream> stream_;
};

}  // namespace penstock
