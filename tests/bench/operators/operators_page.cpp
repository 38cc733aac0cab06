#include "tests/bench/operators/operators_page.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "tests/bench/lowest_row.hpp"
#include "tests/bench/page_text.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

/// The other side of a comparison: its key in a row, and what it is called.
struct comparison {
  const char* key;
  const char* column;
  const char* title;
};

constexpr comparison comparisons[] = {
    {"of_numpy", "times numpy, scipy", "Speed beside numpy and scipy"},
    {"of_cublas", "of bare cuBLAS", "Speed beside bare cuBLAS"},
    {"of_cufft", "of bare cuFFT", "Speed beside bare cuFFT"},
    {"of_cufft_passes", "of cuFFT between passes", "Speed beside cuFFT between two passes"},
    {"of_copy", "of a copy", "Speed beside a copy of as many bytes"},
    {"of_memory", "of the memory's bandwidth", "Share of the memory's bandwidth"}};

bool any_has(const ordered_json& rows, const char* key) {
  for (const ordered_json& row : rows) {
    if (row.contains(key)) {
      return true;
    }
  }
  return false;
}

std::string shape_text(const ordered_json& row) {
  const auto samples = row.at("samples").get<std::int64_t>();
  const std::string length =
      samples % (1 << 20) == 0 ? fmt::format("{} Mi", samples >> 20) : fmt::format("{}", samples);
  return fmt::format("{} × {}", row.at("frames").get<std::int64_t>(), length);
}

/// What a line of a chart is called: batches beyond the cache have a shape each, and one line.
std::string line_text(const ordered_json& row) {
  return row.contains("of_memory") ? "beyond the cache" : shape_text(row);
}

/// Rows of one operator and one way have one number, whatever their shape.
std::vector<int> numbers_of(const ordered_json& rows) {
  std::vector<int> numbers;
  std::string last;
  int number = 0;
  for (const ordered_json& row : rows) {
    const auto name = row.at("name").get<std::string>();
    number += name == last ? 0 : 1;
    last = name;
    numbers.push_back(number);
  }
  return numbers;
}

chart_line& line_named(chart& of, const std::string& name) {
  for (chart_line& each : of.lines) {
    if (each.name == name) {
      return each;
    }
  }
  return of.lines.emplace_back(chart_line{.name = name, .x = {}, .y = {}, .least = {}, .most = {}});
}

/// The calls beside a row, and those that came to nothing.
std::string calls_text(const ordered_json& row) {
  std::string text;
  const auto add = [&](const std::string& call) { text += (text.empty() ? "" : "; ") + call; };
  if (row.contains("called")) {
    for (const ordered_json& call : row.at("called")) {
      add(call.get<std::string>());
    }
  }
  if (row.contains("not_measured")) {
    for (const ordered_json& why : row.at("not_measured")) {
      add("not measured: " + why.get<std::string>());
    }
  }
  return text;
}

bool any_calls(const ordered_json& rows) {
  return any_has(rows, "called") || any_has(rows, "not_measured");
}

std::string row_text(const ordered_json& row, int number, const ordered_json& rows) {
  std::string text = fmt::format("| {} | {} | {} | {} |", number, row.at("name").get<std::string>(), shape_text(row),
                                 spread_text(row.at("bytes_per_second"), 1e-9, 2));
  if (any_has(rows, "seconds")) {
    text += row.contains("seconds") ? " " + spread_text(row.at("seconds"), 1e6, 1) + " |" : " |";
  }
  for (const comparison& each : comparisons) {
    if (any_has(rows, each.key)) {
      text += row.contains(each.key) ? " " + spread_text(row.at(each.key)) + " |" : " |";
    }
  }
  if (any_calls(rows)) {
    const std::string calls = calls_text(row);
    text += calls.empty() ? " |" : " " + calls + " |";
  }
  return text + (row.contains("numpy_way") ? " " + row.at("numpy_way").get<std::string>() + " |\n" : "\n");
}

std::string version_text(const ordered_json& result, const char* key, const char* name) {
  const int version = result.value(key, 0);
  return version != 0 ? fmt::format("{} {}", name, version)
                      : fmt::format("{} was not found, so nothing is measured beside it", name);
}

