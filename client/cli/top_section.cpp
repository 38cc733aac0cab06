#include "client/cli/top_section.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>

#include "client/cli/quantity.hpp"

namespace penstock::cli {
namespace {

constexpr int bar_cells = 10;
// Where the columns begin that stand behind the names.
constexpr int shard_names = 12;
constexpr int stream_names = 15;
constexpr int least_pipeline_names = 18;
constexpr int least_client_names = 21;
constexpr int most_names = 48;
constexpr int stream_width = 40;
constexpr int wide = 96;

std::string percent(double part) {
  return std::to_string(std::lround(part * 100)) + "%";
}

std::string time_text(std::optional<double> microseconds) {
  return microseconds ? duration_text(std::chrono::nanoseconds(std::llround(*microseconds * 1000))) : "-";
}

std::string of_text(std::uint64_t part, std::uint64_t whole) {
  return std::to_string(part) + "/" + std::to_string(whole);
}

text_role role_of_trouble(double trouble) {
  return trouble > 0 ? text_role::bad : text_role::plain;
}

double part_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

top_line shard_columns(const top_view& view) {
  top_line line(view.columns - shard_names);
  line.right("results/s", 10).right("in flight", 10).left(" slots taken", bar_cells + 9).right("sessions", 9);
  return line.right("clients", 8).right("last batch", 12);
}

top_line shard_row(const shard_figures& of, const top_view& view) {
  const bool good = of.state == "ready";
  top_line line(view.columns);
  line.right(std::to_string(of.number), 3)
      .add(" ")
      .left(of.state, shard_names - 4, good ? text_role::good : text_role::warning);
  if (!of.device_error.empty()) {
    return line.add(" the device has failed: " + of.device_error, text_role::bad);
  }
  if (of.state == "missing") {
    return line.add(" did not answer the daemon within 2 s", text_role::bad);
  }
  line.right(short_count(of.results_per_s), 10).right(std::to_string(of.in_flight), 10).add(" ");
  line.bar(part_of(of.slots_taken, of.slots), bar_cells, view.glyphs, text_role::compute);
  line.add(" ").left(of_text(of.slots_taken, of.slots), 7).right(of_text(of.sessions, of.most_sessions), 9);
  return line.right(std::to_string(of.clients), 8).right(time_text(of.since_completion_s * 1e6), 12);
}

top_line stream_columns(const top_view& view) {
  top_line line(view.columns - stream_names);
  line.add(" part of the time in ").add("copy in", text_role::copy_in).add(", ");
  return line.add("compute", text_role::compute).add(", ").add("copy out", text_role::copy_out);
}

void add_stream(top_line& to, const stream_figures& of, int width, bool one_shard, const top_view& view) {
  constexpr int label = 6;
  constexpr int number = 5;
  const int cells = std::clamp((width - label - 3 * number - 3) / 3, 2, 40);
  const std::string stream = std::to_string(of.stream);
  to.right(one_shard ? stream : std::to_string(of.shard) + "." + stream, label - 1).add(" ");
  if (!of.known) {
    to.left("not timed", width - label, text_role::faint);
    return;
  }
  const auto show = [&](double part, text_role role) {
    to.bar(part, cells, view.glyphs, role).right(percent(part), number).add(" ");
  };
  show(of.copy_in, text_role::copy_in);
  show(of.compute, text_role::compute);
  show(of.copy_out, text_role::copy_out);
}

section_lines stream_section(const top_figures& figures, const top_view& view) {
  section_lines made{.columns = stream_columns(view), .items = figures.streams.size(), .rows = {}};
  made.per_row = static_cast<std::size_t>(std::max(view.columns / stream_width, 1));
  const bool one_shard = std::all_of(figures.streams.begin(), figures.streams.end(), [&](const stream_figures& each) {
    return each.shard == figures.streams.front().shard;
  });
  const int width = view.columns / static_cast<int>(made.per_row);
  for (std::size_t each = 0; each < figures.streams.size(); ++each) {
    if (each % made.per_row == 0) {
      made.rows.emplace_back(view.columns);
    }
    made.rows.back().to_column(static_cast<int>(each % made.per_row) * width);
    add_stream(made.rows.back(), figures.streams[each], width, one_shard, view);
  }
  return made;
}

top_line pipeline_columns(int names, const top_view& view) {
  top_line line(view.columns - names);
  line.right("results/s", 10).right("frames/s", 9).right("batch", 7).left("  closed by", 11);
  line.right("p50", 8).right("p99", 8).right("errors/s", 9);
  return view.columns >= wide ? line.right("in flight", 11) : line;
}

top_line pipeline_row(const pipeline_figures& of, int names, const top_view& view) {
  const bool ascii = view.glyphs == bar_glyphs::ascii;
  top_line line(view.columns);
  line.add("  ").left(shown_name(of.name, ascii), names - 3, text_role::strong).add(" ");
  line.right(short_count(of.results_per_s), 10).right(short_count(of.frames_per_s), 9);
  line.right(of.frames_per_batch ? short_count(std::round(*of.frames_per_batch * 10) / 10) : "-", 7);
  line.left(of.close_reason.empty() ? "  -" : "  " + of.close_reason + " " + percent(of.close_share), 11);
  line.right(time_text(of.p50_us), 8).right(time_text(of.p99_us), 8);
  line.right(short_count(of.errors_per_s), 9, role_of_trouble(of.errors_per_s));
  return view.columns >= wide ? line.right(std::to_string(of.in_flight), 11) : line;
}

top_line client_columns(int names, const top_view& view) {
  top_line line(view.columns - names);
  line.left("in flight / credits", bar_cells + 12).right("bytes", 9).right("results/s", 11);
  return line.right("dropped", 10).right("shard", 7);
}

top_line client_row(const client_figures& of, int names, const top_view& view) {
  const bool ascii = view.glyphs == bar_glyphs::ascii;
  top_line line(view.columns);
  line.add("  ").left(shown_name(of.name, ascii), names - 3, text_role::strong).add(" ");
  line.bar(of.held, bar_cells, view.glyphs, of.held > 0.95 ? text_role::warning : text_role::compute);
  line.add(" ").left(of_text(of.requests, of.credits), 11).right(bytes_text(static_cast<double>(of.bytes)), 9);
  line.right(short_count(of.results_per_s), 11);
  line.right(short_count(static_cast<double>(of.dropped)), 10, role_of_trouble(of.dropped_per_s));
  return line.right(std::to_string(of.shard), 7);
}

template <class Figures>
int names_width(const std::vector<Figures>& of, int least, const top_view& view) {
  int longest = 0;
  for (const Figures& each : of) {
    longest = std::max(longest, cells_of(each.name) + 3);
  }
  const int room = least + std::max(view.columns - (view.columns >= wide ? wide - 5 : 80), 0);
  return std::clamp(longest, least, std::min(std::max(room, least), most_names));
}

}  // namespace

std::array<section_lines, top_sections> lay_out_sections(const top_figures& figures, const top_view& view) {
  section_lines shards{.columns = shard_columns(view), .items = figures.shards.size(), .rows = {}};
  for (const shard_figures& each : figures.shards) {
    shards.rows.push_back(shard_row(each, view));
  }
  const int pipeline_names = names_width(figures.pipelines, least_pipeline_names, view);
  section_lines pipelines{
      .columns = pipeline_columns(pipeline_names, view), .items = figures.pipelines.size(), .rows = {}};
  for (const pipeline_figures& each : figures.pipelines) {
    pipelines.rows.push_back(pipeline_row(each, pipeline_names, view));
  }
  const int client_names = names_width(figures.clients, least_client_names, view);
  section_lines clients{.columns = client_columns(client_names, view), .items = figures.clients.size(), .rows = {}};
  for (const client_figures& each : figures.clients) {
    clients.rows.push_back(client_row(each, client_names, view));
  }
  return {std::move(shards), stream_section(figures, view), std::move(pipelines), std::move(clients)};
}

top_line section_heading(top_section which, const section_lines& of, int rows, const top_view& view) {
  constexpr std::array<std::string_view, top_sections> names{"SHARDS", "STREAMS", "PIPELINES", "CLIENTS"};
  const auto index = static_cast<std::size_t>(which);
  const std::size_t shown = std::min(static_cast<std::size_t>(std::max(rows, 0)) * of.per_row, of.items);
  std::string name = std::to_string(index + 1) + " " + std::string(names[index]);
  if (shown < of.items) {
    name += " " + std::to_string(shown) + "/" + std::to_string(of.items);
  }
  const text_role role = which == view.chosen && view.rows > 0 ? text_role::chosen : text_role::heading;
  top_line line(view.columns);
  line.left(name, view.columns - of.columns.room(), role);
  for (const text_piece& each : of.columns.pieces()) {
    line.add(each.text, each.role == text_role::plain ? text_role::faint : each.role);
  }
  return line;
}

}  // namespace penstock::cli
