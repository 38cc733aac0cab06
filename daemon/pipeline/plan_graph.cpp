#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "daemon/pipeline/plan_printer.hpp"
#include "daemon/pipeline/plan_step.hpp"

namespace penstock {
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

void add_nodes(std::string& out, const plan& what, const std::vector<plan_step>& steps) {
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const std::uint32_t lane = what.order.steps[step].lane;
    add_node(out, step, lane, steps[step].op.empty() ? "ellipse" : "box",
             {steps[step].name, steps[step].op, "lane " + std::to_string(lane)});
  }
  add_node(out, steps.size(), 0, "ellipse, peripheries=2", {"completion", "lane 0"});
}

/// An edge for each buffer that a step reads, from the step that wrote it: buffers and those steps have the same
/// numbers.
void add_data(std::string& out, const plan& what, const std::vector<plan_step>& steps) {
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (const std::size_t buffer : steps[step].reads) {
      out +=
          "  " + node(buffer) + " -> " + node(step) + " [label=" + in_quotes(what.buffers[buffer].spec.text()) + "];\n";
    }
  }
}

/// A dotted edge between neighbours on a lane that nothing else ties to one another. All but the last leave the
/// picture's ranks to the data.
void add_lane_order(std::string& out, const plan& what, const std::vector<plan_step>& steps) {
  std::vector<std::size_t> last(what.order.lanes, steps.size());
  for (std::size_t step = 0; step <= steps.size(); ++step) {
    const bool ends = step == steps.size();
    std::size_t& before = last[ends ? 0 : what.order.steps[step].lane];
    const bool reads =
        !ends && std::find(steps[step].reads.begin(), steps[step].reads.end(), before) != steps[step].reads.end();
    if (before != steps.size() && !reads) {
      out += "  " + node(before) + " -> " + node(step) + " [style=dotted, color=\"#808080\"" +
             (ends ? "" : ", constraint=false") + "];\n";
    }
    before = step;
  }
}

void add_events(std::string& out, const plan& what) {
  const std::vector<std::size_t> recorders = recorders_of(what);
  const auto add = [&](const std::vector<std::uint32_t>& waits, std::size_t step) {
    for (const std::uint32_t event : waits) {
      out += "  " + node(recorders[event]) + " -> " + node(step) + " [label=\"e" + std::to_string(event) +
             "\", style=dashed, color=\"#b03030\", fontcolor=\"#b03030\"];\n";
    }
  };
  for (std::size_t step = 0; step < what.order.steps.size(); ++step) {
    add(what.order.steps[step].waits, step);
  }
  add(what.order.joins, what.order.steps.size());
}

}  // namespace

std::string print_plan_graph(const plan& what, std::string_view device) {
  const std::vector<plan_step> steps = steps_of(what);
  std::string out = "digraph " + in_quotes(what.declaration.name) + " {\n";
  const std::string title = "pipeline " + what.declaration.name + ", up to " + std::to_string(what.max_frames) +
                            " frames a batch: " + std::string(device);
  out += "  graph [label=" + in_quotes(title) +
         ", labelloc=t, rankdir=LR, nodesep=0.35, fontname=\"Helvetica\", fontsize=12];\n";
  out += "  node [style=filled, color=\"#606060\", fontname=\"Helvetica\", fontsize=11];\n";
  out += "  edge [arrowsize=0.7, fontname=\"Helvetica\", fontsize=10];\n";
  add_nodes(out, what, steps);
  add_data(out, what, steps);
  add_lane_order(out, what, steps);
  add_events(out, what);
  return out + "}\n";
}

}  // namespace penstock
