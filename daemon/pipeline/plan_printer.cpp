#include "daemon/pipeline/plan_printer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <utility>

#include "daemon/pipeline/buffer_layout.hpp"
#include "daemon/pipeline/plan.hpp"

namespace penstock {
namespace {

constexpr std::string_view rule = "─";
constexpr std::string_view gap = "  ";

std::size_t places(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

void end_line(std::string& out) {
  out.erase(out.find_last_not_of(' ') + 1);
  out += '\n';
}

/// Rows of text in columns for a terminal, UTF-8: a heading, a rule, then the rows. A column is as wide as its widest
/// cell, at one place for each code point.
class text_table {
 public:
  struct column {
    std::string heading;
    bool right = false;  ///< numbers end at the same place
  };

  explicit text_table(std::vector<column> columns) : columns_(std::move(columns)) {}

  /// As many cells as there are columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Every line begins with `indent` and ends without a space. A column whose cells are all empty is left out.
  [[nodiscard]] std::string text(std::string_view indent) const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;

  std::vector<column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// 0 for a column that is left out.
std::vector<std::size_t> text_table::widths() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (std::size_t index = 0; index < columns_.size(); ++index) {
    for (const auto& cells : rows_) {
      widths[index] = std::max(widths[index], places(cells[index]));
    }
    if (widths[index] != 0) {
      widths[index] = std::max(widths[index], places(columns_[index].heading));
    }
  }
  return widths;
}

std::string text_table::text(std::string_view indent) const {
  const std::vector<std::size_t> wide = widths();
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    out += indent;
    std::string_view separator;
    for (std::size_t index = 0; index < columns_.size(); ++index) {
      if (wide[index] == 0) {
        continue;
      }
      const std::string cell = cell_of(index);
      const std::string padding(wide[index] - places(cell), ' ');
      out += separator;
      out += columns_[index].right ? padding + cell : cell + padding;
      separator = gap;
    }
    end_line(out);
  };
  add_line([&](std::size_t index) { return columns_[index].heading; });
  add_line([&](std::size_t index) {
    std::string line;
    for (std::size_t place = 0; place < wide[index]; ++place) {
      line += rule;
    }
    return line;
  });
  for (const auto& cells : rows_) {
    add_line([&](std::size_t index) { return cells[index]; });
  }
  return out;
}

/// One node of plan::order as it is shown. Steps have the numbers of the nodes.
struct plan_step {
  std::string name;                ///< of the stage; "copy in", "copy out"
  std::string op;                  ///< empty for a copy
  std::string axis;                ///< along which it works, and that axis's extent
  std::vector<std::size_t> reads;  ///< indices of plan::buffers
  std::size_t writes = 0;          ///< the first of the buffers that it writes
  std::size_t written = 1;         ///< how many; 0 for a copy out
};

/// "1 (3)", "0 (max 4096)".
std::string axis_text(const stage_declaration& stage, const tensor_spec& input) {
  if (!stage.axis) {
    return "";
  }
  return std::to_string(*stage.axis) + (input.variable && *stage.axis == 0 ? " (max " : " (") +
         std::to_string(input.shape[*stage.axis]) + ")";
}

/// All steps, in the order in which they are enqueued.
std::vector<plan_step> steps_of(const plan& shown) {
  std::vector<plan_step> steps{{.name = "copy in", .op = "", .axis = "", .reads = {}, .writes = 0}};
  for (std::size_t index = 0; index < shown.stages.size(); ++index) {
    const plan_stage& stage = shown.stages[index];
    std::string with;
    for (const std::string& each : stage.fused) {
      with += (with.empty() ? " (with '" : ", '") + each + "'";
    }
    steps.push_back({.name = stage.name,
                     .op = with.empty() ? stage.op : stage.op + with + ")",
                     .axis = axis_text(shown.declaration.stages[index], shown.buffers[stage.inputs.front()].spec),
                     .reads = stage.inputs,
                     .writes = stage.output,
                     .written = stage.outputs});
  }
  for (const plan_output& output : shown.outputs) {
    steps.push_back({.name = "copy out", .op = "", .axis = "", .reads = {output.buffer}, .written = 0});
  }
  return steps;
}

/// By event: the step that records it.
std::vector<std::size_t> recorders_of(const plan& shown) {
  std::vector<std::size_t> recorders(shown.order.events, 0);
  for (std::size_t step = 0; step < shown.order.steps.size(); ++step) {
    if (const std::int32_t event = shown.order.steps[step].event; event >= 0) {
      recorders[static_cast<std::size_t>(event)] = step;
    }
  }
  return recorders;
}

constexpr std::string_view indent = "  ";
constexpr std::size_t map_width = 32;  ///< places of the picture of a slot's device memory

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

std::string counted(std::size_t number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
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

std::string facts_text(const plan& shown, std::string_view device) {
  std::string out = "pipeline " + shown.declaration.name + "\n";
  add_fact(out, "device", std::string(device));
  for (std::size_t input = 0; input < shown.inputs; ++input) {
    const std::string name = shown.inputs == 1 ? "" : ", " + shown.buffers[input].name;
    const std::size_t time = input == 0 ? shown.declaration.time_axis : 0;
    add_fact(out, "input",
             shown.buffers[input].spec.text() + name + (time == 0 ? "" : ", time along axis " + std::to_string(time)));
  }
  add_fact(out, "batch", "up to " + counted(static_cast<std::size_t>(shown.max_frames), "frame"));
  add_fact(out, "lanes",
           counted(shown.order.lanes, "stream") + (shown.order.lanes == 1 ? ", " : " at once, ") +
               counted(shown.order.events, "event"));
  std::vector<std::string> keepers;
  for (const std::size_t stage : shown.keepers) {
    keepers.push_back(shown.stages[stage].name);
  }
  add_fact(out, "sessions", keepers.empty() ? "no stage keeps state" : "state is kept by " + listed(keepers));
  for (const std::size_t stage : shown.tuned) {
    const stage_declaration& declared = shown.declaration.stages[stage];
    add_fact(out, "tunable", listed(declared.tunable) + " of " + declared.name);
  }
  for (const plan_stage& each : shown.stages) {
    if (const std::size_t bytes = each.compiled->own_bytes(); bytes != 0) {
      add_fact(out, "memory", grouped(bytes) + " bytes of " + each.name + "'s own, on the device");
    }
  }
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

std::string steps_text(const plan& shown) {
  const std::vector<plan_step> steps = steps_of(shown);
  const std::vector<std::size_t> recorders = recorders_of(shown);
  text_table table({{"step", true},
                    {"lanes"},
                    {"stage"},
                    {"operator"},
                    {"axis"},
                    {"waits for"},
                    {"reads"},
                    {"writes"},
                    {"records"}});
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const schedule_step& scheduled = shown.order.steps[step];
    std::vector<std::string> reads;
    for (const std::size_t buffer : steps[step].reads) {
      reads.push_back(shown.buffers[buffer].name);
    }
    std::vector<std::string> writes;
    for (std::size_t each = 0; each < steps[step].written; ++each) {
      const plan_buffer& buffer = shown.buffers[steps[step].writes + each];
      writes.push_back(buffer.name + " " + buffer.spec.text());
    }
    if (writes.empty()) {
      writes.emplace_back("reply");
    }
    table.add({std::to_string(step), lanes_text(shown.order, step), steps[step].name, steps[step].op, steps[step].axis,
               waits_text(scheduled.waits, recorders), listed(reads), listed(writes),
               scheduled.event < 0 ? "" : "e" + std::to_string(scheduled.event)});
  }
  table.add({std::to_string(steps.size()), lanes_text(shown.order, steps.size()), "completion", "", "",
             waits_text(shown.order.joins, recorders), "", "", ""});
  return table.text(indent);
}

/// A buffer in a slot's device memory, and the first and last step at which its contents matter.
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

std::vector<shown_buffer> shown_buffers(const plan& shown) {
  std::vector<shown_buffer> all;
  for (std::size_t buffer = 0; buffer < shown.buffers.size(); ++buffer) {
    const plan_buffer& each = shown.buffers[buffer];
    all.push_back({each.name, each.offset, each.bytes, each.writer, each.writer});
  }
  const std::vector<plan_step> steps = steps_of(shown);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (const std::size_t buffer : steps[step].reads) {
      all[buffer].last = step;
    }
  }
  for (std::size_t stage = 0; stage < shown.stages.size(); ++stage) {
    const plan_stage& each = shown.stages[stage];
    if (each.scratch_bytes != 0) {
      all.push_back({"scratch of " + each.name, each.scratch_offset, each.scratch_bytes, stage + 1, stage + 1});
    }
  }
  if (shown.keeps_state() || shown.is_tuned()) {
    const std::size_t last =
        std::max(shown.keeps_state() ? shown.keepers.back() : 0, shown.is_tuned() ? shown.tuned.back() : 0);
    all.push_back({shown.keeps_state() ? "session frames" : "tuned numbers", shown.frame_table_offset,
                   shown.pinned_input_bytes - shown.frame_table_pinned, 0, last + 1});
  }
  return all;
}

/// Where a buffer lies in a slot's device memory, as a picture.
std::string map_text(const shown_buffer& buffer, std::size_t device_bytes) {
  const auto place_of = [&](std::size_t offset) {
    return static_cast<std::size_t>(static_cast<double>(offset) / static_cast<double>(device_bytes) * map_width + 0.5);
  };
  const std::size_t begin = std::min(place_of(buffer.offset), map_width - 1);
  const std::size_t end = std::max(place_of(buffer.offset + buffer.bytes), begin + 1);
  std::string out;
  for (std::size_t place = 0; place < map_width; ++place) {
    out += place >= begin && place < end ? "█" : "·";
  }
  return out;
}

std::string buffers_text(const plan& shown) {
  const std::vector<shown_buffer> all = shown_buffers(shown);
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
               shown.blocks ? "pinned memory" : map_text(each, shown.device_bytes),
               shown.blocks ? "" : listed(sharers)});
  }
  return table.text(indent);
}

