#include "kernels/detect.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

constexpr std::size_t block_length = 256;

/// Whether any of block_length samples is at least `high`.
PENSTOCK_VECTOR_CLONES bool any_at_least(const float* samples, float high) {
  unsigned any = 0;
#pragma omp simd reduction(| : any)
  for (std::size_t i = 0; i < block_length; ++i) {
    any |= samples[i] >= high ? 1U : 0U;
  }
  return any != 0;
}

/// The first sample from `index` on that is at least `high`; `count` if there is none.
std::size_t next_start(const float* row, std::size_t index, std::size_t count, float high) noexcept {
  while (index + block_length <= count && !any_at_least(row + index, high)) {
    index += block_length;
  }
  while (index < count && !(row[index] >= high)) {
    ++index;
  }
  return index;
}

/// Goes from an event's start to its end; returns where that is.
std::size_t follow_event(const float* row, std::size_t index, std::size_t count, float low,
                         std::size_t& peak) noexcept {
  peak = index;
  float largest = row[index];
  for (++index; index < count && !(row[index] < low); ++index) {
    if (row[index] > largest) {
      largest = row[index];
      peak = index;
    }
  }
  return index;
}

class detect_host final : public operation {
 public:
  explicit detect_host(detect_settings settings) : settings_{std::move(settings)} {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto length = static_cast<std::size_t>(settings_.rows.length(arguments.extent));
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::size_t row = 0; row < rows; ++row, in += length, out += settings_.row_results()) {
      list_events(in, length, out);
    }
    return {};
  }

 private:
  void list_events(const float* row, std::size_t length, float* out) const noexcept {
    const auto most = static_cast<std::size_t>(settings_.max_events);
    std::size_t found = 0;
    for (std::size_t index = next_start(row, 0, length, settings_.high); index < length;
         index = next_start(row, index, length, settings_.high)) {
      std::size_t peak = index;
      index = follow_event(row, index, length, settings_.low, peak);
      if (found < most) {
        out[2 * found + 2] = static_cast<float>(peak);
        out[2 * found + 3] = row[peak];
      }
      ++found;
    }
    const std::size_t listed = std::min(found, most);
    out[0] = static_cast<float>(found);
    out[1] = static_cast<float>(listed);
    for (std::size_t unused = listed; unused < most; ++unused) {
      out[2 * unused + 2] = -1.0F;
      out[2 * unused + 3] = 0.0F;
    }
  }

  const detect_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_detect_host(const operation_request& request) {
  return std::make_unique<detect_host>(parse_detect(request.settings, request.inputs[0]));
}

}  // namespace penstock
