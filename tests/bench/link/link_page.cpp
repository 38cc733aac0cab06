#include "tests/bench/link/link_page.hpp"

#include <utility>

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::pair<const char*, const char*> directions[] = {{"in", "Host to device"},
                                                              {"out", "Device to host"},
                                                              {"both", "Both at once, each way"},
                                                              {"fill", "One processor's memcpy into that memory"}};

// Results from before a direction was measured have none of it.
bool has(const ordered_json& result, const char* direction) {
  return result.at("rows").front().at("ways").front().contains(direction);
}

// A row for each size, a column for each way.
std::string copies_table(const ordered_json& rows, const char* direction) {
  std::string head = "| copy |";
  std::string rule = "|---|";
  for (const auto& [name, unused] : rows.front().at("ways").items()) {
    head += " " + name + " |";
    rule += "---|";
  }
  std::string text = head + "\n" + rule + "\n";
  for (const ordered_json& row : rows) {
    text += "| " + bytes_text(row.at("bytes").get<std::size_t>()) + " |";
    for (const ordered_json& way : row.at("ways")) {
      text += " " + spread_text(way.at(direction), 1, 1) + " |";
    }
    text += "\n";
  }
  return text;
}

// A row for each way, a column for each group of pieces.
std::string pieces_table(const ordered_json& groups, const char* direction) {
  std::string head = "| |";
  std::string rule = "|---|";
  for (const ordered_json& group : groups) {
    head += fmt::format(" {} × {} |", group.at("pieces").get<int>(),
                        bytes_text(group.at("piece_bytes").get<std::size_t>()));
    rule += "---|";
  }
  std::string text = head + "\n" + rule + "\n";
  for (const auto& [name, unused] : groups.front().at(direction).items()) {
    text += "| " + name + " |";
    for (const ordered_json& group : groups) {
      const ordered_json& group_us = group.at(direction).at(name);
      const double bytes = group.at("pieces").get<double>() * group.at("piece_bytes").get<double>();
      text += fmt::format(" {}, {:.1f} GB/s |", spread_text(group_us, 1, 1),
                          bytes * 1e-3 / median_of(group.at(direction), name.c_str()));
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string link_tables(const ordered_json& result) {
  std::string text =
      "Bare CUDA on non-blocking streams: copies of one size back to back through host memory of one kind, in GB/s; "
      "and a kernel whose threads read or write mapped memory in its place.\n\n" +
      facts_line(result);
  for (const auto& [key, title] : directions) {
    if (has(result, key)) {
      text += fmt::format("{}, GB/s:\n\n", title) + copies_table(result.at("rows"), key) + "\n";
    }
  }
  text +=
      fmt::format("`cudaHostRegister` of {} of a sealed memfd took {:.1f} ms",
                  bytes_text(result.at("register_bytes").get<std::size_t>()), result.at("register_ms").get<double>());
  if (result.contains("register_huge_ms")) {
    text += fmt::format(", of huge pages {:.1f} ms", result.at("register_huge_ms").get<double>());
  }
  text +=
      ".\n\n"
      "Small pieces, spread over a registered memfd, that become one area on the device; µs a group, back to back:\n\n";
  text += pieces_table(result.at("pieces"), "in");
  text += "\nAnd from there to their places:\n\n" + pieces_table(result.at("pieces"), "out");
  return text;
}

std::vector<chart> link_charts(const ordered_json& result) {
  std::vector<chart> charts;
  const ordered_json& rows = result.at("rows");
  for (const auto& [key, title] : directions) {
    if (!has(result, key)) {
      continue;
    }
    chart made{title, "copy, bytes", "GB/s", true, false, {}};
    for (const auto& [name, unused] : rows.front().at("ways").items()) {
      made.lines.push_back(line_of(name, rows, "bytes", "/ways/" + name + "/" + key));
    }
    charts.push_back(made);
  }
  return charts;
}

}  // namespace penstock::bench
