#include "client/cli/picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include <penstock/float16.hpp>

#include "base/quantity.hpp"
#include "client/cli/plot.hpp"
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

/// Whether each of its rows is a curve, which does not go on in the next.
bool is_long_row(const tensor_info& output) {
  return has_rows(output) && output.shape.size() == 2 && output.shape.back() >= line_chart::least_row;
}

/// Whether what is drawn at once has two dimensions, besides those of one element before them.
bool is_map(const tensor_info& output) {
  const std::size_t rows = has_rows(output) ? 1 : 0;
  const auto& shape = output.shape;
  return shape.size() >= rows + 2 &&
         std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(rows), shape.end() - 2,
                     [](std::int64_t extent) { return extent == 1; }) &&
         std::min(shape.end()[-1], shape.end()[-2]) >= heat_map::least_extent;
}

}  // namespace

bool has_rows(const tensor_info& output) {
  return !output.shape.empty() && (output.variable || output.steps > 1 || output.indices > 1);
}

std::unique_ptr<picture> picture_of(const tensor_info& output, const sample_clock& clock) {
  const std::string title = output.name + (output.op.empty() || output.op == output.name ? "" : " (" + output.op + ")");
  if (output.op == "power_spectrum") {
    return std::make_unique<spectrogram>(title, clock);
  }
  if (output.op == "mel") {
    return std::make_unique<spectrogram>(title, clock, spectrogram::content::power);
  }
  if (has_rows(output) && (output.op == "stft" || output.op == "channelize")) {
    return std::make_unique<spectrogram>(title, clock, spectrogram::content::magnitudes);
  }
  if (output.op == "moments" && !output.shape.empty() && output.shape.back() == moments_table::moments) {
    return std::make_unique<moments_table>(title, clock.complex_input);
  }
  if (output.op == "histogram") {
    return std::make_unique<bar_chart>(title);
  }
  const bool is_detect = output.op == "detect";
  if ((is_detect || output.op == "top") && output.shape.size() >= 2) {
    const event_table::layout events{static_cast<std::size_t>(output.shape.end()[-2]),
                                     static_cast<std::size_t>(output.shape.back()), is_detect};
    return std::make_unique<event_table>(title, clock, events);
  }
  if (is_map(output)) {
    return std::make_unique<heat_map>(title, clock.unit, static_cast<std::size_t>(output.shape.end()[-2]),
                                      static_cast<std::size_t>(output.shape.back()));
  }
  if (is_long_row(output)) {
    return std::make_unique<row_chart>(title, clock);
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
  if (dtype == "f64") {
    return as_floats<double>(tensor);
  }
  if (dtype == "f16") {
    return as_floats<float16>(tensor);
  }
  if (dtype == "bf16") {
    return as_floats<bfloat16>(tensor);
  }
  if (dtype == "i64") {
    return as_floats<std::int64_t>(tensor);
  }
  if (dtype == "i32") {
    return as_floats<std::int32_t>(tensor);
  }
  if (dtype == "i16") {
    return as_floats<std::int16_t>(tensor);
  }
  if (dtype == "u16") {
    return as_floats<std::uint16_t>(tensor);
  }
  if (dtype == "bool") {
    return as_floats<bool>(tensor);
  }
  return dtype == "i8" ? as_floats<std::int8_t>(tensor) : as_floats<std::uint8_t>(tensor);
}

namespace {

constexpr int most_bar_rows = 12;

/// A cell filled up to `share`.
std::string_view cell_of(double share, bool ascii) {
  constexpr std::array<std::string_view, 9> eighths{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<std::string_view, 3> shades{" ", ".", "#"};
  const double level = std::clamp(share, 0.0, 1.0);
  return ascii ? shades[static_cast<std::size_t>(std::lround(level * 2))]
               : eighths[static_cast<std::size_t>(std::lround(level * 8))];
}

}  // namespace

bar_chart::bar_chart(std::string title) : title_(std::move(title)) {}

void bar_chart::add(std::span<const float> frame) {
  counts_.resize(std::max(counts_.size(), frame.size()));
  ++frames_;
  for (std::size_t bin = 0; bin < frame.size(); ++bin) {
    counts_[bin] += std::isfinite(frame[bin]) ? static_cast<double>(frame[bin]) : 0.0;
  }
}

std::string bar_chart::draw(const terminal& screen, int rows) const {
  if (counts_.empty()) {
    return title_ + ": no frames\n";
  }
  const auto bins = static_cast<double>(counts_.size());
  const double total = std::accumulate(counts_.begin(), counts_.end(), 0.0);
  const auto bars_of = [this](std::size_t width) {
    std::vector<double> bars(std::min(width, counts_.size()));
    for (std::size_t bin = 0; bin < counts_.size(); ++bin) {
      bars[bin * bars.size() / counts_.size()] += counts_[bin];
    }
    return bars;
  };
  const int height = std::min(rows - 1, most_bar_rows);
  // The width depends on the labels, and the labels on the highest bar: one iteration is enough.
  const plot_frame guess{screen, height, axis{0, std::max(total, 1.0), "", true}, axis{0, bins - 1, "", false}, ""};
  const auto width = static_cast<std::size_t>(std::max(guess.width(), 1));
  const std::vector<double> bars = bars_of(width);
  const double highest = std::max(*std::max_element(bars.begin(), bars.end()), 1.0);
  const plot_frame around{screen, height, axis{0, highest, "", false}, axis{0, bins - 1, "", false}, "bin"};
  const bool ascii = screen.colors == color_depth::none;
  const auto row_text = [&](int row) {
    std::string text = foreground(screen.colors, {120, 214, 150});
    for (int column = 0; column < around.width(); ++column) {
      const auto bar = static_cast<std::size_t>(column) * bars.size() / static_cast<std::size_t>(around.width());
      const double full = bars[bar] / highest * around.height();
      text += cell_of(full - (around.height() - 1 - row), ascii);
    }
    return text + plain(screen.colors);
  };
  const std::string facts = "  " + count_text(static_cast<double>(frames_)) + " frames, " + count_text(total) +
                            " counts in " + count_text(bins) + " bins";
  return strong(screen.colors, title_) + faint(screen.colors, facts) + "\n" + around.draw(row_text);
}

namespace {

constexpr int most_line_rows = 14;

/// The glyph of a cell that a range covers from `low` to `high`; 0 is its lower edge, 1 its upper.
std::string_view cell_of(double low, double high, bool ascii) {
  const bool lower = low < 0.5 && high > 0;
  const bool upper = low < 1 && high > 0.5;
  if (ascii) {
    return lower && upper ? "#" : lower ? "." : upper ? "'" : " ";
  }
  return lower && upper ? "█" : lower ? "▄" : upper ? "▀" : " ";
}

}  // namespace

line_chart::line_chart(std::string title, const sample_clock& clock, bool latest_alone)
    : title_(std::move(title)), clock_(clock), latest_alone_(latest_alone) {}

void line_chart::add(std::span<const float> frame) {
  ++frames_;
  numbers_ = latest_alone_ ? series{} : std::move(numbers_);
  for (const float number : frame) {
    numbers_.add(number);
  }
}

axis line_chart::below() const {
  if (latest_alone_) {
    return {0, static_cast<double>(numbers_.size() - 1), "", false};
  }
  if (!clock_.rate) {
    return {0, static_cast<double>(frames_), "", false};
  }
  const double seconds = static_cast<double>(frames_) * static_cast<double>(clock_.frame_samples) / *clock_.rate;
  return {clock_.start(), clock_.start() + seconds, "s", true};
}

std::string line_chart::draw(const terminal& screen, int rows) const {
  const series::bucket& whole = numbers_.whole();
  if (whole.count == 0) {
    return title_ + ": no numbers\n";
  }
  const bool flat = whole.low == whole.high;
  const double low = flat ? whole.low - 0.5 : whole.low;
  const double high = flat ? whole.high + 0.5 : whole.high;
  const plot_frame around{screen, std::min(rows - 1, most_line_rows), axis{low, high, "", false}, below(),
                          clock_.rate || latest_alone_ ? "" : clock_.unit};
  const auto parts = numbers_.cut(static_cast<std::size_t>(around.width()));
  const double cell_height = (high - low) / around.height() * (1 + 1e-9);  // the highest number lies in the top row
  const auto row_text = [&](int row) {
    const double floor = low + (around.height() - 1 - row) * cell_height;
    std::string text = foreground(screen.colors, {92, 200, 255});
    for (const series::bucket& part : parts) {
      const double low = (part.low - floor) / cell_height;
      const double high = std::max((part.high - floor) / cell_height, low + 0.5);  // keeps a single value visible
      text += part.count == 0 ? " " : cell_of(low, high, screen.colors == color_depth::none);
    }
    return text + plain(screen.colors);
  };
  const std::string what = latest_alone_ ? clock_.unit + " " + count_text(static_cast<double>(frames_ - 1))
                                         : count_text(static_cast<double>(frames_)) + " " + clock_.unit + "s";
  const std::string facts = "  " + what + ", from " + number_text(whole.low) + " to " + number_text(whole.high);
  return strong(screen.colors, title_) + faint(screen.colors, facts) + "\n" + around.draw(row_text);
}

row_chart::row_chart(const std::string& title, const sample_clock& clock)
    : latest_(title, clock, true), all_(std::make_unique<spectrogram>(title, clock, spectrogram::content::numbers)) {}

void row_chart::add(std::span<const float> frame) {
  ++rows_;
  latest_.add(frame);
  all_->add(frame);
}

std::string row_chart::draw(const terminal& screen, int rows) const {
  return rows_ < fewest_rows ? latest_.draw(screen, rows) : all_->draw(screen, rows);
}

heat_map::heat_map(std::string title, std::string unit, std::size_t rows, std::size_t columns)
    : title_(std::move(title)), unit_(std::move(unit)), rows_(rows), columns_(columns) {}

void heat_map::add(std::span<const float> frame) {
  if (frame.size() == rows_ * columns_) {
    latest_.assign(frame.begin(), frame.end());
    ++frames_;
  }
}

/// The colors go from the lower quarter to the largest: most of a map is its floor.
heat_grid heat_map::grid_of(std::size_t rows, std::size_t columns) const {
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  heat_grid made;
  made.rows = rows;
  made.columns = columns;
  made.values.assign(rows * columns, nothing);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t from_below = rows - 1 - row;
    const std::size_t first_row = from_below * rows_ / rows;
    const std::size_t end_row = std::max((from_below + 1) * rows_ / rows, first_row + 1);
    for (std::size_t column = 0; column < columns; ++column) {
      const std::size_t first = column * columns_ / columns;
      const std::size_t end = std::max((column + 1) * columns_ / columns, first + 1);
      double& cell = made.values[row * columns + column];
      for (std::size_t y = first_row; y < end_row; ++y) {
        for (std::size_t x = first; x < end; ++x) {
          const auto number = static_cast<double>(latest_[y * columns_ + x]);
          cell = std::isfinite(number) ? std::max(cell, number) : cell;
        }
      }
    }
  }
  std::vector<double> finite;
  std::copy_if(made.values.begin(), made.values.end(), std::back_inserter(finite),
               [](double each) { return std::isfinite(each); });
  std::sort(finite.begin(), finite.end());
  made.low = finite.empty() ? 0 : finite[finite.size() / 4];
  made.high = finite.empty() || finite.back() == made.low ? made.low + 1 : finite.back();
  return made;
}

std::string heat_map::draw(const terminal& screen, int rows) const {
  if (frames_ == 0) {
    return title_ + ": no frames\n";
  }
  const plot_frame around{screen, rows - 2, axis{0, static_cast<double>(rows_ - 1), "", false},
                          axis{0, static_cast<double>(columns_ - 1), "", false}, ""};
  const heat_grid cells =
      grid_of(heat_grid::rows_in(around.height(), screen), static_cast<std::size_t>(around.width()));
  const std::string facts = "  " + unit_ + " " + count_text(static_cast<double>(frames_ - 1)) + ", " +
                            count_text(static_cast<double>(rows_)) + " by " +
                            count_text(static_cast<double>(columns_)) + " numbers";
  return strong(screen.colors, title_) + faint(screen.colors, facts) + "\n" +
         around.draw([&](int row) { return cells.line(screen, row); }) + cells.legend(screen, around.indent(), "");
}

namespace {

constexpr std::array<std::string_view, moments_table::moments> names{"mean", "std", "min", "max", "rms"};
constexpr std::size_t name_width = 6;
constexpr std::size_t number_width = 11;

std::string right(std::string_view text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + std::string(text);
}

std::string left(std::string_view text, std::size_t width) {
  return std::string(text) + std::string(width - std::min(width, text.size()), ' ');
}

}  // namespace

std::string sparkline(const series& numbers, std::size_t width, bool ascii) {
  constexpr std::array<std::string_view, 8> blocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<std::string_view, 8> shades{"_", ".", ",", "-", "=", "+", "*", "#"};
  const double span = numbers.whole().high - numbers.whole().low;
  std::string text;
  for (const series::bucket& part : numbers.cut(width)) {
    const double share = span > 0 ? (part.mean() - numbers.whole().low) / span : 0.5;
    const auto step = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 7));
    text += part.count == 0 ? " " : ascii ? shades[step] : blocks[step];
  }
  return text;
}