std::string state_text(const plan& shown) {
  text_table table({{"state of"}, {"offset", true}, {"bytes", true}, {"goes along"}});
  for (const std::size_t stage : shown.keepers) {
    const plan_stage& keeper = shown.stages[stage];
    table.add({keeper.name, grouped(keeper.state->offset), grouped(keeper.compiled->state_bytes()),
               keeper.state->traits.whole_frames ? "frames" : "rows"});
  }
  return table.text(indent);
}

std::string totals_text(const plan& shown) {
  std::size_t apart = 0;
  for (const shown_buffer& each : shown_buffers(shown)) {
    apart += aligned_bytes(each.bytes);
  }
  std::string out;
  add_fact(out, "arena", bytes_text(shown.device_bytes) + " a slot; without sharing " + bytes_text(apart));
  add_fact(out, "pinned",
           bytes_text(shown.pinned_input_bytes) + " in, " + bytes_text(shown.pinned_output_bytes) + " out a slot");
  if (shown.keeps_state()) {
    add_fact(out, "state", bytes_text(2 * shown.state_bytes) + " a session, in two halves");
  }
  return out;
}

}  // namespace

std::string print_plan(const plan& shown, std::string_view device) {
  std::string out = facts_text(shown, device) + "\n" + steps_text(shown) + "\n" + buffers_text(shown) + "\n";
  if (shown.keeps_state()) {
    out += state_text(shown) + "\n";
  }
  return out + totals_text(shown);
}

