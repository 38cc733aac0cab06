#include "proto/chrome_trace.hpp"

#include <algorithm>
#include <ostream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "proto/control.hpp"

namespace penstock {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;  // for what is written

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

/// Reads an element of a page's "pipelines". Throws nlohmann::json::exception when it is none; so does read_batch.
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

// Threads of a shard's process, in the order in which they are to stand.
constexpr std::uint64_t first_stream = 1;
constexpr std::uint64_t first_slot = 100'000;
constexpr std::uint64_t first_request_row = 200'000;
constexpr std::uint64_t rows_a_pipeline = 100'000;

constexpr std::int64_t grain_ns = 125;

struct slice {
  std::uint32_t shard;
  std::uint64_t track;
  std::int64_t begin;
  std::int64_t end;
};

// Writes events one after the other, times counted from `base_ns`.
class event_writer {
 public:
  event_writer(std::ostream& out, std::int64_t base_ns) : out_(out), base_ns_(base_ns) {
    out_ << R"({"displayTimeUnit":"ns","traceEvents":[)";
  }

  void process(std::uint32_t shard, const std::string& name) {
    write({{"ph", "M"}, {"name", "process_name"}, {"pid", shard}, {"args", {{"name", name}}}});
  }
  // A track's name, once.
  void track(std::uint32_t shard, std::uint64_t track, const std::string& name) {
    if (std::uint64_t& named = named_[{shard, track}]; named++ == 0) {
      write({{"ph", "M"}, {"name", "thread_name"}, {"pid", shard}, {"tid", track}, {"args", {{"name", name}}}});
      write({{"ph", "M"},
             {"name", "thread_sort_index"},
             {"pid", shard},
             {"tid", track},
             {"args", {{"sort_index", track}}}});
    }
  }
  void add(const slice& where, const std::string& name, const char* category, ordered_json arguments = {}) {
    ordered_json event = {{"ph", "X"},
                          {"name", name},
                          {"cat", category},
                          {"pid", where.shard},
                          {"tid", where.track},
                          {"ts", microseconds(where.begin)},
                          {"dur", microseconds(where.end) - microseconds(where.begin)}};
    if (!arguments.empty()) {
      event["args"] = std::move(arguments);
    }
    write(event);
  }
  // An arrow from the begin of one slice to that of another.
  void flow(const slice& from, const slice& to) {
    ++flows_;
    write(flow_end("s", from, from.begin));
    ordered_json end = flow_end("f", to, to.end - to.begin > 2 * grain_ns ? to.begin + grain_ns : to.begin);
    end["bp"] = "e";
    write(end);
  }
  void finish() { out_ << "]}\n"; }

 private:
  [[nodiscard]] ordered_json flow_end(const char* phase, const slice& at, std::int64_t when) const {
    return {{"ph", phase},     {"name", "batched"}, {"cat", "request"},        {"id", flows_},
            {"pid", at.shard}, {"tid", at.track},   {"ts", microseconds(when)}};
  }
  // A multiple of 1/8, which a double holds exactly.
  [[nodiscard]] double microseconds(std::int64_t when_ns) const {
    return static_cast<double>((when_ns - base_ns_) / grain_ns) * (static_cast<double>(grain_ns) / 1000);
  }
  void write(const ordered_json& event) {
    out_ << (any_ ? ",\n" : "\n") << event.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    any_ = true;
  }