moments_table::moments_table(std::string title, bool complex_input)
    : title_(std::move(title)), complex_input_(complex_input) {}

std::string moments_table::row_name(std::size_t row) const {
  constexpr std::array<std::string_view, 3> views{"I", "Q", "|z|"};
  if (complex_input_ && rows_ == views.size()) {
    return std::string(views[row]);
  }
  return rows_ > 1 ? "[" + std::to_string(row) + "]" : "";
}

void moments_table::add(std::span<const float> frame) {
  ++frames_;
  rows_ = std::max(rows_, frame.size() / moments);
  while (tables_.size() < std::min(rows_, most_rows)) {
    tables_.emplace_back();
  }
  for (std::size_t row = 0; row < tables_.size() && (row + 1) * moments <= frame.size(); ++row) {
    for (std::size_t each = 0; each < moments; ++each) {
      tables_[row][each].add(frame[row * moments + each]);
    }
  }
}

std::string moments_table::draw(const terminal& screen, int /*rows*/) const {
  std::string text = strong(screen.colors, title_) +
                     faint(screen.colors, "  " + count_text(static_cast<double>(frames_)) + " frames") + "\n";
  const std::size_t numbers_end = 2 + name_width + 3 * number_width + 2;
  const auto room = static_cast<std::size_t>(std::max(screen.columns - 1, 0));
  const std::size_t spark = room > numbers_end ? room - numbers_end : 0;
  const std::string over = spark >= 12 ? "  over the frames" : "";
  const std::string head =
      right("lowest", number_width) + right("mean", number_width) + right("highest", number_width) + over;
  for (std::size_t row = 0; row < tables_.size(); ++row) {
    text += faint(screen.colors, "  " + left(row_name(row), name_width) + head) + "\n";
    for (std::size_t each = 0; each < moments; ++each) {
      const series& numbers = tables_[row][each];
      text += "  " + left(names[each], name_width) + right(number_text(numbers.whole().low), number_width) +
              right(number_text(numbers.whole().mean()), number_width) +
              right(number_text(numbers.whole().high), number_width) + "  " +
              foreground(screen.colors, {252, 180, 40}) +
              sparkline(numbers, spark, screen.colors == color_depth::none) + plain(screen.colors) + "\n";
    }
  }
  if (rows_ > tables_.size()) {
    text += "  (the first " + std::to_string(tables_.size()) + " of " + std::to_string(rows_) + " rows)\n";
  }
  return text;
}