namespace {

/// Light enough for black letters; one after the other by lane.
constexpr std::array<const char*, 8> lane_colours{"#cfe3f7", "#fbe0bf", "#d3ecd0", "#f6d2d6",
                                                  "#e2d8f3", "#f7f0b9", "#d0eeec", "#e6e1da"};

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      out += '\\';
    }
    out += letter;
  }
  return out + "\"";
}

std::string node(std::size_t step) {
  return "step" + std::to_string(step);
}

/// `lines` stand below one another, centred.
void add_node(std::string& out, std::size_t step, std::uint32_t lane, std::string_view shape,
              std::initializer_list<std::string> lines) {
  std::string label;
  for (const std::string& each : lines) {
    label += each.empty() ? "" : (label.empty() ? "" : "\\n") + each;
  }
  out += "  " + node(step) + " [label=\"" + label + "\", shape=" + std::string(shape) + ", fillcolor=\"" +
         lane_colours[lane % lane_colours.size()] + "\"];\n";
}

void add_nodes(std::string& out, const plan& shown, const std::vector<plan_step>& steps) {
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const std::uint32_t lane = shown.order.steps[step].lane;
    add_node(out, step, lane, steps[step].op.empty() ? "ellipse" : "box",
             {steps[step].name, steps[step].op, steps[step].axis.empty() ? "" : "axis " + steps[step].axis,
              "lane " + std::to_string(lane)});
  }
  add_node(out, steps.size(), 0, "ellipse, peripheries=2", {"completion", "lane 0"});
}

