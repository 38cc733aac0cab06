#include "client/cli/top_layout.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "base/quantity.hpp"

namespace penstock::cli {
namespace {

bool continues(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// The first `cells` code points.
std::string_view first_cells(std::string_view text, int cells) noexcept {
  std::size_t at = 0;
  while (at < text.size() && cells > 0) {
    ++at;
    while (at < text.size() && continues(text[at])) {
      ++at;
    }
    --cells;
  }
  return text.substr(0, at);
}

/// A letter of Latin-1 or Latin Extended (U+00C0 to U+024F), two bytes in UTF-8.
bool is_latin(char lead, char next) noexcept {
  const auto first = static_cast<unsigned char>(lead);
  const auto code = ((first & 0x1FU) << 6U) | (static_cast<unsigned char>(next) & 0x3FU);
  return (first & 0xE0U) == 0xC0U && continues(next) && code >= 0xC0U && code <= 0x24FU;
}

}  // namespace

int cells_of(std::string_view text) noexcept {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char byte) { return !continues(byte); }));
}

std::string shown_name(std::string_view name, bool ascii) {
  std::string shown;
  for (std::size_t at = 0; at < name.size();) {
    if (name[at] >= 0x20 && name[at] < 0x7F) {
      shown += name[at++];
    } else if (!ascii && at + 1 < name.size() && is_latin(name[at], name[at + 1])) {
      shown += name.substr(at, 2);
      at += 2;
    } else {
      shown += '?';
      do {
        ++at;
      } while (at < name.size() && continues(name[at]));
    }
  }
  return shown;
}

top_line& top_line::add(std::string_view text, text_role role) {
  const std::string_view fits = first_cells(text, allocator_ - used_);
  if (!fits.empty()) {
    used_ += cells_of(fits);
    pieces_.push_back({std::string(fits), role});
  }
  return *this;
}

top_line& top_line::left(std::string_view text, int cells, text_role role) {
  const std::string_view fits = first_cells(text, cells);
  add(fits, role);
  return add(std::string(static_cast<std::size_t>(std::max(cells - cells_of(fits), 0)), ' '));
}

top_line& top_line::right(std::string_view text, int cells, text_role role) {
  const std::string_view fits = first_cells(text, cells);
  add(std::string(static_cast<std::size_t>(std::max(cells - cells_of(fits), 0)), ' '));
  return add(fits, role);
}

top_line& top_line::to_column(int column) {
  return add(std::string(static_cast<std::size_t>(std::max(column - used_, 0)), ' '));
}