namespace {

constexpr std::size_t column = 12;

std::string right(std::string_view text) {
  return std::string(column - std::min(column, text.size()), ' ') + std::string(text);
}

std::string counted(double count, const std::string& operation) {
  return count_text(count) + " " + operation + (count == 1 ? "" : "s");
}

}  // namespace

event_table::event_table(std::string title, const sample_clock& clock, const layout& events)
    : title_(std::move(title)), clock_(clock), layout_(events) {
  layout_.block = std::max<std::size_t>(layout_.block, 1);
  layout_.numbers = std::clamp<std::size_t>(layout_.numbers, 2, most_numbers);
}

void event_table::add(std::span<const float> frame) {
  const std::size_t each = layout_.numbers;
  const std::size_t row_numbers = each * layout_.block;
  rows_ = std::max(rows_, frame.size() / row_numbers);
  for (std::size_t row = 0; (row + 1) * row_numbers <= frame.size(); ++row) {
    const auto numbers = frame.subspan(row * row_numbers, row_numbers);
    const std::size_t first = layout_.counted ? 1 : 0;
    std::size_t end = layout_.block;
    if (layout_.counted) {
      constexpr float most = 1e9F;  // a NaN is no number of events
      const auto told = static_cast<std::size_t>(numbers[1] >= 1 ? std::min(numbers[1], most) : 0.0F);
      end = 1 + std::min(told, layout_.block - 1);
    }
    const double listed_before = listed_;
    for (std::size_t at = first; at < end; ++at) {
      event next{frames_, row, {}};
      std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(at * each), each, next.numbers.begin());
      if (layout_.counted || next.numbers[0] >= 0) {
        latest_.push_back(next);
        ++listed_;
      }
    }
    found_ += layout_.counted ? static_cast<double>(numbers[0]) : listed_ - listed_before;
    while (latest_.size() > most_events) {
      latest_.pop_front();
    }
  }
  ++frames_;
}

