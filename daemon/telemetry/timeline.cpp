#include "daemon/telemetry/timeline.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "proto/message.hpp"

namespace penstock {

recent_batches::recent_batches(std::size_t most, std::size_t steps, std::size_t lanes)
    : most_steps_(steps),
      most_lanes_(lanes),
      records_(most),
      references_(most * most_references),
      streams_(most * lanes),
      steps_(most * steps) {}

recent_batches::kept_batch recent_batches::place_of(std::uint64_t number) noexcept {
  const auto place = static_cast<std::size_t>(number % records_.size());
  return {records_[place], std::span(references_).subspan(place * most_references, most_references),
          std::span(streams_).subspan(place * most_lanes_, most_lanes_),
          std::span(steps_).subspan(place * most_steps_, most_steps_)};
}

recent_batches::kept_batch recent_batches::add() noexcept {
  const kept_batch added = place_of(next_);
  added.record = {};
  added.record.number = next_++;
  return added;
}

recent_batches::kept_batch recent_batches::at(std::uint64_t number) noexcept {
  const kept_batch found = place_of(number);
  return {found.record, found.references.first(found.record.references), found.streams.first(found.record.streams),
          found.steps.first(found.record.steps)};
}

std::uint64_t recent_batches::oldest() const noexcept {
  return next_ <= records_.size() ? 1 : next_ - records_.size();
}

namespace {

using nlohmann::ordered_json;

// A batch's steps and their names must fit on one page together with the rest.
constexpr std::size_t most_steps = 512;
constexpr std::size_t most_description_bytes = std::size_t{24} << 10U;
constexpr std::size_t room_for_ends = 64;

std::int64_t nanoseconds_of(time_point when) noexcept {
  return std::chrono::nanoseconds(when.time_since_epoch()).count();
}

ordered_json described_steps(const plan& pipeline) {
  ordered_json steps = ordered_json::array();
  for (std::size_t node = 0; node < pipeline.order.steps.size(); ++node) {
    std::string name = "copy in";
    if (node > pipeline.stages.size()) {
      name = "copy out " + pipeline.outputs[node - 1 - pipeline.stages.size()].name;
    } else if (node > 0) {
      name = pipeline.stages[node - 1].name;
    }
    steps.push_back({name, pipeline.order.steps[node].lane});
  }
  return steps;
}

// One batch's object, written into `out` piece by piece: a page is made on the shard's thread.
class batch_text {
 public:
  batch_text(std::string& out, const recent_batches::kept_batch& batch) : out_(out), batch_(batch) {}

  void write(bool timed) {
    const batch_record& record = batch_.record;
    put(R"({{"n":{},"pipeline":{},"slot":{},"close":"{}","frames":{},"requests":{},"at":{})", record.number,
        record.pipeline, record.slot, name_of(record.reason), record.frames, record.requests,
        nanoseconds_of(record.launched));
    put(R"(,"times":[{},{},{},{},)", since_launch(record.oldest), since_launch(record.opened),
        since_launch(record.closed), since_launch(record.completed));
    out_ += record.returned == never ? "null]" : fmt::format("{}]", since_launch(record.returned));
    if (record.failed) {
      out_ += R"(,"failed":true)";
    }
    list("streams", batch_.streams, [this](std::uint32_t stream) { put("{}", stream); });
    if (timed && !batch_.steps.empty()) {
      list("steps", batch_.steps,
           [this](const step_time& step) { put("[{},{}]", step.begin.count(), step.end.count()); });
    }
    list("refs", batch_.references, [this](const request_reference& each) { write_reference(each); });
    out_ += '}';
  }

 private:
  template <typename... Arguments>
  void put(fmt::format_string<Arguments...> form, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), form, std::forward<Arguments>(arguments)...);
  }
  template <typename Items, typename Write>
  void list(const char* name, const Items& items, Write write) {
    put(R"(,"{}":[)", name);
    for (const auto& each : items) {
      write(each);
      out_ += ',';
    }
    if (out_.back() == ',') {
      out_.pop_back();
    }
    out_ += ']';
  }
  void write_reference(const request_reference& each) {
    put("[{},{},{},{},{},{}", since_launch(each.received), each.client, each.id, each.session, each.sequence,
        each.ended_early ? 1 : 0);
    const bool traced =
        std::any_of(each.trace_id.begin(), each.trace_id.end(), [](std::byte part) { return part != std::byte{0}; });
    if (traced) {
      out_ += ",\"";
      for (const std::byte part : each.trace_id) {
        put("{:02x}", std::to_integer<unsigned>(part));
      }
      out_ += '"';
    }
    out_ += ']';
  }
  [[nodiscard]] std::int64_t since_launch(time_point when) const noexcept {
    return std::chrono::nanoseconds(when - batch_.record.launched).count();
  }

  std::string& out_;
  recent_batches::kept_batch batch_;
};

}  // namespace

timeline_pages::timeline_pages(timeline_place place, std::span<const plan> plans) {
  head_ = fmt::format(R"("shard":{},"device":{},"streams":{},"slots":{})", place.shard,
                      ordered_json(place.device).dump(-1, ' ', false, ordered_json::error_handler_t::replace),
                      place.streams, place.slots);
  for (const plan& each : plans) {
    add(each);
  }
}

void timeline_pages::add(const plan& pipeline) {
  const std::string name = ordered_json(pipeline.declaration.name).dump();
  std::string described =
      fmt::format(R"("{}":{{"name":{},"steps":{}}})", pipeline.place, name, described_steps(pipeline).dump());
  const bool fits = pipeline.order.steps.size() <= most_steps && described.size() <= most_description_bytes;
  pipelines_.push_back(
      {fits ? std::move(described) : fmt::format(R"("{}":{{"name":{},"steps":[]}})", pipeline.place, name), fits});
}

timeline_page timeline_pages::write(recent_batches& kept, std::uint64_t cursor, time_point now,
                                    std::size_t most_bytes) const {
  std::uint64_t number = cursor < kept.oldest() || cursor > kept.next() ? kept.oldest() : cursor;
  const std::string head = fmt::format(R"({{"now_ns":{},{})", nanoseconds_of(now), head_);
  std::string pipelines;
  std::string batches;
  std::string next;
  std::vector<bool> described(pipelines_.size(), false);
  for (; number < kept.next(); ++number) {
    const recent_batches::kept_batch batch = kept.at(number);
    const std::uint32_t id = batch.record.pipeline;
    const std::string_view about = described[id] ? "" : std::string_view(pipelines_[id].json);
    next.clear();
    batch_text(next, batch).write(pipelines_[id].steps);
    if (head.size() + pipelines.size() + batches.size() + about.size() + next.size() + room_for_ends > most_bytes &&
        !batches.empty()) {
      break;
    }
    if (!described[id]) {
      described[id] = true;
      pipelines.append(pipelines.empty() ? "" : ",").append(about);
    }
    batches.append(batches.empty() ? "" : ",").append(next);
  }
  return {head + R"(,"pipelines":{)" + pipelines + R"(},"batches":[)" + batches + "]}", number};
}

}  // namespace penstock
