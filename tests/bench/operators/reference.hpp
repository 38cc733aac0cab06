#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "daemon/device/device.hpp"
#include "tests/bench/operators/operator_timing.hpp"

namespace penstock::bench {

class bare_calls;

/// An operation that is timed beside an operator, with output and scratch of its own.
class reference {
 public:
  /// Of the operator's inputs, which must outlive it. Runs it. Throws std::runtime_error when the device fails.
  reference(device& on, std::unique_ptr<operation> what, std::vector<const void*> inputs, std::size_t output_bytes);
  /// Of an input of its own.
  reference(device& on, std::unique_ptr<operation> what, std::size_t input_bytes, std::size_t output_bytes);
  reference(const reference&) = delete;
  reference& operator=(const reference&) = delete;
  /// The operation goes before its stream, so that a library can let go of that.
  ~reference() { what_.reset(); }

  [[nodiscard]] double run(double seconds) { return timed_->run(seconds); }
  /// The output of the last run.
  [[nodiscard]] std::vector<std::byte> result() { return read_back(on_, output_, output_bytes_); }

 private:
  void start();

  device& on_;
  std::unique_ptr<operation> what_;
  std::size_t output_bytes_;
  batch_memory memory_;
  std::vector<const void*> inputs_;
  std::byte* output_;
  std::unique_ptr<timed_operation> timed_;
};

/// A copy of as many bytes as the operator moves: half of them are read, half are written. `bare` is nullptr on the
/// host.
[[nodiscard]] std::unique_ptr<reference> copy_beside(device& on, const operator_case& what, const bare_calls* bare);

}  // namespace penstock::bench