std::string event_table::line_of(const event& found) const {
  std::string text = right(count_text(static_cast<double>(found.frame)));
  if (clock_.rate) {
    const double begin =
        clock_.start() + static_cast<double>(found.frame) * static_cast<double>(clock_.frame_samples) / *clock_.rate;
    text += right(number_text(begin) + " s");
  }
  text += rows_ > 1 ? right(std::to_string(found.row)) : "";
  for (std::size_t at = 0; at + 1 < layout_.numbers; ++at) {
    text += right(count_text(static_cast<double>(found.numbers[at])));
  }
  return text + right(number_text(static_cast<double>(found.numbers[layout_.numbers - 1])));
}

std::string event_table::draw(const terminal& screen, int rows) const {
  const std::string left_out = found_ > listed_ ? ", " + count_text(found_ - listed_) + " of them not listed" : "";
  std::string text = strong(screen.colors, title_) +
                     faint(screen.colors, "  " + counted(found_, layout_.counted ? "event" : "place") + " in " +
                                              counted(static_cast<double>(frames_), clock_.unit) + left_out) +
                     "\n";
  if (latest_.empty()) {
    return text;
  }
  const auto width = static_cast<std::size_t>(std::max(screen.columns, 1));
  const std::string head = right(clock_.unit) + (clock_.rate ? right("begins at") : "") +
                           (rows_ > 1 ? right("of its rows") : "") +
                           (layout_.numbers == 4 ? right("start") + right("end") : "") + right("index") +
                           right(layout_.counted ? "peak" : "value");
  text += faint(screen.colors, head.substr(0, width)) + "\n";
  const auto shown = std::min<std::size_t>(latest_.size(), static_cast<std::size_t>(std::max(rows - 2, 1)));
  for (auto each = latest_.end() - static_cast<std::ptrdiff_t>(shown); each != latest_.end(); ++each) {
    text += line_of(*each).substr(0, width) + "\n";
  }
  return text;
}

}  // namespace penstock::cli
