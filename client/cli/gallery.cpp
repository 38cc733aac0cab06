#include "client/cli/gallery.hpp"

#include <algorithm>
#include <span>

namespace penstock::cli {
namespace {

constexpr int fewest_rows = 12;
constexpr int most_rows = 36;

}  // namespace

gallery::gallery(const pipeline_info& pipeline, const sample_clock& clock) {
  for (const tensor_info& output : pipeline.outputs) {
    pictures_.push_back(picture_of(output, clock));
  }
}

void gallery::add(const result& next) {
  for (std::size_t at = 0; at < pictures_.size(); ++at) {
    const std::vector<float> numbers = numbers_of(next.outputs()[at]);
    const std::size_t frame = numbers.size() / std::max<std::size_t>(next.frames(), 1);
    for (std::size_t begin = 0; frame > 0 && begin + frame <= numbers.size(); begin += frame) {
      pictures_[at]->add(std::span{numbers}.subspan(begin, frame));
    }
  }
}

std::string gallery::draw(const terminal& where, int below) const {
  std::string text;
  for (const auto& each : pictures_) {
    text += each->draw(where, std::clamp(where.rows - below, fewest_rows, most_rows)) + "\n";
  }
  return text;
}

}  // namespace penstock::cli