  std::ostream& out_;
  std::int64_t base_ns_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> named_;
  std::uint64_t flows_ = 0;
  bool any_ = false;
};

std::string title_of(const traced_batch& batch) {
  return batch.pipeline->name + " " + std::to_string(batch.number);
}

// A stream runs one thing at a time, but times that were measured from different anchors may be some nanoseconds off.
void write_streams(const std::vector<traced_batch>& batches, event_writer& to) {
  struct piece {
    slice where;
    const traced_batch* batch;
    std::size_t step;
  };
  std::vector<piece> pieces;
  for (const traced_batch& batch : batches) {
    for (std::size_t step = 0; step < batch.steps.size(); ++step) {
      const std::uint32_t stream = batch.streams[batch.pipeline->steps[step].lane];
      pieces.push_back(
          {{batch.shard, first_stream + stream, batch.steps[step].begin, batch.steps[step].end}, &batch, step});
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const piece& left, const piece& right) { return left.where.begin < right.where.begin; });
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::int64_t> ends;
  for (piece& each : pieces) {
    slice& where = each.where;
    const traced_batch& batch = *each.batch;
    const auto [previous, first] = ends.try_emplace({where.shard, where.track}, where.begin);
    where.begin = std::max(where.begin, previous->second);
    where.end = std::max(where.end, where.begin);
    previous->second = where.end;
    to.track(where.shard, where.track, "stream " + std::to_string(where.track - first_stream));
    to.add(where, batch.pipeline->steps[each.step].name, "step",
           {{"pipeline", batch.pipeline->name}, {"batch", batch.number}, {"frames", batch.frames}});
  }
}

slice on_device(const traced_batch& batch) {
  return {batch.shard, first_slot + batch.slot, batch.launched, batch.completed};
}

void write_slots(const std::vector<traced_batch>& batches, event_writer& to) {
  for (const traced_batch& batch : batches) {
    const std::uint64_t track = first_slot + batch.slot;
    to.track(batch.shard, track, "slot " + std::to_string(batch.slot));
    to.add({batch.shard, track, batch.opened, batch.returned}, title_of(batch), "batch",
           {{"frames", batch.frames},
            {"requests", batch.request_count},
            {"closed", batch.close_reason},
            {"timed", !batch.steps.empty()},
            {"failed", batch.failed}});
    to.add({batch.shard, track, batch.opened, batch.closed}, "filling", "batch");
    to.add({batch.shard, track, batch.closed, batch.launched}, "waiting", "batch");
    to.add(on_device(batch), "on device", "batch");
    if (batch.returned > batch.completed) {
      to.add({batch.shard, track, batch.completed, batch.returned}, "replying", "batch");
    }
  }
}

// Requests of one pipeline overlap: each goes on the first row that is free.
void write_requests(const std::vector<traced_batch>& batches, event_writer& to) {
  struct arrival {
    const traced_batch* batch;
    const traced_batch::request* what;
  };
  std::vector<arrival> arrivals;
  for (const traced_batch& batch : batches) {
    for (const traced_batch::request& each : batch.requests) {
      arrivals.push_back({&batch, &each});
    }
  }
  std::stable_sort(arrivals.begin(), arrivals.end(), [](const arrival& left, const arrival& right) {
    return left.what->received < right.what->received;
  });
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::int64_t>> rows;  // when each is free
  for (const arrival& each : arrivals) {
    const traced_batch& batch = *each.batch;
    const std::int64_t end = std::max(each.what->received, batch.completed);
    std::vector<std::int64_t>& ends = rows[{batch.shard, batch.pipeline_id}];
    auto row = std::find_if(ends.begin(), ends.end(), [&](std::int64_t free) { return free <= each.what->received; });
    row = row == ends.end() ? ends.insert(row, end) : row;
    *row = end;
    const slice where{
        batch.shard,
        first_request_row + rows_a_pipeline * batch.pipeline_id + static_cast<std::uint64_t>(row - ends.begin()),
        each.what->received, end};
    ordered_json arguments = {{"client", each.what->client}, {"request", each.what->id}, {"batch", batch.number}};
    if (each.what->session != 0) {
      arguments["session"] = each.what->session;
      arguments["sequence"] = each.what->sequence;
    }
    if (!each.what->trace_id.empty()) {
      arguments["trace_id"] = each.what->trace_id;
    }
    to.track(where.shard, where.track, "requests: " + batch.pipeline->name);
    to.add(where,
           "request " + std::to_string(each.what->id) + (each.what->ended_early ? ", answered before its batch" : ""),
           "request", std::move(arguments));
    to.flow(where, on_device(batch));
  }
}

}  // namespace

void chrome_trace::add(std::string_view page) {
  try {
    // Whoever received the page has bounded its bytes.
    const wire::json_bounds bounds{
        .bytes = page.size(), .depth = wire::answer_bounds.depth, .values = wire::answer_bounds.values};
    const std::optional<nlohmann::json> parsed = wire::read_json(page, bounds);
    if (!parsed) {
      throw std::runtime_error("it is no JSON, or more than a page has");
    }
    const nlohmann::json& read = *parsed;
    const auto shard = read.at("shard").get<std::uint32_t>();
    devices_[shard] = read.at("device").get<std::string>();
    std::map<std::uint32_t, std::shared_ptr<const traced_pipeline>> pipelines;
    for (const auto& [id, described] : read.at("pipelines").items()) {
      pipelines[static_cast<std::uint32_t>(std::stoul(id))] =
          std::make_shared<const traced_pipeline>(read_pipeline(described));
    }
    last_page_ = {.now_ns = read.at("now_ns").get<std::int64_t>(), .batches = read.at("batches").size()};
    for (const auto& each : read.at("batches")) {
      traced_batch batch = read_batch(each);
      batch.shard = shard;
      batch.pipeline = pipelines.at(batch.pipeline_id);
      if (batch.steps.size() > batch.pipeline->steps.size()) {
        throw std::runtime_error("a batch has more steps than its pipeline");
      }
      for (std::size_t step = 0; step < batch.steps.size(); ++step) {
        if (batch.pipeline->steps[step].lane >= batch.streams.size()) {
          throw std::runtime_error("a step has no stream");
        }
      }
      last_page_.newest_ns = std::max(last_page_.newest_ns, batch.completed);
      batches_.push_back(std::move(batch));
    }
  } catch (const std::exception& wrong) {
    throw std::runtime_error(std::string("the daemon's timeline can't be read: ") + wrong.what());
  }
}

void chrome_trace::keep_since(std::int64_t since_ns) {
  std::erase_if(batches_, [&](const traced_batch& each) { return each.completed < since_ns; });
}

void chrome_trace::write(std::ostream& out) const {
  std::int64_t base = batches_.empty() ? 0 : batches_.front().opened;
  for (const traced_batch& batch : batches_) {
    base = std::min(base, batch.opened);
    for (const traced_batch::request& each : batch.requests) {
      base = std::min(base, each.received);
    }
  }
  event_writer to(out, base);
  for (const auto& [shard, device] : devices_) {
    to.process(shard, "shard " + std::to_string(shard) + ": " + device);
  }
  write_streams(batches_, to);
  write_slots(batches_, to);
  write_requests(batches_, to);
  to.finish();
}

}  // namespace penstock
