// The kernels of captured programs, on the host.
#include <cstring>
#include <map>

#include "kernels/captured_rows.hpp"
#include "tests/fake_cuda/fake_machine.hpp"

namespace penstock {
namespace {

void copy(const captured_copy& what) {
  if (what.from == nullptr) {
    std::memset(what.to, 0, static_cast<std::size_t>(what.bytes));
  } else {
    std::memcpy(what.to, what.from, static_cast<std::size_t>(what.bytes));
  }
}

std::int32_t copies_of(const captured_rows& rows) {
  return rows.operands + (rows.state_bytes != 0 ? 1 : 0);
}

template <bool Listed, bool Out>
void move_rows(void* const* arguments) {
  const auto& rows = *static_cast<const captured_rows*>(arguments[0]);
  for (std::int32_t row = 0; row < (Out ? rows.frames : rows.rows); ++row) {
    const std::int32_t frame = row >= rows.frames ? -1
                               : Listed           ? static_cast<const captured_frame_list*>(arguments[1])->frame[row]
                                                  : rows.first + row;
    for (std::int32_t index = 0; index < copies_of(rows); ++index) {
      copy(Out ? scattered(rows, index, row, frame) : gathered(rows, index, row, frame));
    }
  }
}

constexpr testing::host_kernel gather{{sizeof(captured_rows), 0}, move_rows<false, false>};
constexpr testing::host_kernel scatter{{sizeof(captured_rows), 0}, move_rows<false, true>};
constexpr testing::host_kernel gather_listed{{sizeof(captured_rows), sizeof(captured_frame_list)},
                                             move_rows<true, false>};
constexpr testing::host_kernel scatter_listed{{sizeof(captured_rows), sizeof(captured_frame_list)},
                                              move_rows<true, true>};

}  // namespace

captured_kernels captured_row_kernels() noexcept {
  return {&gather, &scatter, &gather_listed, &scatter_listed};
}

namespace testing {

const host_kernel* find_host_kernel(const void* function) {
  for (const host_kernel* each : {&gather, &scatter, &gather_listed, &scatter_listed}) {
    if (each == function) {
      return each;
    }
  }
  return nullptr;
}

}  // namespace testing
}  // namespace penstock
