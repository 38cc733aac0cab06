#include "daemon/timeline/timeline_page.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "proto/message.hpp"

namespace penstock {
namespace {

using nlohmann::ordered_json;

// A batch's steps and their names must fit on one page together with the rest.
constexpr std::size_t most_steps = 512;
constexpr std::size_t most_description_bytes = std::size_t{24} << 10U;
constexpr std::size_t room_for_ends = 64;

std::int64_t nanoseconds_of(time_point when) noexcept {
  return std::chrono::nanoseconds(when.time_since_epoch()).count();
}

ordered_json steps_of(const plan& what) {
  ordered_json steps = ordered_json::array();
  for (std::size_t node = 0; node < what.order.steps.size(); ++node) {
    std::string name = "copy in";
    if (node > what.stages.size()) {
      name = "copy out " + what.outputs[node - 1 - what.stages.size()].name;
    } else if (node > 0) {
      name = what.stages[node - 1].name;
    }
    steps.push_back({name, what.order.steps[node].lane});
  }
  return steps;
}

// One batch's object, written into `out` piece by piece: a page is made on the shard's thread.
class batch_text {
 public:
  batch_text(std::string& out, const recent_batches::kept_batch& of) : out_(out), of_(of) {}

  void write(bool with_steps) {
    const batch_record& what = of_.what;
    put(R"({{"n":{},"pipeline":{},"slot":{},"close":"{}","frames":{},"requests":{},"at":{})", what.number,
        what.pipeline, what.slot, name_of(what.reason), what.frames, what.requests, nanoseconds_of(what.launched));
    put(R"(,"times":[{},{},{},{},)", since_launch(what.oldest), since_launch(what.opened), since_launch(what.closed),
        since_launch(what.completed));
    out_ += what.returned == never ? "null]" : fmt::format("{}]", since_launch(what.returned));
    if (what.failed) {
      out_ += R"(,"failed":true)";
    }
    list("streams", of_.streams, [this](std::uint32_t stream) { put("{}", stream); });
    if (with_steps && !of_.steps.empty()) {
      list("steps", of_.steps, [this](const step_time& step) { put("[{},{}]", step.begin.count(), step.end.count()); });
    }
    list("refs", of_.references, [this](const request_reference& each) { write_reference(each); });
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
    return std::chrono::nanoseconds(when - of_.what.launched).count();
  }

  std::string& out_;
  recent_batches::kept_batch of_;
};

}  // namespace

timeline_pages::timeline_pages(timeline_place where, std::span<const plan> plans) {
  head_ = fmt::format(R"("shard":{},"device":{},"streams":{},"slots":{})", where.shard,
                      ordered_json(where.device).dump(-1, ' ', false, ordered_json::error_handler_t::replace),
                      where.streams, where.slots);
  for (const plan& each : plans) {
    add(each);
  }
}

void timeline_pages::add(const plan& later) {
  const std::string name = ordered_json(later.declaration.name).dump();
  std::string described = fmt::format(R"("{}":{{"name":{},"steps":{}}})", later.place, name, steps_of(later).dump());
  const bool fits = later.order.steps.size() <= most_steps && described.size() <= most_description_bytes;
  pipelines_.push_back(
      {fits ? std::move(described) : fmt::format(R"("{}":{{"name":{},"steps":[]}})", later.place, name), fits});
}

timeline_page timeline_pages::write(recent_batches& from, std::uint64_t cursor, time_point now,
                                    std::size_t most_bytes) const {
  std::uint64_t number = cursor < from.oldest() || cursor > from.next() ? from.oldest() : cursor;
  const std::string head = fmt::format(R"({{"now_ns":{},{})", nanoseconds_of(now), head_);
  std::string pipelines;
  std::string batches;
  std::string next;
  std::vector<bool> described(pipelines_.size(), false);
  for (; number < from.next(); ++number) {
    const recent_batches::kept_batch kept = from.at(number);
    const std::uint32_t id = kept.what.pipeline;
    const std::string_view about = described[id] ? "" : std::string_view(pipelines_[id].json);
    next.clear();
    batch_text(next, kept).write(pipelines_[id].steps);
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
