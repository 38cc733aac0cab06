#include "client/cli/top_layout.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "client/cli/quantity.hpp"
#include "client/cli/top_section.hpp"

namespace penstock::cli {
namespace {

std::string_view state_name(const top_figures& of) {
  return of.state.empty() ? std::string_view{"?"} : std::string_view{of.state};
}

text_role state_role(std::string_view state) {
  return state == "ready" ? text_role::good : state == "missing" ? text_role::bad : text_role::warning;
}

/// What all pipelines do; without the frames, which stand below as well, where there is no room for them.
top_line total_line(const top_figures& of, const top_view& view) {
  const std::string results = short_count(of.results_per_s) + " results/s  ";
  const std::string frames = short_count(of.frames_per_s) + " frames/s  ";
  const std::string bytes =
      "in " + bytes_text(of.bytes_in_per_s) + "/s  out " + bytes_text(of.bytes_out_per_s) + "/s  ";
  const std::string errors =
      "errors " + short_count(of.errors_per_s) + "/s  refused " + short_count(of.refused_per_s) + "/s";
  const int cells = cells_of(results) + cells_of(frames) + cells_of(bytes) + cells_of(errors);
  const bool clean = of.errors_per_s == 0 && of.refused_per_s == 0;
  top_line line(view.columns);
  line.add(results, text_role::strong).add(cells <= view.columns ? frames : "", text_role::strong);
  return line.add(bytes).add(errors, clean ? text_role::plain : text_role::bad);
}

void add_head(std::vector<top_line>& to, const top_figures& of, const top_view& view) {
  to.emplace_back(view.columns)
      .add(of.server, text_role::strong)
      .add(" at " + view.where + "  ")
      .add(state_name(of), state_role(of.state))
      .add("  up " + uptime_text(of.uptime_s) + "  configuration " + std::to_string(of.configuration) + " ")
      .add(of.hash.substr(0, 8), text_role::faint);
  if (!view.trouble.empty()) {
    to.emplace_back(view.columns).add("NO ANSWER, trying again: " + view.trouble, text_role::bad);
  } else {
    to.emplace_back(view.columns).add(of.device, text_role::faint);
  }
  to.push_back(total_line(of, view));
}

std::vector<top_line> before_the_first_answer(const top_view& view) {
  std::vector<top_line> lines;
  lines.emplace_back(view.columns).add("penstock top", text_role::strong).add(" at " + view.where);
  if (view.trouble.empty()) {
    lines.emplace_back(view.columns).add("asking ...", text_role::faint);
  } else {
    lines.emplace_back(view.columns).add("NO ANSWER, trying again: " + view.trouble, text_role::bad);
  }
  return lines;
}

void add_help(std::vector<top_line>& to, const top_view& view) {
  constexpr std::array<std::string_view, 14> text{
      "",
      "q        quit",
      "s        sort pipelines and clients: busiest, by name, most trouble first",
      "p        pause; the figures stay as they are until p is pressed again",
      "tab 1-4  the section that gets the room: shards, streams, pipelines, clients",
      "h        this page, and back",
      "",
      "Rates, shares and quantiles are those of the time between two answers.",
      "streams    how much of the time each was copying in, computing, copying out",
      "batch      frames to a batch; closed by: what closed most of them",
      "p50 p99    from a request's being received to its result, up to 6 % too much",
      "in flight  of the requests that a client may have in flight",
      "dropped    results that a client which reads too slowly has lost",
      "last batch how long ago a batch was done: long beside work in flight is trouble"};
  for (const std::string_view line : text) {
    to.emplace_back(view.columns).add(line);
  }
}

std::string interval_text(const std::optional<top_figures>& of) {
  if (!of) {
    return "";
  }
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "over the last %.1f s", of->interval_s);
  return of->interval_s > 0 ? text.data() : of->restarted ? "restarted: since the start" : "since the start";
}

top_line keys_line(const std::optional<top_figures>& figures, const top_view& view) {
  constexpr std::array<std::string_view, 3> orders{"busy", "name", "trouble"};
  top_line line(view.columns);
  line.add("q quit  s sort: ", text_role::faint).add(orders[static_cast<std::size_t>(view.order)]);
  line.add("  p ", text_role::faint)
      .add(view.paused ? "PAUSED" : "pause", view.paused ? text_role::warning : text_role::faint);
  return line.add("  1-4 room  h help", text_role::faint).at_end(interval_text(figures), text_role::faint);
}

void add_sections(std::vector<top_line>& to, const top_figures& figures, const top_view& view) {
  std::array<section_lines, top_sections> all = lay_out_sections(figures, view);
  std::array<int, top_sections> wanted{};
  int total = 0;
  for (std::size_t each = 0; each < top_sections; ++each) {
    wanted[each] = static_cast<int>(all[each].rows.size());
    total += wanted[each] + 1;
  }
  const int room = view.rows == 0 ? total : view.rows - static_cast<int>(to.size()) - 1;
  const bool airy = room >= total + static_cast<int>(top_sections);
  const auto rows = share_rows(wanted, room - static_cast<int>(top_sections), view.chosen);
  for (std::size_t each = 0; each < top_sections; ++each) {
    if (airy || view.rows == 0) {
      to.emplace_back(view.columns);
    }
    to.push_back(section_heading(static_cast<top_section>(each), all[each], rows[each], view));
    const auto shown = all[each].rows.begin() + rows[each];
    to.insert(to.end(), std::make_move_iterator(all[each].rows.begin()), std::make_move_iterator(shown));
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

}  // namespace penstock::cli
