#include "proto/timeline/traced_batch.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace penstock {
namespace {

using nlohmann::json;

traced_batch::request read_request(const json& from, std::int64_t launched) {
  return {.received = launched + from.at(0).get<std::int64_t>(),
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
  const auto at = from.at("at").get<std::int64_t>();
  made.opened = at + times.at(1).get<std::int64_t>();
  made.closed = std::max(made.opened, at + times.at(2).get<std::int64_t>());
  made.launched = std::max(made.closed, at);
  made.completed = std::max(made.launched, at + times.at(3).get<std::int64_t>());
  made.returned = made.completed;
  if (!times.at(4).is_null()) {
    made.returned = std::max(made.completed, at + times.at(4).get<std::int64_t>());
  }
  if (from.contains("steps")) {
    for (const json& each : from.at("steps")) {
      made.steps.push_back({at + each.at(0).get<std::int64_t>(), at + each.at(1).get<std::int64_t>()});
    }
  }
  for (const json& each : from.at("refs")) {
    made.requests.push_back(read_request(each, at));
  }
  return made;
}

}  // namespace penstock
