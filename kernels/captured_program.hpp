#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/captured_rows.hpp"
#include "kernels/operation.hpp"
#include "kernels/waves.hpp"

namespace penstock {

/// Memory that one step works on, the program's own: its addresses never change. Every tensor has the frames of the
/// step one after the other; those of a program with state have the states behind the last.
struct captured_memory {
  std::span<void* const> inputs;
  std::span<void*> outputs;  ///< where results belong; a step that leaves one elsewhere writes here where
  std::byte* scratch = nullptr;
};

/// Work over a fixed number of frames that a stream can capture.
struct captured_step {
  std::int64_t frames = 1;
  std::size_t scratch_bytes = 0;
  double microseconds = 0;  ///< of a run; 0: it is measured
  /// Enqueues the work on a stream, which is made for it, and nowhere else, unless it joins again. It is called once as
  /// it is, where it may still allocate and wait, and then once for each graph, where it may do neither.
  std::function<fault(cudaStream_t, const captured_memory&)> enqueue;
};

/// An operation of work that is captured into CUDA graphs, so that a batch is one launch, however many kernels the work
/// has: y = step(x), or with state y, state' = step(x, state), one frame a session.
///
/// There is a step for each of some numbers of frames, the buckets. A batch is cut into those that take the least time
/// together; of the last one some rows may be zero. Frames of a session that are in one batch run one after the other,
/// in waves.
///
/// A graph works on memory of its own. Kernels at its two ends bring frames and states in and out; their parameters are
/// all that a batch changes. Streams that run at once need several sets of memory and graphs: a stream keeps its set as
/// long as no other is short of one.
class captured_program final : public operation {
 public:
  static constexpr std::size_t most_sets = 8;
  /// Fewer sets are made where they would take more memory than this, but two.
  static constexpr std::size_t memory_limit = std::size_t{1} << 30U;

  /// On the current device. `layout` as for waves. Everything is captured, launched once and waited for, on a stream of
  /// its own: other threads may use the device meanwhile. Throws std::runtime_error.
  captured_program(wave_layout layout, std::vector<captured_step> steps, std::size_t sets = most_sets);
  ~captured_program() override;

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return layout_.state_bytes; }
  fault run(void* stream, const operation_arguments& arguments) noexcept override;

  /// Without those that the graphs take inside the driver.
  [[nodiscard]] std::size_t own_bytes() const noexcept override;

 private:
  struct graph;
  struct memory_set;
  struct frame_range;

  void capture(cudaStream_t stream, memory_set& set, std::size_t step);
  [[nodiscard]] fault run_on(cudaStream_t stream, const operation_arguments& arguments) noexcept;
  [[nodiscard]] fault run_wave(cudaStream_t stream, memory_set& set, const operation_arguments& arguments,
                               std::int32_t first, std::int32_t count, bool listed) noexcept;
  [[nodiscard]] fault launch(cudaStream_t stream, graph& which, const operation_arguments& arguments,
                             const frame_range& range) noexcept;
  [[nodiscard]] memory_set& set_of(cudaStream_t stream) noexcept;
  [[nodiscard]] double measure(cudaStream_t stream, const graph& which) const;
  void plan_cuts(cudaStream_t stream);
  [[nodiscard]] std::size_t sort_waves(std::span<const session_frame> frames) noexcept;

  const wave_layout layout_;
  const std::vector<captured_step> steps_;  // by their frames
  const captured_kernels kernels_;
  std::vector<memory_set> sets_;
  std::vector<std::uint32_t> step_for_;  // where so many frames are left
  std::uint64_t runs_ = 0;
  // Of a batch in which a session has several frames.
  std::vector<std::int32_t> order_;      // wave after wave
  std::vector<std::int32_t> wave_of_;    // each frame
  std::vector<std::int32_t> wave_ends_;  // in order_
};

}  // namespace penstock
