#include "tests/bench/overlap/timeline_drawing.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

constexpr double left = 90;
constexpr double width = 800;
constexpr double top = 40;
constexpr double row_height = 28;
constexpr double bar_height = 20;

struct colour {
  const char* what;
  const char* fill;
};
constexpr colour colours[] = {{"copy in", "#4477aa"}, {"compute", "#ddaa33"}, {"copy out", "#228833"}};

const char* fill_of(const std::string& what) {
  for (const colour& each : colours) {
    if (what == each.what) {
      return each.fill;
    }
  }
  return "#777777";
}

// 1, 2 or 5 times a power of ten, so that there are about six marks.
double step_of(double length) {
  const double rough = std::max(length, 1e-3) / 6;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      return factor * power;
    }
  }
  return 10 * power;
}

std::string legend() {
  std::string text;
  double x = left;
  for (const colour& each : colours) {
    text += fmt::format("<rect x=\"{:.0f}\" y=\"10\" width=\"14\" height=\"14\" fill=\"{}\"/>", x, each.fill);
    text += fmt::format("<text x=\"{:.0f}\" y=\"22\">{}</text>\n", x + 20, each.what);
    x += 110;
  }
  return text;
}

std::string axis(double length, double bottom) {
  std::string text;
  const double step = step_of(length);
  for (int mark = 0; mark * step <= length; ++mark) {
    const double x = left + mark * step / length * width;
    text += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.0f}\" x2=\"{0:.1f}\" y2=\"{2:.0f}\" stroke=\"#cccccc\"/>", x,
                        top, bottom);
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{:g} µs</text>\n", x, bottom + 16,
                        mark * step);
  }
  return text;
}

}  // namespace

std::string draw_timeline(const ordered_json& bars) {
  std::map<int, int> rows;  // by stream
  double length = 0;
  for (const ordered_json& each : bars) {
    rows.emplace(each.at("stream").get<int>(), 0);
    length = std::max(length, each.at("end_us").get<double>());
  }
  length = length > 0 ? length : 1;
  int next = 0;
  const double bottom = top + row_height * static_cast<double>(rows.size());
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      left + width + 40, bottom + 30);
  text += legend() + axis(length, bottom);
  for (auto& [stream, row] : rows) {
    row = next++;
    text += fmt::format("<text x=\"10\" y=\"{:.0f}\">stream {}</text>\n", top + row_height * row + 18, stream);
  }
  for (const ordered_json& each : bars) {
    const auto what = each.at("what").get<std::string>();
    const double begin = each.at("begin_us").get<double>();
    const double end = each.at("end_us").get<double>();
    text += fmt::format(
        "<rect class=\"bar\" x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\">"
        "<title>{}: {:.1f} to {:.1f} µs</title></rect>\n",
        left + begin / length * width, top + row_height * rows.at(each.at("stream").get<int>()) + 4,
        (end - begin) / length * width, bar_height, fill_of(what), what, begin, end);
  }
  return text + "</svg>\n";
}

}  // namespace penstock::bench
