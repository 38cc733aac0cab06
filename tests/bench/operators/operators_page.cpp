#include "tests/bench/operators/operators_page.hpp"

#include <algorithm>
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

constexpr comparison comparisons[] = {{"of_numpy", "times numpy, scipy", "Speed beside numpy and scipy"},
                                      {"of_cufft", "of bare cuFFT", "Speed beside bare cuFFT"},
                                      {"of_copy", "of a copy", "Speed beside a copy of as many bytes"}};

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

std::string row_text(const ordered_json& row, int number, const ordered_json& rows) {
  std::string text = fmt::format("| {} | {} | {} | {} |", number, row.at("name").get<std::string>(), shape_text(row),
                                 spread_text(row.at("bytes_per_second"), 1e-9, 2));
  for (const comparison& each : comparisons) {
    if (any_has(rows, each.key)) {
      text += row.contains(each.key) ? " " + spread_text(row.at(each.key)) + " |" : " |";
    }
  }
  return text + (row.contains("numpy_way") ? " " + row.at("numpy_way").get<std::string>() + " |\n" : "\n");
}

}  // namespace

std::string operators_tables(const ordered_json& result) {
  const ordered_json& rows = result.at("rows");
  const std::vector<int> numbers = numbers_of(rows);
  std::string text = facts_line(result);
  text +=
      "Each operator alone, by the device's own clock, on batches of frames × samples. Bytes are those that it reads "
      "and writes; a copy moves as many, half of them read and half written, on the same device.";
  std::string head = "| | operator | batch | GB/s |";
  std::string rule = "|---|---|---|---|";
  for (const comparison& each : comparisons) {
    if (any_has(rows, each.key)) {
      head += fmt::format(" {} |", each.column);
      rule += "---|";
    }
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
        chart_line& line = line_named(drawn, shape_text(rows[at]));
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
