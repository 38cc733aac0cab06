#include "client/cpp/recording.hpp"

#include <algorithm>
#include <utility>

#include "client/cpp/errors.hpp"

namespace penstock::link {
namespace {

/// Large enough to keep the daemon busy while further requests are in flight.
constexpr std::size_t request_bytes = std::size_t{256} << 10U;
constexpr std::size_t in_flight_bytes = std::size_t{16} << 20U;
constexpr std::size_t least_in_flight = 2;
constexpr std::size_t most_in_flight = 32;

}  // namespace

recording_cut cut_recording(const pipeline_info& pipeline, const server_info& server, std::size_t bytes) {
  recording_cut cut;
  if (pipeline.inputs.size() > 1) {
    throw local_error(wire::status::wrong_shape,
                      "a recording has one input, and pipeline \"" + pipeline.name + "\" takes several");
  }
  const tensor_info& input = pipeline.input;
  const std::int64_t length = input.shape.empty() || input.axis != 0 ? 1 : input.shape.front();
  cut.frame_bytes = input.frame_bytes();
  cut.row_bytes = length > 0 ? cut.frame_bytes / static_cast<std::size_t>(length) : 0;
  if (cut.row_bytes == 0 || bytes % cut.row_bytes != 0) {
    throw local_error(wire::status::wrong_shape, std::to_string(bytes) + " bytes are no whole number of " +
                                                     (input.axis == 0 ? "samples of " : "frames of ") + input.text() +
                                                     ", which have " + std::to_string(cut.row_bytes) + " each");
  }
  const std::uint64_t most = std::min({std::uint64_t{request_bytes}, server.max_request_bytes, server.credit_bytes});
  // In a session, several frames in one request must have a length that is a multiple of the period.
  const bool alone = input.variable && static_cast<std::uint64_t>(length) % pipeline.period != 0;
  cut.frames = alone ? 1
                     : static_cast<std::uint32_t>(
                           std::clamp<std::uint64_t>(most / cut.frame_bytes, 1, std::max(1U, pipeline.max_frames)));
  cut.in_flight = std::clamp(in_flight_bytes / (cut.frames * cut.frame_bytes), least_in_flight, most_in_flight);
  cut.whole_frames = bytes / cut.frame_bytes;
  cut.tail_samples = static_cast<std::int64_t>(bytes % cut.frame_bytes / cut.row_bytes);
  return cut;
}

joined_results::joined_results(const pipeline_info& pipeline) {
  for (const tensor_info& each : pipeline.outputs) {
    outputs_.push_back({each});
  }
}

void joined_results::add(const result& next) {
  const bool is_first = frames_ == 0;
  last_id_ = next.request_id();
  account_ = is_first ? next.account() : account_;
  frames_ += next.frames();
  for (std::size_t at = 0; at < outputs_.size(); ++at) {
    const tensor_view& part = next.outputs()[at];
    output& all = outputs_[at];
    all.index = is_first ? part.index : all.index;
    all.bytes.insert(all.bytes.end(), part.bytes.begin(), part.bytes.end());
    const auto shape = part.shape();
    all.entries += all.info.variable ? shape[0] * shape[1] : shape[0];
  }
}

result joined_results::take(std::shared_ptr<joined_results> all) {
  std::vector<tensor_view> views;
  for (const output& each : all->outputs_) {
    tensor_view view{.name = each.info.name, .dtype = each.info.dtype, .bytes = each.bytes};
    view.index = each.index;
    view.extents[view.dimensions++] = each.entries;
    for (std::size_t at = each.info.variable ? 1 : 0; at < each.info.shape.size(); ++at) {
      view.extents.at(view.dimensions++) = each.info.shape[at];
    }
    views.push_back(view);
  }
  const auto id = all->last_id_;
  const auto frames = all->frames_;
  const auto account = all->account_;
  result joined{id, frames, std::move(views), std::move(all)};
  joined.set_account(account);
  return joined;
}

}  // namespace penstock::link
