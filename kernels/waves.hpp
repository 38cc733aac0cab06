#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/operation.hpp"

namespace penstock {

/// A row to copy from one table of rows to another.
struct row_copy {
  std::int32_t to = 0;
  std::int32_t from = 0;  ///< −1: the row becomes zero
};

/// Rows of equal size: where the first lies, and bytes from one to the next.
struct row_table {
  std::byte* first = nullptr;
  std::size_t pitch = 0;
};

/// Copies rows in memory that operations work on: on CUDA it enqueues, on the host `stream` is nullptr.
using copy_rows_function = fault (*)(void* stream, row_table to, row_table from, std::size_t bytes,
                                     std::span<const row_copy> rows) noexcept;

/// What an operation that runs in waves works on. Frames have one fixed shape; a step of a session is a frame.
struct wave_layout {
  std::vector<std::size_t> inputs;   ///< bytes of a frame of each
  std::vector<std::size_t> outputs;  ///< the same
  std::size_t state_bytes = 0;       ///< of a session
  std::int64_t max_frames = 1;
};

[[nodiscard]] wave_layout wave_layout_of(std::span<const tensor_spec> inputs, std::span<const operator_output> outputs,
                                         std::size_t state_bytes, std::int64_t max_frames);

/// Makes an operation with state out of one without: y, state' = step(x, state), one frame a session.
///
/// Wave k of a batch holds the k-th frame of every session that has one, so a thousand sessions with state run in one
/// launch. `step` runs once a wave. It gets the state as one more input and writes the new one as one more output:
/// frames × state_bytes each, aligned to 256 bytes, zero at a session's first frame. It keeps to its wave's frames, and
/// knows nothing of sessions. Frames are gathered for it, except where a batch is one wave; states always.
[[nodiscard]] std::unique_ptr<operation> make_waves_host(std::unique_ptr<operation> step, wave_layout layout);
/// The same on CUDA. Throws std::runtime_error.
[[nodiscard]] std::unique_ptr<operation> make_waves_cuda(std::unique_ptr<operation> step, wave_layout layout);

/// `keeps_book`: bookkeeping lies in the operation (one thread runs it), else in the scratch (host memory).
[[nodiscard]] std::unique_ptr<operation> make_waves(std::unique_ptr<operation> step, wave_layout layout,
                                                    copy_rows_function copy_rows, bool keeps_book);

}  // namespace penstock
