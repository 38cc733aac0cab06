#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/operation.hpp"

namespace penstock {

/// An operation breaks a rule of operation.hpp. what() says which, for the one who wrote it.
class proof_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Where a proof runs an operation: memory of a backend, and runs that are over when they return.
class proof_device {
 public:
  proof_device() = default;
  proof_device(const proof_device&) = delete;
  proof_device& operator=(const proof_device&) = delete;
  virtual ~proof_device() = default;

  /// Memory that operations work on, aligned to 256 bytes, in place of what this gave before. Throws
  /// std::runtime_error.
  [[nodiscard]] virtual std::byte* allocate(std::size_t bytes) = 0;
  /// Copies between that memory and the host's, and waits.
  virtual fault write(std::byte* to, std::span<const std::byte> from) noexcept = 0;
  virtual fault read(std::span<std::byte> to, const std::byte* from) noexcept = 0;
  /// Runs it once, and waits. The session's table lies in that memory too.
  virtual fault run(operation& subject, const operation_arguments& arguments) noexcept = 0;
};

/// The host's own memory. Operations run on the thread that calls.
[[nodiscard]] std::unique_ptr<proof_device> make_host_proof_device();

/// An operation and what it was made for.
struct proof_subject {
  operation& subject;
  std::vector<tensor_spec> inputs;
  std::vector<tensor_spec> outputs;
  std::optional<session_traits> session{};  ///< of an operation with state
  std::int64_t max_frames = 1;              ///< that it was made for
  bool overwrites = false;                  ///< the output may be the first input
};

struct proof_settings {
  std::uint64_t seed = 1;  ///< of the made-up frames: the same seed gives the same frames on every device
  std::size_t most_bytes = std::size_t{4} << 20U;  ///< of memory for a batch: fewer frames where they are larger
  /// Called with each rule that holds, such as "a frame's result is the same alone".
  std::function<void(const std::string&)> proven{};
};

/// What came of the made-up frames: of each output, the elements of all frames, or of all sessions, one after the
/// other.
using proof_results = std::vector<std::vector<std::byte>>;

/// Runs an operation on made-up frames, and throws proof_error unless
///   it writes to its outputs, its scratch and the new states of the batch's sessions alone (canaries lie around them),
///   it leaves its inputs as they are, and writes every byte of its outputs,
///   a frame's result is the same in a second run, alone, among other frames, and in a full batch,
///   with state: a session's result is the same however it is cut into frames and batches, and beside other sessions,
///   with `overwrites`: it is the same where the output is the first input.
/// "The same" is within rounding (compare_results). A fault of a run is a proof_error too.
proof_results prove(proof_device& device, const proof_subject& subject, const proof_settings& settings = {});

/// The same from several threads at once, each with a device from `open`, as the host backend runs an operation.
void prove_threads(const std::function<std::unique_ptr<proof_device>()>& open, const proof_subject& subject,
                   std::size_t threads, const proof_settings& settings = {});

/// What differs between two results of `prove`: "" if all elements agree. Two floating-point numbers agree if they
/// differ by at most `tolerance`, times the largest magnitude of that output: 1e-5 for 32 bits, 1e-2 for 16, 1e-9 for
/// 64 where it is not given. Integers agree if they are equal, or differ by at most `steps`.
[[nodiscard]] std::string compare_results(std::span<const tensor_spec> outputs, const proof_results& expected,
                                          const proof_results& given, std::optional<double> tolerance = std::nullopt,
                                          double steps = 0);

}  // namespace penstock
