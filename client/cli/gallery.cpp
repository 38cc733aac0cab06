#include "client/cli/gallery.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::cli {
namespace {

constexpr int fewest_rows = 12;
constexpr int most_rows = 36;

std::size_t product(std::span<const std::int64_t> extents) {
  const auto all = std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>{});
  return static_cast<std::size_t>(std::max<std::int64_t>(all, 1));
}

/// Size of what is drawn at once: a frame, or a row of a stream.
std::span<const std::int64_t> unit_shape(const tensor_info& output) {
  return std::span{output.shape}.subspan(has_rows(output) ? 1 : 0);
}

/// Spectra, bands and counts lie along the last dimension; the dimensions before it are channels. Of stft and
/// channelize that is known only where the first dimension is time: else time may be one of these.
std::size_t channels_of(const tensor_info& output) {
  const auto shape = unit_shape(output);
  constexpr std::array<std::string_view, 3> of_frames{"histogram", "mel", "power_spectrum"};
  constexpr std::array<std::string_view, 2> of_rows{"channelize", "stft"};
  const bool has_channels = std::find(of_frames.begin(), of_frames.end(), output.op) != of_frames.end() ||
                            (has_rows(output) && std::find(of_rows.begin(), of_rows.end(), output.op) != of_rows.end());
  return has_channels && !shape.empty() ? product(shape.first(shape.size() - 1)) : 1;
}

sample_clock clock_for(const tensor_info& output, const sample_clock& input) {
  sample_clock made = input;
  if (has_rows(output)) {
    made.frame_samples = static_cast<std::int64_t>(std::max<std::uint64_t>(output.steps, 1));
    if (made.rate && output.indices > 1) {
      *made.rate *= static_cast<double>(output.indices);
      made.first_sample *= static_cast<std::int64_t>(output.indices);
    }
    made.unit = "row";
  } else if (!input.even_frames) {
    made.rate.reset();  // the time of a frame is unknown
  }
  return made;
}

}  // namespace

gallery::gallery(const pipeline_info& pipeline, const sample_clock& clock) {
  for (const tensor_info& output : pipeline.outputs) {
    wall& made = walls_.emplace_back();
    made.channels = channels_of(output);
    made.unit = product(unit_shape(output));
    const sample_clock its = clock_for(output, clock);
    for (std::size_t channel = 0; channel < std::min(made.channels, most_channels); ++channel) {
      tensor_info named = output;
      named.name += made.channels > 1 ? "[" + std::to_string(channel) + "]" : "";
      made.pictures.push_back(picture_of(named, its));
    }
  }
}

void gallery::add(const result& next) {
  for (std::size_t at = 0; at < walls_.size(); ++at) {
    const std::vector<float> numbers = numbers_of(next.outputs()[at]);
    const std::size_t unit = walls_[at].unit;
    const std::size_t part = unit / walls_[at].channels;
    for (std::size_t begin = 0; begin + unit <= numbers.size(); begin += unit) {
      for (std::size_t channel = 0; channel < walls_[at].pictures.size(); ++channel) {
        walls_[at].pictures[channel]->add(std::span{numbers}.subspan(begin + channel * part, part));
      }
    }
  }
}

std::string gallery::draw_on_screen(const terminal& screen) const {
  std::size_t pictures = 0;
  for (const wall& each : walls_) {
    pictures += each.pictures.size();
  }
  // One line between two pictures, and one for the cursor.
  const int share = (screen.rows - 1) / static_cast<int>(std::max<std::size_t>(pictures, 1)) - 1;
  return draw(screen, screen.rows - share);
}

std::string gallery::draw(const terminal& screen, int below) const {
  std::string text;
  for (const wall& each : walls_) {
    for (const auto& drawn : each.pictures) {
      text += drawn->draw(screen, std::clamp(screen.rows - below, fewest_rows, most_rows)) + "\n";
    }
    if (each.channels > each.pictures.size()) {
      text += "(the first " + std::to_string(each.pictures.size()) + " of " + std::to_string(each.channels) +
              " channels)\n\n";
    }
  }
  return text;
}

namespace {

constexpr std::chrono::milliseconds interval{200};

/// The first lines of the text.
std::string first_lines(const std::string& text, std::size_t most) {
  std::size_t end = 0;
  for (; most > 0 && end < text.size(); --most) {
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  }
  return text.substr(0, end);
}

}  // namespace

live_view::live_view(gallery& pictures, std::function<terminal()> screen, std::ostream& out)
    : pictures_(pictures), where_(std::move(screen)), out_(out), thread_([this] { run(); }) {}

live_view::~live_view() {
  end();
}

void live_view::add(const result& next) {
  const std::lock_guard lock{mutex_};
  pictures_.add(next);
  is_new_ = true;
  changed_.notify_all();
}

void live_view::end() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock{mutex_};
    has_ended_ = true;
    changed_.notify_all();
  }
  thread_.join();
  draw("");
}

void live_view::run() {
  std::unique_lock lock{mutex_};
  while (!has_ended_) {
    changed_.wait(lock, [this] { return is_new_ || has_ended_; });
    if (is_new_ && !has_ended_) {
      is_new_ = false;
      const terminal screen = where_();
      const std::string text = pictures_.draw_on_screen(screen);
      lock.unlock();
      draw(first_lines(text, static_cast<std::size_t>(std::max(screen.rows - 1, 1))));
      lock.lock();
      changed_.wait_for(lock, interval, [this] { return has_ended_; });
    }
  }
}

void live_view::draw(const std::string& text) {
  if (lines_ > 0) {
    out_ << "\x1b[" << lines_ << "A\r\x1b[J";
  }
  lines_ = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  out_ << text << std::flush;
}

}  // namespace penstock::cli
