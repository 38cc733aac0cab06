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

/// Whether the first dimension counts rows in time order, which are drawn like frames.
[[nodiscard]] bool has_rows(const tensor_info& output);

/// Chooses the picture by the output's operator: a spectrogram for power_spectrum, stft, channelize and mel, a table
/// for moments, detect and top, bars for histogram. Otherwise a map for a frame of at least heat_map::least_extent by
/// as many numbers, a map over time for rows of at least line_chart::least_row numbers, and a line chart for the rest
/// and for the first few of those rows.
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

/// All numbers of an output in sequence, or those of the latest frame; each column shows the range of its numbers.
class line_chart : public picture {
 public:
  static constexpr std::int64_t least_row = 32;  ///< fewer numbers a row are channels

  line_chart(std::string title, const sample_clock& clock, bool latest_alone = false);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& screen, int rows) const override;

 private:
  /// What stands below: time, or the places in a frame.
  [[nodiscard]] axis below() const;

  std::string title_;
  sample_clock clock_;
  bool latest_alone_;
  std::uint64_t frames_ = 0;
  series numbers_;
};

/// Rows over time as a map, or the latest while they are few.
class row_chart : public picture {
 public:
  static constexpr std::uint64_t fewest_rows = 8;

  row_chart(const std::string& title, const sample_clock& clock);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& screen, int rows) const override;

 private:
  std::uint64_t rows_ = 0;
  line_chart latest_;
  std::unique_ptr<picture> all_;
};

/// The latest frame of an output of two dimensions as a map: the first goes up, the second to the right. Neighbours
/// that share a cell are shown by the largest.
class heat_map : public picture {
 public:
  static constexpr std::int64_t least_extent = 8;

  heat_map(std::string title, std::string unit, std::size_t rows, std::size_t columns);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& screen, int rows) const override;

 private:
  [[nodiscard]] heat_grid grid_of(std::size_t rows, std::size_t columns) const;

  std::string title_;
  std::string unit_;  ///< name of a frame
  std::size_t rows_;
  std::size_t columns_;
  std::uint64_t frames_ = 0;
  std::vector<float> latest_;
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

/// The latest events of `detect`, or entries of `top`, one per line: frame, row, and the event's numbers.
class event_table : public picture {
 public:
  static constexpr std::size_t most_events = 64;  ///< earlier ones are dropped
  static constexpr std::size_t most_numbers = 4;

  /// How events lie in a row of samples.
  struct layout {
    std::size_t block = 1;    ///< events, and the counts where there are some
    std::size_t numbers = 2;  ///< of an event: index and value; along a session start, end, index and value
    bool counted = true;      ///< the first entry has the numbers of events found and listed; else all with an index
  };

  event_table(std::string title, const sample_clock& clock, const layout& events);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& screen, int rows) const override;

 private:
  struct event {
    std::uint64_t frame = 0;
    std::size_t row = 0;  ///< of the frame
    std::array<float, most_numbers> numbers{};
  };

  [[nodiscard]] std::string line_of(const event& found) const;

  std::string title_;
  sample_clock clock_;
  layout layout_;
  std::size_t rows_ = 1;  ///< of a frame
  std::uint64_t frames_ = 0;
  double found_ = 0;
  double listed_ = 0;
  std::deque<event> latest_;
};

}  // namespace penstock::cli
