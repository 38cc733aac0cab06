#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "daemon/device/device.hpp"
#include "tests/bench/operators/operator_case.hpp"

namespace penstock::bench {

/// One operation on one device with everything that it works on, timed by the device's own events: several launches
/// one behind the other on one stream, nothing else in between.
class timed_operation {
 public:
  /// `arguments` point at device memory that outlives this.
  timed_operation(device& on, operation& what, const operation_arguments& arguments);

  /// Runs it for about so long. Returns the seconds of one run. Throws std::runtime_error when the device fails.
  [[nodiscard]] double run(double seconds);

 private:
  [[nodiscard]] double warm_up();
  [[nodiscard]] double run_times(int count);

  operation& what_;
  operation_arguments arguments_;
  std::unique_ptr<stream> stream_;
  std::unique_ptr<event> begin_;
  std::unique_ptr<event> end_;
  double last_;
};

/// One block of a device's memory for all that a batch needs, as a slot of the ring has it: at least as large as a slot
/// is with the batches of a configuration that says nothing.
class batch_memory {
 public:
  /// Room for so many pieces, of so many bytes together.
  batch_memory(device& on, std::size_t pieces, std::size_t bytes);

  /// The next piece, aligned as operators expect it.
  [[nodiscard]] std::byte* take(std::size_t bytes) noexcept;

 private:
  device_memory block_;
  std::size_t taken_ = 0;
};

/// What lies there on the device, once everything before has been done.
[[nodiscard]] std::vector<std::byte> read_back(device& on, const std::byte* from, std::size_t bytes);

/// An operator of the catalogue on a batch of its case.
class operator_rig {
 public:
  operator_rig(device& on, const operator_case& what);

  [[nodiscard]] double run(double seconds) { return timed_->run(seconds); }
  /// The output of the last run.
  [[nodiscard]] std::vector<std::byte> result() { return read_back(on_, output_, output_bytes_); }
  [[nodiscard]] const operation_arguments& arguments() const noexcept { return arguments_; }

 private:
  void upload(std::byte* to, const void* from, std::size_t bytes);

  device& on_;
  std::size_t output_bytes_;
  std::unique_ptr<stream> copies_;
  std::unique_ptr<operation> compiled_;
  batch_memory memory_;
  std::vector<const void*> addresses_;
  std::byte* output_;
  device_memory pool_;
  operation_arguments arguments_;
  std::unique_ptr<timed_operation> timed_;
};

}  // namespace penstock::bench
