#include "proto/timeline/traced_batch.hpp"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace penstock {
namespace {

using nlohmann::json;

// Far beyond any clock, so that the difference of two times always fits.
constexpr std::int64_t last_ns = std::int64_t{1} << 61U;

// A time as nanoseconds after another one.
std::int64_t time_after(std::int64_t begin, const json& nanoseconds) {
  std::int64_t when = 0;
  if (__builtin_add_overflow(begin, nanoseconds.get<std::int64_t>(), &when) || when > last_ns || when < -last_ns) {
    throw std::runtime_error("a time is out of range");
  }
  return when;
}

traced_batch::request read_request(const json& from, std::int64_t launched) {
  return {.received = time_after(launched, from.at(0)),
          .client = from.at(1).get<std::uint32_t>(),
          .id = from.at(2).get<std::uint64_t>(),
          .session = from.at(3).get<std::uint32_t>(),
          .sequence = from.at(4).get<std::uint64_t>(),
          .ended_early = from.at(5).get<int>() != 0,
          .trace_id = from.size() > 6 ? from.at(6).get<std::string>() : ""};
}

}  // namespace

traced_pipeline read_pipeline(const json& from) {
  traced_pipeline made;
  made.name = from.at("name").get<std::string>();
  for (const json& each : from.at("steps")) {
    made.steps.push_back({each.at(0).get<std::string>(), each.at(1).get<std::uint32_t>()});
  }
  return made;
}

traced_batch read_batch(const json& from) {
  traced_batch made;
  made.number = from.at("n").get<std::uint64_t>();
  made.pipeline_id = from.at("pipeline").get<std::uint32_t>();
  made.slot = from.at("slot").get<std::uint32_t>();
  made.close_reason = from.at("close").get<std::string>();
  made.frames = from.at("frames").get<std::uint64_t>();
  made.request_count = from.at("requests").get<std::uint64_t>();
  made.failed = from.value("failed", false);
  made.streams = from.at("streams").get<std::vector<std::uint32_t>>();
  const json& times = from.at("times");
  const std::int64_t at = time_after(0, from.at("at"));
  made.opened = time_after(at, times.at(1));
  made.closed = std::max(made.opened, time_after(at, times.at(2)));
  made.launched = std::max(made.closed, at);
  made.completed = std::max(made.launched, time_after(at, times.at(3)));
  made.returned = made.completed;
  if (!times.at(4).is_null()) {
    made.returned = std::max(made.completed, time_after(at, times.at(4)));
  }
  if (from.contains("steps")) {
    for (const json& each : from.at("steps")) {
      made.steps.push_back({time_after(at, each.at(0)), time_after(at, each.at(1))});
    }
  }
  for (const json& each : from.at("refs")) {
    made.requests.push_back(read_request(each, at));
  }
  return made;
}

}  // namespace penstock