top_line& top_line::bar(double part, int cells, bar_glyphs glyphs, text_role role) {
  constexpr std::array<std::string_view, 9> parts{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  const double bounded = std::isfinite(part) ? std::clamp(part, 0.0, 1.0) : 0.0;
  // Anything above 0 is visible.
  const int eighths = std::max(static_cast<int>(std::lround(bounded * cells * 8)), bounded > 0 ? 1 : 0);
  int cell = 0;
  std::string filled;
  for (; cell < cells; ++cell) {
    int fill = std::clamp(eighths - 8 * cell, 0, 8);
    if (glyphs != bar_glyphs::eighths) {
      fill = fill == 0 ? 0 : glyphs == bar_glyphs::halves && fill <= 4 ? 4 : 8;
    }
    if (fill == 0) {
      break;
    }
    filled += glyphs == bar_glyphs::ascii ? std::string_view{"#"} : parts[static_cast<std::size_t>(fill)];
  }
  add(filled, role);
  std::string rest;
  for (; cell < cells; ++cell) {
    rest += glyphs == bar_glyphs::ascii ? "." : "·";
  }
  return add(rest, text_role::faint);
}

top_line& top_line::at_end(std::string_view text, text_role role) {
  const int cells = cells_of(text);
  return allocator_ - used_ > cells ? to_column(allocator_ - cells).add(text, role) : *this;
}

std::string top_line::text() const {
  std::string all;
  for (const text_piece& each : pieces_) {
    all += each.text;
  }
  all.erase(all.find_last_not_of(' ') + 1);
  return all;
}

namespace {

std::string_view state_name(const top_figures& figures) {
  return figures.state.empty() ? std::string_view{"?"} : std::string_view{figures.state};
}

text_role state_role(std::string_view state) {
  return state == "ready" ? text_role::good : state == "missing" ? text_role::bad : text_role::warning;
}

/// Totals of all pipelines; without the frames, which are also below, when the line is too short.
top_line total_line(const top_figures& figures, const top_view& view) {
  const std::string results = short_count(figures.results_per_s) + " results/s  ";
  const std::string frames = short_count(figures.frames_per_s) + " frames/s  ";
  const std::string bytes =
      "in " + bytes_text(figures.bytes_in_per_s) + "/s  out " + bytes_text(figures.bytes_out_per_s) + "/s  ";
  const std::string errors =
      "errors " + short_count(figures.errors_per_s) + "/s  refused " + short_count(figures.refused_per_s) + "/s";
  const int cells = cells_of(results) + cells_of(frames) + cells_of(bytes) + cells_of(errors);
  const bool clean = figures.errors_per_s == 0 && figures.refused_per_s == 0;
  top_line line(view.columns);
  line.add(results, text_role::strong).add(cells <= view.columns ? frames : "", text_role::strong);
  return line.add(bytes).add(errors, clean ? text_role::plain : text_role::bad);
}

top_line subscriptions_line(const top_figures& figures, const top_view& view) {
  top_line line(view.columns);
  line.add(std::to_string(figures.subscriptions) +
           (figures.subscriptions == 1 ? " subscription  " : " subscriptions  "))
      .add(short_count(figures.published_per_s) + " results/s to them  ");
  return line.add("lost " + short_count(figures.published_lost_per_s) + "/s",
                  figures.published_lost_per_s > 0 ? text_role::bad : text_role::plain);
}

void add_head(std::vector<top_line>& lines, const top_figures& figures, const top_view& view) {
  lines.emplace_back(view.columns)
      .add(figures.server, text_role::strong)
      .add(" at " + view.address + "  ")
      .add(state_name(figures), state_role(figures.state))
      .add("  up " + uptime_text(figures.uptime_s) + "  configuration " + std::to_string(figures.configuration) + " ")
      .add(figures.hash.substr(0, 8), text_role::faint);
  if (!view.trouble.empty()) {
    lines.emplace_back(view.columns).add("NO ANSWER, trying again: " + view.trouble, text_role::bad);
  } else {
    lines.emplace_back(view.columns).add(figures.device, text_role::faint);
  }
  lines.push_back(total_line(figures, view));
  if (figures.subscriptions > 0) {
    lines.push_back(subscriptions_line(figures, view));
  }
}

std::vector<top_line> before_the_first_answer(const top_view& view) {
  std::vector<top_line> lines;
  lines.emplace_back(view.columns).add("penstock top", text_role::strong).add(" at " + view.address);
  if (view.trouble.empty()) {
    lines.emplace_back(view.columns).add("asking ...", text_role::faint);
  } else {
    lines.emplace_back(view.columns).add("NO ANSWER, trying again: " + view.trouble, text_role::bad);
  }
  return lines;
}

void add_help(std::vector<top_line>& lines, const top_view& view) {
  constexpr std::array<std::string_view, 14> text{
      "",
      "q        quit",
      "s        sort pipelines and clients: busiest, by name, most trouble first",
      "p        pause; the figures stay as they are until p is pressed again",
      "tab 1-6  the section that gets the room: shards, streams, pipelines, clients, sources, sinks",
      "h        this page, and back",
      "",
      "Rates, shares and quantiles are those of the time between two answers.",
      "streams    how much of the time each was copying in, computing, copying out",
      "batch      frames to a batch; closed by: what closed most of them",
      "p50 p99    from a request's being received to its result, up to 6 % too much",
      "in flight  of the requests that a client may have in flight",
      "dropped    results that a client which reads too slowly has lost, also those of others",
      "last batch how long ago a batch was done: long beside work in flight is trouble"};
  for (const std::string_view line : text) {
    lines.emplace_back(view.columns).add(line);
  }
}

std::string interval_text(const std::optional<top_figures>& figures) {
  if (!figures) {
    return "";
  }
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "over the last %.1f s", figures->interval_s);
  return figures->interval_s > 0 ? text.data() : figures->restarted ? "restarted: since the start" : "since the start";
}

top_line keys_line(const std::optional<top_figures>& figures, const top_view& view) {
  constexpr std::array<std::string_view, 3> orders{"busy", "name", "trouble"};
  top_line line(view.columns);
  line.add("q quit  s sort: ", text_role::faint).add(orders[static_cast<std::size_t>(view.order)]);
  line.add("  p ", text_role::faint)
      .add(view.paused ? "PAUSED" : "pause", view.paused ? text_role::warning : text_role::faint);
  return line.add("  1-6 room  h help", text_role::faint).at_end(interval_text(figures), text_role::faint);
}

void add_sections(std::vector<top_line>& lines, const top_figures& figures, const top_view& view) {
  std::array<section_lines, top_sections> all = lay_out_sections(figures, view);
  std::array<int, top_sections> wanted{};
  int total = 0;
  const auto is_left_out = [&](std::size_t each) {
    return each >= static_cast<std::size_t>(top_section::sources) && all[each].items == 0;
  };
  std::size_t sections = 0;
  for (std::size_t each = 0; each < top_sections; ++each) {
    wanted[each] = static_cast<int>(all[each].rows.size());
    total += is_left_out(each) ? 0 : wanted[each] + 1;
    sections += is_left_out(each) ? 0U : 1U;
  }
  const int room = view.rows == 0 ? total : view.rows - static_cast<int>(lines.size()) - 1;
  const bool airy = room >= total + static_cast<int>(sections);
  const auto rows = share_rows(wanted, room - static_cast<int>(sections), view.chosen);
  for (std::size_t each = 0; each < top_sections; ++each) {
    if (is_left_out(each)) {
      continue;
    }
    if (airy || view.rows == 0) {
      lines.emplace_back(view.columns);
    }
    lines.push_back(section_heading(static_cast<top_section>(each), all[each], rows[each], view));
    const auto shown = all[each].rows.begin() + rows[each];
    lines.insert(lines.end(), std::make_move_iterator(all[each].rows.begin()), std::make_move_iterator(shown));
  }
}

}  // namespace

