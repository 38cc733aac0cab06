#include "proto/data_type.hpp"

namespace penstock::wire {

std::size_t data_type::item_bytes() const noexcept {
  const auto total_bits = std::size_t{bits} * lanes;
  return total_bits % 8 == 0 ? total_bits / 8 : 0;
}

}  // namespace penstock::wire
