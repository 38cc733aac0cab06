#include "daemon/pipeline/plan_printer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <utility>

#include "daemon/pipeline/arena.hpp"
#include "daemon/pipeline/plan_step.hpp"
#include "daemon/pipeline/text_table.hpp"

namespace penstock {
namespace {

constexpr std::string_view indent = "  ";
constexpr std::size_t map_width = 32;  ///< places of a buffer's picture in the arena

/// "1,048,576".
std::string grouped(std::size_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

/// "1,572,864 bytes (1.5 MiB)".
std::string bytes_text(std::size_t bytes) {
  constexpr std::array<const char*, 5> units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) {
    value /= 1024;
  }
  std::string text = grouped(bytes) + " bytes";
  if (unit != 0) {
    std::array<char, 32> rounded{};
    std::snprintf(rounded.data(), rounded.size(), " (%.1f %s)", value, units[unit]);
    text += rounded.data();
  }
  return text;
}

std::string counted(std::size_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

std::string listed(std::span<const std::string> names) {
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

void add_fact(std::string& out, std::string_view name, const std::string& text) {
  std::string padded(name);
  padded.resize(10, ' ');
  out += std::string(indent) + padded + text + "\n";
}

std::string facts_text(const plan& what, std::string_view device) {
  std::string out = "pipeline " + what.declaration.name + "\n";
  add_fact(out, "device", std::string(device));
  add_fact(out, "input", what.input().text());
  add_fact(out, "batch", "up to " + counted(static_cast<std::size_t>(what.max_frames), "frame"));
  add_fact(out, "lanes",
           counted(what.order.lanes, "stream") + (what.order.lanes == 1 ? ", " : " at once, ") +
               counted(what.order.events, "event"));
  std::vector<std::string> keepers;
  for (const std::size_t stage : what.keepers) {
    keepers.push_back(what.stages[stage].name);
  }
  add_fact(out, "sessions", keepers.empty() ? "no stage keeps state" : "state is kept by " + listed(keepers));
  return out;
}

/// A column for each lane: a dot where the step runs, a bar where the lane is in use.
std::string lanes_text(const schedule& order, std::size_t step) {
  const auto runs_in = [&](std::size_t at, std::uint32_t lane) {
    return at == order.steps.size() ? lane == 0 : order.steps[at].lane == lane;
  };
  std::string out;
  for (std::uint32_t lane = 0; lane < order.lanes; ++lane) {
    bool before = false;
    bool after = lane == 0;
    for (std::size_t at = 0; at < order.steps.size(); ++at) {
      before = before || (at < step && runs_in(at, lane));
      after = after || (at > step && runs_in(at, lane));
    }
    out += lane == 0 ? "" : " ";
    out += runs_in(step, lane) ? "●" : before && after ? "│" : " ";
  }
  return out;
}

std::string waits_text(const std::vector<std::uint32_t>& waits, const std::vector<std::size_t>& recorders) {
  std::vector<std::string> each;
  for (const std::uint32_t event : waits) {
    each.push_back("e" + std::to_string(event) + " of step " + std::to_string(recorders[event]));
  }
  return listed(each);
}

std::string steps_text(const plan& what) {
  const std::vector<plan_step> steps = steps_of(what);
  const std::vector<std::size_t> recorders = recorders_of(what);
  text_table table(
      {{"step", true}, {"lanes"}, {"stage"}, {"operator"}, {"waits for"}, {"reads"}, {"writes"}, {"records"}});
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const schedule_step& scheduled = what.order.steps[step];
    std::vector<std::string> reads;
    for (const std::size_t buffer : steps[step].reads) {
      reads.push_back(what.buffers[buffer].name);
    }
    std::string writes = "reply";
    if (steps[step].writes >= 0) {
      const plan_buffer& buffer = what.buffers[static_cast<std::size_t>(steps[step].writes)];
      writes = buffer.name + " " + buffer.spec.text();
    }
    table.add({std::to_string(step), lanes_text(what.order, step), steps[step].name, steps[step].op,
               waits_text(scheduled.waits, recorders), listed(reads), writes,
               scheduled.event < 0 ? "" : "e" + std::to_string(scheduled.event)});
  }
  table.add({std::to_string(steps.size()), lanes_text(what.order, steps.size()), "completion", "",
             waits_text(what.order.joins, recorders), "", "", ""});
  return table.text(indent);
}

/// One place in the arena, and the steps from and to which its contents matter.
struct shown_buffer {
  std::string name;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::size_t first = 0;
  std::size_t last = 0;

  [[nodiscard]] bool overlaps(const shown_buffer& other) const {
    return offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
};

std::vector<shown_buffer> shown_buffers(const plan& what) {
  std::vector<shown_buffer> all;
  for (std::size_t buffer = 0; buffer < what.buffers.size(); ++buffer) {
    const plan_buffer& each = what.buffers[buffer];
    all.push_back({each.name, each.offset, each.bytes, buffer, buffer});
  }
  const std::vector<plan_step> steps = steps_of(what);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (const std::size_t buffer : steps[step].reads) {
      all[buffer].last = step;
    }
  }
  for (std::size_t stage = 0; stage < what.stages.size(); ++stage) {
    const plan_stage& each = what.stages[stage];
    if (each.scratch_bytes != 0) {
      all.push_back({"scratch of " + each.name, each.scratch_offset, each.scratch_bytes, stage + 1, stage + 1});
    }
  }
  if (what.keeps_state()) {
    all.push_back({"session frames", what.frame_table_offset, what.pinned_input_bytes - what.frame_table_pinned, 0,
                   what.keepers.back() + 1});
  }
  return all;
}

/// Where a buffer lies in the arena, as a picture.
std::string map_text(const shown_buffer& buffer, std::size_t arena_bytes) {
  const auto place_of = [&](std::size_t offset) {
    return static_cast<std::size_t>(static_cast<double>(offset) / static_cast<double>(arena_bytes) * map_width + 0.5);
  };
  const std::size_t begin = std::min(place_of(buffer.offset), map_width - 1);
  const std::size_t end = std::max(place_of(buffer.offset + buffer.bytes), begin + 1);
  std::string out;
  for (std::size_t place = 0; place < map_width; ++place) {
    out += place >= begin && place < end ? "█" : "·";
  }
  return out;
}

std::string buffers_text(const plan& what) {
  const std::vector<shown_buffer> all = shown_buffers(what);
  text_table table({{"buffer"}, {"offset", true}, {"bytes", true}, {"steps", true}, {"arena"}, {"shares memory with"}});
  for (const shown_buffer& each : all) {
    std::vector<std::string> sharers;
    for (const shown_buffer& other : all) {
      if (&other != &each && other.overlaps(each)) {
        sharers.push_back(other.name);
      }
    }
    const std::string last = each.last == each.first ? "" : "–" + std::to_string(each.last);
    table.add({each.name, grouped(each.offset), grouped(each.bytes), std::to_string(each.first) + last,
               map_text(each, what.arena_bytes), listed(sharers)});
  }
  return table.text(indent);
}

std::string state_text(const plan& what) {
  text_table table({{"state of"}, {"offset", true}, {"bytes", true}, {"goes along"}});
  for (const std::size_t stage : what.keepers) {
    const plan_stage& keeper = what.stages[stage];
    table.add({keeper.name, grouped(keeper.state->offset), grouped(keeper.compiled->state_bytes()),
               keeper.state->traits.whole_frames ? "frames" : "rows"});
  }
  return table.text(indent);
}

std::string totals_text(const plan& what) {
  std::size_t apart = 0;
  for (const shown_buffer& each : shown_buffers(what)) {
    apart += arena_aligned(each.bytes);
  }
  std::string out;
  add_fact(out, "arena", bytes_text(what.arena_bytes) + " a slot; without sharing " + bytes_text(apart));
  add_fact(out, "pinned",
           bytes_text(what.pinned_input_bytes) + " in, " + bytes_text(what.pinned_output_bytes) + " out a slot");
  if (what.keeps_state()) {
    add_fact(out, "state", bytes_text(2 * what.state_bytes) + " a session, in two halves");
  }
  return out;
}

}  // namespace

std::string print_plan(const plan& what, std::string_view device) {
  std::string out = facts_text(what, device) + "\n" + steps_text(what) + "\n" + buffers_text(what) + "\n";
  if (what.keeps_state()) {
    out += state_text(what) + "\n";
  }
  return out + totals_text(what);
}

}  // namespace penstock
