#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/session.hpp"

namespace penstock {

/// Inputs of a captured program, its outputs likewise; the state is one more of each.
inline constexpr std::size_t max_captured_operands = 12;

/// Frames of one tensor, one after the other: where they lie in the batch and where in the program's own memory.
struct captured_operand {
  std::byte* batch = nullptr;
  std::byte* own = nullptr;
  std::int64_t bytes = 0;  ///< of a frame
};

/// The parameter of the kernels at the ends of a captured program. Row r of the program's memory is frame `first` + r
/// of the batch, or the one that a list names; of `rows` rows those from `frames` on hold none.
struct captured_rows {
  captured_operand operand[max_captured_operands];
  std::int32_t operands = 0;
  std::int32_t rows = 0;
  std::int32_t frames = 0;
  std::int32_t first = 0;
  std::byte* state = nullptr;    ///< in the program's memory
  std::int64_t state_bytes = 0;  ///< of a session; 0: it keeps none
  session_arguments session;
};

/// Of a wave: as many frames as a kernel's parameters hold.
inline constexpr std::int32_t max_listed_frames = 768;
struct captured_frame_list {
  std::int32_t frame[max_listed_frames];
};

/// One copy of a kernel. Without a source the target becomes zero.
struct captured_copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::int64_t bytes = 0;
};

/// What row `row` of the program's memory gets: of operand `index`, or for index == operands the state. The first frame
/// of a session in the batch finds its state in the half that the last batch wrote, each later one where the frame
/// before it has left it. `frame` < 0: the row holds none.
[[nodiscard]] PENSTOCK_HOST_DEVICE inline captured_copy gathered(const captured_rows& rows, std::int32_t index,
                                                                 std::int32_t row, std::int32_t frame) noexcept {
  if (index < rows.operands) {
    const captured_operand& each = rows.operand[index];
    return {each.own + row * each.bytes, frame < 0 ? nullptr : each.batch + frame * each.bytes, each.bytes};
  }
  captured_copy copy{rows.state + row * rows.state_bytes, nullptr, rows.state_bytes};
  if (frame >= 0) {
    const session_frame& entry = rows.session.frames[frame];
    if (entry.position != 0) {
      copy.from = rows.session.half(entry.place, entry.previous < 0 ? entry.half : 1 - entry.half);
    }
  }
  return copy;
}

/// The way back, of a row that holds a frame.
[[nodiscard]] PENSTOCK_HOST_DEVICE inline captured_copy scattered(const captured_rows& rows, std::int32_t index,
                                                                  std::int32_t row, std::int32_t frame) noexcept {
  if (index < rows.operands) {
    const captured_operand& each = rows.operand[index];
    return {each.batch + frame * each.bytes, each.own + row * each.bytes, each.bytes};
  }
  const session_frame& entry = rows.session.frames[frame];
  return {rows.session.half(entry.place, 1 - entry.half), rows.state + row * rows.state_bytes, rows.state_bytes};
}

/// The kernels' addresses. Each has a captured_rows as parameter, and with a list a captured_frame_list behind it; a
/// block in y works on one row, those in x share it.
struct captured_kernels {
  const void* gather = nullptr;
  const void* scatter = nullptr;
  const void* gather_listed = nullptr;
  const void* scatter_listed = nullptr;
};
[[nodiscard]] captured_kernels captured_row_kernels() noexcept;

}  // namespace penstock
