#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/pipeline_info.hpp>
#include <penstock/result.hpp>

#include "client/cli/terminal.hpp"

namespace penstock::cli {

/// What turns frames and bins into seconds and hertz.
struct sample_clock {
  std::optional<double> rate;      ///< samples a second, where it is known
  std::int64_t frame_samples = 1;  ///< samples of one frame
  bool complex_input = false;      ///< spectra have negative frequencies too
  std::string unit = "frame";      ///< what such a frame is called: of a stream of rows, "row"
  bool even_frames = true;         ///< all frames of the input have frame_samples
};

/// What is drawn of one output of a pipeline, in memory that does not grow with the number of frames.
class picture {
 public:
  picture() = default;
  picture(const picture&) = delete;
  picture& operator=(const picture&) = delete;
  virtual ~picture() = default;

  /// The next frame's numbers, in order.
  virtual void add(std::span<const float> frame) = 0;
  /// Whole lines, none wider than the terminal, in at most `rows` of them. Says so where there is nothing to draw.
  [[nodiscard]] virtual std::string draw(const terminal& where, int rows) const = 0;
};

/// The picture that suits what made the output: a spectrogram for power_spectrum, a table for moments and for
/// detect, bars for histogram, a line for anything else.
[[nodiscard]] std::unique_ptr<picture> picture_of(const tensor_info& output, const sample_clock& clock);

/// A tensor's numbers; a complex one's magnitudes.
[[nodiscard]] std::vector<float> numbers_of(const tensor_view& tensor);

}  // namespace penstock::cli