/// An edge for each buffer that a step reads, from the step that wrote it: buffers and those steps have the same
/// numbers.
void add_data(std::string& out, const plan& shown, const std::vector<plan_step>& steps) {
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (const std::size_t buffer : steps[step].reads) {
      out += "  " + node(buffer) + " -> " + node(step) + " [label=" + in_quotes(shown.buffers[buffer].spec.text()) +
             "];\n";
    }
  }
}

/// A dotted edge between neighbours on a lane that nothing else ties to one another. All but the last leave the
/// picture's ranks to the data.
void add_lane_order(std::string& out, const plan& shown, const std::vector<plan_step>& steps) {
  std::vector<std::size_t> last(shown.order.lanes, steps.size());
  for (std::size_t step = 0; step <= steps.size(); ++step) {
    const bool ends = step == steps.size();
    std::size_t& before = last[ends ? 0 : shown.order.steps[step].lane];
    const bool reads =
        !ends && std::find(steps[step].reads.begin(), steps[step].reads.end(), before) != steps[step].reads.end();
    if (before != steps.size() && !reads) {
      out += "  " + node(before) + " -> " + node(step) + " [style=dotted, color=\"#808080\"" +
             (ends ? "" : ", constraint=false") + "];\n";
    }
    before = step;
  }
}

void add_events(std::string& out, const plan& shown) {
  const std::vector<std::size_t> recorders = recorders_of(shown);
  const auto add = [&](const std::vector<std::uint32_t>& waits, std::size_t step) {
    for (const std::uint32_t event : waits) {
      out += "  " + node(recorders[event]) + " -> " + node(step) + " [label=\"e" + std::to_string(event) +
             "\", style=dashed, color=\"#b03030\", fontcolor=\"#b03030\"];\n";
    }
  };
  for (std::size_t step = 0; step < shown.order.steps.size(); ++step) {
    add(shown.order.steps[step].waits, step);
  }
  add(shown.order.joins, shown.order.steps.size());
}

}  // namespace

std::string print_plan_graph(const plan& shown, std::string_view device) {
  const std::vector<plan_step> steps = steps_of(shown);
  std::string out = "digraph " + in_quotes(shown.declaration.name) + " {\n";
  const std::string title = "pipeline " + shown.declaration.name + ", up to " + std::to_string(shown.max_frames) +
                            " frames a batch: " + std::string(device);
  out += "  graph [label=" + in_quotes(title) +
         ", labelloc=t, rankdir=LR, nodesep=0.35, fontname=\"Helvetica\", fontsize=12];\n";
  out += "  node [style=filled, color=\"#606060\", fontname=\"Helvetica\", fontsize=11];\n";
  out += "  edge [arrowsize=0.7, fontname=\"Helvetica\", fontsize=10];\n";
  add_nodes(out, shown, steps);
  add_data(out, shown, steps);
  add_lane_order(out, shown, steps);
  add_events(out, shown);
  return out + "}\n";
}

}  // namespace penstock
