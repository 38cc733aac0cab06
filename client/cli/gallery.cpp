#include "client/cli/gallery.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

namespace penstock::cli {
namespace {

constexpr int fewest_rows = 12;
constexpr int most_rows = 36;

/// Spectra and counts lie along the last dimension; what is before it are channels.
std::size_t channels_of(const tensor_info& output) {
  if ((output.op != "power_spectrum" && output.op != "histogram") || output.shape.empty()) {
    return 1;
  }
  const auto channels =
      std::accumulate(output.shape.begin(), output.shape.end() - 1, std::int64_t{1}, std::multiplies<>{});
  return static_cast<std::size_t>(std::max<std::int64_t>(channels, 1));
}

}  // namespace

gallery::gallery(const pipeline_info& pipeline, const sample_clock& clock) {
  for (const tensor_info& output : pipeline.outputs) {
    wall& made = walls_.emplace_back();
    made.channels = channels_of(output);
    for (std::size_t channel = 0; channel < std::min(made.channels, most_channels); ++channel) {
      tensor_info named = output;
      named.name += made.channels > 1 ? "[" + std::to_string(channel) + "]" : "";
      made.pictures.push_back(picture_of(named, clock));
    }
  }
}

void gallery::add(const result& next) {
  for (std::size_t at = 0; at < walls_.size(); ++at) {
    const std::vector<float> numbers = numbers_of(next.outputs()[at]);
    const std::size_t frame = numbers.size() / std::max<std::size_t>(next.frames(), 1);
    const std::size_t part = frame / walls_[at].channels;
    for (std::size_t begin = 0; part > 0 && begin + frame <= numbers.size(); begin += frame) {
      for (std::size_t channel = 0; channel < walls_[at].pictures.size(); ++channel) {
        walls_[at].pictures[channel]->add(std::span{numbers}.subspan(begin + channel * part, part));
      }
    }
  }
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
