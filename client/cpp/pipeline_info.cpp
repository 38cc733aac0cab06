#include <penstock/pipeline_info.hpp>

#include "client/cpp/wire_dtype.hpp"

namespace penstock {

std::size_t tensor_info::item_bytes() const noexcept {
  const auto type = link::dtype_of(dtype);
  return type ? type->item_bytes() : 0;
}

std::size_t tensor_info::frame_bytes(std::int64_t leading) const noexcept {
  std::size_t bytes = item_bytes();
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t extent = axis == 0 && leading > 0 ? leading : shape[axis];
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) {
      return 0;
    }
  }
  return bytes;
}

std::string tensor_info::text() const {
  std::string text = (element.empty() ? dtype : element) + "[";
  const bool pairs = element != dtype && !shape.empty() && shape.back() == 2 && dtype != "c64";
  const std::size_t shown = shape.size() - (pairs ? 1 : 0);
  for (std::size_t axis = 0; axis < shown; ++axis) {
    text += axis == 0 ? (variable ? "max " : "") : ", ";
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

}  // namespace penstock
