#include "client/cli/picture.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <string_view>

#include "client/cli/bar_chart.hpp"
#include "client/cli/event_table.hpp"
#include "client/cli/line_chart.hpp"
#include "client/cli/moments_table.hpp"
#include "client/cli/spectrogram.hpp"

namespace penstock::cli {
namespace {

template <class Element>
std::vector<float> as_floats(const tensor_view& tensor) {
  const auto elements = tensor.to_vector<Element>();
  std::vector<float> numbers(elements.size());
  std::transform(elements.begin(), elements.end(), numbers.begin(),
                 [](Element each) { return static_cast<float>(each); });
  return numbers;
}

std::vector<float> magnitudes(const tensor_view& tensor) {
  const auto elements = tensor.to_vector<std::complex<float>>();
  std::vector<float> numbers(elements.size());
  std::transform(elements.begin(), elements.end(), numbers.begin(),
                 [](const std::complex<float>& each) { return std::abs(each); });
  return numbers;
}

}  // namespace

std::unique_ptr<picture> picture_of(const tensor_info& output, const sample_clock& clock) {
  const std::string title = output.name + (output.op.empty() || output.op == output.name ? "" : " (" + output.op + ")");
  if (output.op == "power_spectrum") {
    return std::make_unique<spectrogram>(title, clock);
  }
  if (output.op == "moments") {
    return std::make_unique<moments_table>(title, clock.complex_input);
  }
  if (output.op == "histogram") {
    return std::make_unique<bar_chart>(title);
  }
  if (output.op == "detect" && output.shape.size() >= 2) {
    return std::make_unique<event_table>(title, clock, static_cast<std::size_t>(output.shape.end()[-2]));
  }
  return std::make_unique<line_chart>(title, clock);
}

std::vector<float> numbers_of(const tensor_view& tensor) {
  const std::string_view dtype = tensor.dtype;
  if (dtype == "f32") {
    return tensor.to_vector<float>();
  }
  if (dtype == "c64") {
    return magnitudes(tensor);
  }
  if (dtype == "i32") {
    return as_floats<std::int32_t>(tensor);
  }
  if (dtype == "i16") {
    return as_floats<std::int16_t>(tensor);
  }
  return dtype == "i8" ? as_floats<std::int8_t>(tensor) : as_floats<std::uint8_t>(tensor);
}

}  // namespace penstock::cli