/// What the columns of a GPU need to be read; of runs that have them.
std::string gpu_text(const ordered_json& result) {
  const ordered_json& rows = result.at("rows");
  std::string text;
  if (result.contains("launch_seconds")) {
    text += fmt::format(" A launch that does nothing takes {} by the same clock: no step of an operator takes less.",
                        figure_text(result.at("launch_seconds"), "µs", 1e6, 1));
  }
  if (any_has(rows, "of_memory")) {
    const auto cache = result.value("cache_bytes", std::size_t{0});
    text += fmt::format(
        " The largest batches of some operators are far beyond the second-level cache{}: a copy of these goes at the "
        "memory's bandwidth, one of the others at the cache's, or takes no longer than its launch.",
        cache != 0 ? " of " + bytes_text(cache) : "");
  }
  if (result.contains("cublas_version")) {
    text += fmt::format(
        " Libraries are called bare, on the same data, in turn with the operator, and only where their results agree "
        "with its own: {}; {}. What is called stands in the last column.",
        version_text(result, "cublas_version", "cuBLAS"), version_text(result, "cufft_version", "cuFFT"));
  }
  if (any_has(rows, "of_cufft_passes")) {
    text +=
        " A power spectrum goes over the memory before its transform, to weigh the samples, and behind it, to make "
        "powers of bins. Of a cf32 sample cuFFT alone reads 8 bytes and writes 8; these passes read and write 28 more, "
        "16 of them before it. \"Between passes\" is cuFFT with one plain pass before and one behind it, each over the "
        "whole batch: what is lost there is the operator's own. Where a batch takes no longer than its launches, three "
        "steps beside one are a third.";
  }
  return text;
}

}  // namespace

std::string operators_tables(const ordered_json& result) {
  const ordered_json& rows = result.at("rows");
  const std::vector<int> numbers = numbers_of(rows);
  std::string text = facts_line(result);
  text +=
      "Each operator alone, by the device's own clock, on batches of frames × samples. Bytes are those of its "
      "inputs and outputs, without what sessions keep; a copy moves as many, half of them read and half written, on "
      "the same device.";
  text += gpu_text(result);
  std::string head = "| | operator | batch | GB/s |";
  std::string rule = "|---|---|---|---|";
  if (any_has(rows, "seconds")) {
    head += " µs |";
    rule += "---|";
  }
  for (const comparison& each : comparisons) {
    if (any_has(rows, each.key)) {
      head += fmt::format(" {} |", each.column);
      rule += "---|";
    }
  }
  if (any_calls(rows)) {
    head += " called bare |";
    rule += "---|";
  }
  if (any_has(rows, "of_numpy")) {
    text +=
        " One thread, and so has numpy: it does the same work on the same data by the way named last, the fastest "
        "of the usual ones.";
    head += " their way |";
    rule += "---|";
  }
  text += "\n\n" + head + "\n" + rule + "\n";
  for (std::size_t at = 0; at < rows.size(); ++at) {
    text += row_text(rows[at], numbers[at], rows);
  }
  return text;
}

std::vector<chart> operators_charts(const ordered_json& result) {
  const ordered_json& rows = result.at("rows");
  const std::vector<int> numbers = numbers_of(rows);
  std::vector<chart> made;
  for (const comparison& each : comparisons) {
    if (!any_has(rows, each.key)) {
      continue;
    }
    chart drawn{.title = each.title,
                .x_label = "operator, by its number in the table",
                .y_label = each.column,
                .log_x = false,
                .log_y = true,
                .lines = {}};
    for (std::size_t at = 0; at < rows.size(); ++at) {
      if (rows[at].contains(each.key)) {
        const spread value = spread_from(rows[at].at(each.key));
        chart_line& line = line_named(drawn, line_text(rows[at]));
        line.x.push_back(numbers[at]);
        line.y.push_back(value.median);
        line.least.push_back(value.least);
        line.most.push_back(value.most);
      }
    }
    made.push_back(std::move(drawn));
  }
  return made;
}

std::vector<aim> operators_aims(const ordered_json& result) {
  std::vector<double> speeds;
  lowest_row lowest;
  for (const ordered_json& row : result.at("rows")) {
    if (row.contains("of_numpy")) {
      speeds.push_back(median_of(row, "of_numpy"));
      lowest.take(speeds.back(), fmt::format("{}, {}, {}", figure_text(row.at("of_numpy"), "times", 1, 2),
                                             row.at("name").get<std::string>(), shape_text(row)));
    }
  }
  if (speeds.empty()) {
    return {};
  }
  const auto good = std::count_if(speeds.begin(), speeds.end(), [](double speed) { return speed >= 1; });
  const spread all = spread_of(speeds);
  return {{"host operators, beside numpy and scipy on one core", "≥ 1 times",
           fmt::format("{}; at most {:.1f} times; {} of {} rows", lowest.text, all.most, good, speeds.size()),
           lowest.ratio >= 1}};
}

}  // namespace penstock::bench