std::vector<top_line> lay_out(const std::optional<top_figures>& figures, const top_view& view) {
  std::vector<top_line> lines;
  if (!figures) {
    lines = before_the_first_answer(view);
  } else {
    add_head(lines, *figures, view);
  }
  if (view.help) {
    add_help(lines, view);
  } else if (figures) {
    add_sections(lines, *figures, view);
  }
  if (view.rows > 0) {
    lines.resize(static_cast<std::size_t>(view.rows - 1), top_line(view.columns));
    lines.push_back(keys_line(figures, view));
  }
  return lines;
}

std::array<int, top_sections> share_rows(const std::array<int, top_sections>& wanted, int room, top_section chosen) {
  std::array<int, top_sections> given{};
  const auto give = [&](std::size_t section, int most) {
    const int more = std::clamp(std::min(wanted[section] - given[section], most), 0, std::max(room, 0));
    given[section] += more;
    room -= more;
    return more > 0;
  };
  for (std::size_t each = 0; each < top_sections; ++each) {
    give(each, 1);
  }
  give(static_cast<std::size_t>(chosen), room);
  for (bool any = true; any;) {
    any = false;
    for (std::size_t each = 0; each < top_sections; ++each) {
      any = give(each, 1) || any;
    }
  }
  return given;
}

std::string uptime_text(double seconds) {
  const auto whole = static_cast<long long>(std::max(seconds, 0.0));
  std::array<char, 48> text{};
  const auto print = [&](const char* format, long long large, long long small) {
    std::snprintf(text.data(), text.size(), format, large, small);
    return std::string(text.data());
  };
  if (whole >= 86400) {
    return print("%lldd %02lldh", whole / 86400, whole % 86400 / 3600);
  }
  if (whole >= 3600) {
    return print("%lldh %02lldm", whole / 3600, whole % 3600 / 60);
  }
  return whole >= 60 ? print("%lldm %02llds", whole / 60, whole % 60) : std::to_string(whole) + " s";
}

std::string short_count(double count) {
  constexpr std::array<std::string_view, 5> units{"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (std::abs(count) >= 999.5 && unit + 1 < units.size()) {
    count /= 1000;
    ++unit;
  }
  const bool whole = unit == 0 && count == std::floor(count);
  const int decimals = whole || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, count);
  return text.data() + std::string(units[unit]);
}

