#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "daemon/device/device.hpp"
#include "daemon/pipeline/declaration.hpp"

namespace penstock::bench {

/// What every way of the overlap benchmark does: rows of f32 go in, each is correlated with `taps` taps, as many bytes
/// come out.
struct overlap_work {
  static constexpr std::size_t row = 8192;  ///< samples
  std::size_t rows = 2048;
  std::size_t taps = 1;

  [[nodiscard]] std::size_t bytes() const noexcept { return rows * row * sizeof(float); }
  /// A checked pipeline whose batches are one of so many chunks.
  [[nodiscard]] pipeline_declaration declaration(std::size_t chunks) const;
  /// The same for a daemon: its configuration.
  [[nodiscard]] std::string configuration(std::size_t chunks) const;
  /// The stage's operation for batches of up to all rows.
  [[nodiscard]] std::unique_ptr<operation> compile(device& on) const;
  /// The same without a device of ours, which launches what it has compiled itself alone.
  [[nodiscard]] std::unique_ptr<operation> compile(make_operation with) const;
};

/// What the ways share: all input and output, pinned and on the device. The input is random.
struct overlap_buffers {
  overlap_buffers(device& on, const overlap_work& what);

  std::size_t rows;
  device_memory pinned_input;
  device_memory pinned_output;
  device_memory input;
  device_memory output;
  device_memory scratch;  ///< of each chunk its own
  std::size_t scratch_stride = 0;
};

/// Microseconds that each of the three takes alone, by the device's clock: the shortest of several.
struct stage_times {
  double copy_in = 0;
  double compute = 0;
  double copy_out = 0;
};
[[nodiscard]] stage_times measure_stages(device& on, const overlap_work& what);

/// As many taps as make the kernel take as long as a copy. What comes back says how well that went.
struct tuned_work {
  overlap_work work;
  stage_times times;
};
[[nodiscard]] tuned_work tune(device& on, std::size_t rows);

}  // namespace penstock::bench
