#include "kernels/frame_rows.hpp"

#include <cstddef>

namespace penstock {

frame_rows::frame_rows(const tensor_spec& spec) noexcept
    : length_{spec.shape.back()},
      variable_length_{spec.variable && spec.shape.size() == 1},
      variable_count_{spec.variable && spec.shape.size() > 1} {
  if (spec.shape.size() > 1) {
    leading_ = spec.shape.front();
  }
  for (std::size_t axis = 1; axis + 1 < spec.shape.size(); ++axis) {
    inner_ *= spec.shape[axis];
  }
}

}  // namespace penstock