namespace {

constexpr int bar_cells = 10;
// Start of the columns behind the names.
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

top_line shard_row(const shard_figures& shard, const top_view& view) {
  const bool good = shard.state == "ready";
  top_line line(view.columns);
  line.right(std::to_string(shard.number), 3)
      .add(" ")
      .left(shard.state, shard_names - 4, good ? text_role::good : text_role::warning);
  if (!shard.device_error.empty()) {
    return line.add(" the device has failed: " + shard.device_error, text_role::bad);
  }
  if (shard.state == "missing") {
    return line.add(" did not answer the daemon within 2 s", text_role::bad);
  }
  line.right(short_count(shard.results_per_s), 10).right(std::to_string(shard.in_flight), 10).add(" ");
  line.bar(part_of(shard.slots_taken, shard.slots), bar_cells, view.glyphs, text_role::compute);
  line.add(" ").left(of_text(shard.slots_taken, shard.slots), 7).right(of_text(shard.sessions, shard.most_sessions), 9);
  return line.right(std::to_string(shard.clients), 8).right(time_text(shard.since_completion_s * 1e6), 12);
}

top_line stream_columns(const top_view& view) {
  top_line line(view.columns - stream_names);
  line.add(" part of the time in ").add("copy in", text_role::copy_in).add(", ");
  return line.add("compute", text_role::compute).add(", ").add("copy out", text_role::copy_out);
}

void add_stream(top_line& line, const stream_figures& figures, int width, bool one_shard, const top_view& view) {
  constexpr int label = 6;
  constexpr int number = 5;
  const int cells = std::clamp((width - label - 3 * number - 3) / 3, 2, 40);
  const std::string stream = std::to_string(figures.stream);
  line.right(one_shard ? stream : std::to_string(figures.shard) + "." + stream, label - 1).add(" ");
  if (!figures.known) {
    line.left("not timed", width - label, text_role::faint);
    return;
  }
  const auto show = [&](double part, text_role role) {
    line.bar(part, cells, view.glyphs, role).right(percent(part), number).add(" ");
  };
  show(figures.copy_in, text_role::copy_in);
  show(figures.compute, text_role::compute);
  show(figures.copy_out, text_role::copy_out);
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

top_line pipeline_row(const pipeline_figures& pipeline, int names, const top_view& view) {
  const bool ascii = view.glyphs == bar_glyphs::ascii;
  top_line line(view.columns);
  line.add("  ").left(shown_name(pipeline.name, ascii), names - 3, text_role::strong).add(" ");
  line.right(short_count(pipeline.results_per_s), 10).right(short_count(pipeline.frames_per_s), 9);
  line.right(pipeline.frames_per_batch ? short_count(std::round(*pipeline.frames_per_batch * 10) / 10) : "-", 7);
  line.left(pipeline.close_reason.empty() ? "  -" : "  " + pipeline.close_reason + " " + percent(pipeline.close_share),
            11);
  line.right(time_text(pipeline.p50_us), 8).right(time_text(pipeline.p99_us), 8);
  line.right(short_count(pipeline.errors_per_s), 9, role_of_trouble(pipeline.errors_per_s));
  return view.columns >= wide ? line.right(std::to_string(pipeline.in_flight), 11) : line;
}

top_line client_columns(int names, const top_view& view) {
  top_line line(view.columns - names);
  line.left("in flight / credits", bar_cells + 12).right("bytes", 9).right("results/s", 11);
  return line.right("dropped", 10).right("shard", 7);
}

top_line client_row(const client_figures& client, int names, const top_view& view) {
  const bool ascii = view.glyphs == bar_glyphs::ascii;
  top_line line(view.columns);
  line.add("  ").left(shown_name(client.name, ascii), names - 3, text_role::strong).add(" ");
  line.bar(client.held, bar_cells, view.glyphs, client.held > 0.95 ? text_role::warning : text_role::compute);
  line.add(" ")
      .left(of_text(client.requests, client.credits), 11)
      .right(bytes_text(static_cast<double>(client.bytes)), 9);
  line.right(short_count(client.results_per_s), 11);
  line.right(short_count(static_cast<double>(client.dropped)), 10, role_of_trouble(client.dropped_per_s));
  return line.right(std::to_string(client.shard), 7);
}

top_line source_columns(int names, const top_view& view) {
  top_line line(view.columns - names);
  line.left("queue", bar_cells + 1).left("state", 8).right("samples/s", 10).right("lost", 7);
  return line.right("overrun", 8).right("late", 7).right("epochs", 7);
}

top_line source_row(const source_figures& source, int names, const top_view& view) {
  const bool ascii = view.glyphs == bar_glyphs::ascii;
  top_line line(view.columns);
  line.add("  ").left(shown_name(source.name, ascii), names - 3, text_role::strong).add(" ");
  line.bar(source.queued, bar_cells, view.glyphs, source.queued > 0.95 ? text_role::warning : text_role::compute);
  const bool good = source.state == "running" || source.state == "ended";
  line.add(" ").left(source.state, 8, good ? text_role::good : text_role::warning);
  if (!source.trouble.empty()) {
    return line.add(shown_name(source.trouble, ascii), text_role::bad);
  }
  line.right(short_count(source.delivered_per_s), 10);
  line.right(short_count(static_cast<double>(source.lost)), 7, role_of_trouble(source.lost_per_s));
  line.right(short_count(static_cast<double>(source.overrun)), 8, role_of_trouble(source.lost_per_s));
  return line.right(short_count(static_cast<double>(source.late)), 7).right(std::to_string(source.epochs), 7);
}

top_line sink_columns(int names, const top_view& view) {
  top_line line(view.columns - names);
  line.left("queue", bar_cells + 1).left("state", 8).right("results/s", 10).right("bytes/s", 10);
  return line.right("dropped", 8).right("pauses", 7);
}

top_line sink_row(const sink_figures& sink, int names, const top_view& view) {
  const bool ascii = view.glyphs == bar_glyphs::ascii;
  top_line line(view.columns);
  line.add("  ").left(shown_name(sink.name, ascii), names - 3, text_role::strong).add(" ");
  line.bar(sink.queued, bar_cells, view.glyphs, sink.queued > 0.95 ? text_role::warning : text_role::compute);
  line.add(" ").left(sink.state, 8, sink.state == "running" ? text_role::good : text_role::warning);
  if (!sink.trouble.empty()) {
    return line.add(shown_name(sink.trouble, ascii), text_role::bad);
  }
  line.right(short_count(sink.delivered_per_s), 10).right(bytes_text(sink.bytes_per_s), 10);
  line.right(short_count(static_cast<double>(sink.dropped)), 8, role_of_trouble(sink.dropped_per_s));
  return line.right(std::to_string(sink.pauses), 7);
}

template <class Figures>
int names_width(const std::vector<Figures>& figures, int least, const top_view& view) {
  int longest = 0;
  for (const Figures& each : figures) {
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
  const int source_names = names_width(figures.sources, least_client_names, view);
  section_lines sources{.columns = source_columns(source_names, view), .items = figures.sources.size(), .rows = {}};
  for (const source_figures& each : figures.sources) {
    sources.rows.push_back(source_row(each, source_names, view));
  }
  const int sink_names = names_width(figures.sinks, least_client_names, view);
  section_lines sinks{.columns = sink_columns(sink_names, view), .items = figures.sinks.size(), .rows = {}};
  for (const sink_figures& each : figures.sinks) {
    sinks.rows.push_back(sink_row(each, sink_names, view));
  }
  return {std::move(shards),    stream_section(figures, view),
          std::move(pipelines), std::move(clients),
          std::move(sources),   std::move(sinks)};
}

top_line section_heading(top_section section, const section_lines& lines, int rows, const top_view& view) {
  constexpr std::array<std::string_view, top_sections> names{"SHARDS",  "STREAMS", "PIPELINES",
                                                             "CLIENTS", "SOURCES", "SINKS"};
  const auto index = static_cast<std::size_t>(section);
  const std::size_t shown = std::min(static_cast<std::size_t>(std::max(rows, 0)) * lines.per_row, lines.items);
  std::string name = std::to_string(index + 1) + " " + std::string(names[index]);
  if (shown < lines.items) {
    name += " " + std::to_string(shown) + "/" + std::to_string(lines.items);
  }
  const text_role role = section == view.chosen && view.rows > 0 ? text_role::chosen : text_role::heading;
  top_line line(view.columns);
  line.left(name, view.columns - lines.columns.room(), role);
  for (const text_piece& each : lines.columns.pieces()) {
    line.add(each.text, each.role == text_role::plain ? text_role::faint : each.role);
  }
  return line;
}

}  // namespace penstock::cli
