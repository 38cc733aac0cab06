#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/pipeline_info.hpp>
#include <penstock/result.hpp>

#include "client/cli/plot.hpp"
#include "client/cli/terminal.hpp"

namespace penstock::cli {

/// Converts frames and bins to seconds and hertz.
struct sample_clock {
  std::optional<double> rate;      ///< samples per second, if known
  std::int64_t frame_samples = 1;  ///< samples per frame
  bool complex_input = false;      ///< spectra include negative frequencies
  std::string unit = "frame";      ///< name of a frame; "row" for a stream of rows
  bool even_frames = true;         ///< all frames of the input have frame_samples
  std::int64_t first_sample = 0;   ///< number of the first sample, from which axes of time count

  /// Seconds at which the first sample stands; 0 without a rate.
  [[nodiscard]] double start() const noexcept { return rate ? static_cast<double>(first_sample) / *rate : 0; }
};

/// A picture of one output of a pipeline. Its memory does not grow with the number of frames.
class picture {
 public:
  picture() = default;
  picture(const picture&) = delete;
  picture& operator=(const picture&) = delete;
  virtual ~picture() = default;

  /// Adds the numbers of the next frame.
  virtual void add(std::span<const float> frame) = 0;
  /// At most `rows` whole lines, none wider than the terminal. Without data, a line that says so.
  [[nodiscard]] virtual std::string draw(const terminal& screen, int rows) const = 0;
};

/// Chooses the picture by the output's operator: a spectrogram for power_spectrum, a table for moments and detect, bars
/// for histogram, otherwise a line chart.
[[nodiscard]] std::unique_ptr<picture> picture_of(const tensor_info& output, const sample_clock& clock);

/// The numbers of a tensor, or the magnitudes of a complex one.
[[nodiscard]] std::vector<float> numbers_of(const tensor_view& tensor);

/// Counts per bin, summed over all frames, as vertical bars.
class bar_chart : public picture {
 public:
  explicit bar_chart(std::string title);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& screen, int rows) const override;

 private:
  std::string title_;
  std::uint64_t frames_ = 0;
  std::vector<double> counts_;
};

/// All numbers of an output in sequence; each column shows the range of its numbers.
class line_chart : public picture {
 public:
  line_chart(std::string title, const sample_clock& clock);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& screen, int rows) const override;

 private:
  std::string title_;
  sample_clock clock_;
  std::uint64_t frames_ = 0;
  series numbers_;
};

/// Mean, standard deviation, minimum, maximum and rms of the frames: overall, and as a sparkline. Each row of moments
/// in a frame has its own table.
class moments_table : public picture {
 public:
  static constexpr std::size_t moments = 5;
  static constexpr std::size_t most_rows = 4;  ///< further rows are omitted, with a note

  moments_table(std::string title, bool complex_input);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& screen, int rows) const override;

 private:
  [[nodiscard]] std::string row_name(std::size_t row) const;

  std::string title_;
  bool complex_input_;
  std::uint64_t frames_ = 0;
  std::size_t rows_ = 0;
  std::vector<std::array<series, moments>> tables_;
};

/// A sparkline of `width` cells.
[[nodiscard]] std::string sparkline(const series& numbers, std::size_t width, bool ascii);

/// The latest events of `detect`, one per line: frame, row, index in the row, and peak.
class event_table : public picture {
 public:
  static constexpr std::size_t most_events = 64;  ///< earlier ones are dropped

  /// `block`: pairs of numbers per row of samples: the counts, then the events.
  event_table(std::string title, const sample_clock& clock, std::size_t block);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& screen, int rows) const override;

 private:
  struct event {
    std::uint64_t frame = 0;
    std::size_t row = 0;  ///< of the frame
    float index = 0;
    float peak = 0;
  };

  [[nodiscard]] std::string line_of(const event& found) const;

  std::string title_;
  sample_clock clock_;
  std::size_t block_;
  std::size_t rows_ = 1;  ///< of a frame
  std::uint64_t frames_ = 0;
  double found_ = 0;
  double listed_ = 0;
  std::deque<event> latest_;
};

}  // namespace penstock::cli
