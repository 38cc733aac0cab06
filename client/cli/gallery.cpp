#include "client/cli/gallery.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

namespace penstock::cli {
namespace {

constexpr int fewest_rows = 12;
constexpr int most_rows = 36;

std::size_t product(std::span<const std::int64_t> extents) {
  const auto all = std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>{});
  return static_cast<std::size_t>(std::max<std::int64_t>(all, 1));
}

/// Whether shape[0] counts rows that follow one another in time, so that each is drawn as a frame is.
bool is_stream_of_rows(const tensor_info& output) {
  return !output.shape.empty() && (output.variable || output.steps > 1);
}

/// Of what is drawn at once: a frame, or a row of a stream of them.
std::span<const std::int64_t> unit_shape(const tensor_info& output) {
  return std::span{output.shape}.subspan(is_stream_of_rows(output) ? 1 : 0);
}

/// Spectra and counts lie along the last dimension; what is before it are channels.
std::size_t channels_of(const tensor_info& output) {
  const auto shape = unit_shape(output);
  const bool has_channels = output.op == "power_spectrum" || output.op == "histogram";
  return has_channels && !shape.empty() ? product(shape.first(shape.size() - 1)) : 1;
}

sample_clock clock_for(const tensor_info& output, const sample_clock& input) {
  sample_clock made = input;
  if (is_stream_of_rows(output)) {
    made.frame_samples = static_cast<std::int64_t>(std::max<std::uint64_t>(output.steps, 1));
    made.unit = "row";
  } else if (!input.even_frames) {
    made.rate.reset();  // nobody knows when a frame began
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

std::string gallery::draw_on_screen(const terminal& where) const {
  std::size_t pictures = 0;
  for (const wall& each : walls_) {
    pictures += each.pictures.size();
  }
  // A line between two pictures, and one for the cursor.
  const int share = (where.rows - 1) / static_cast<int>(std::max<std::size_t>(pictures, 1)) - 1;
  return draw(where, where.rows - share);
}

std::string gallery::draw(const terminal& where, int below) const {
  std::string text;
  for (const wall& each : walls_) {
    for (const auto& drawn : each.pictures) {
      text += drawn->draw(where, std::clamp(where.rows - below, fewest_rows, most_rows)) + "\n";
    }
    if (each.channels > each.pictures.size()) {
      text += "(the first " + std::to_string(each.pictures.size()) + " of " + std::to_string(each.channels) +
              " channels)\n\n";
    }
  }
  return text;
}

}  // namespace penstock::cli
