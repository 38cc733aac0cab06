#include "tests/bench/chart.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "tests/bench/chart_axis.hpp"

namespace penstock::bench {
namespace {

// Of a panel, in units of the drawing.
constexpr double top = 62;
constexpr double left = 54;
constexpr double right = 24;
constexpr double plot_height = 220;
constexpr double panel_height = top + plot_height + 58;
constexpr double legend_row = 22;
constexpr double margin = 16;
constexpr double swatch = 26;

constexpr std::size_t colours = 8;

// Where a stylesheet's media query is not understood, the drawing is light, on a background of its own.
constexpr const char* style =
    "<style>\n"
    "text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#3d444d}\n"
    ".title{font-weight:600;font-size:14px;fill:#1f2328}\n"
    ".muted{fill:#636c76}\n"
    ".page{fill:#ffffff;stroke:#d8dee4}\n"
    ".grid{stroke:#e4e8ec;stroke-width:1}\n"
    ".edge{stroke:#8c959f;stroke-width:1}\n"
    ".c0{color:#2f6db5}.c1{color:#d1495b}.c2{color:#2a8f4f}.c3{color:#c4860c}\n"
    ".c4{color:#7b4fb0}.c5{color:#0e8fa0}.c6{color:#b5488f}.c7{color:#6b6f76}\n"
    ".line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n"
    ".band{fill:currentColor;fill-opacity:0.16;stroke:none}\n"
    ".bar{stroke:currentColor;stroke-width:2;stroke-opacity:0.5}\n"
    ".point{fill:currentColor;stroke:none}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#c3cad2}.title{fill:#f0f3f6}.muted{fill:#9198a1}\n"
    ".page{fill:#0d1117;stroke:#30363d}.grid{stroke:#21262d}.edge{stroke:#6e7681}\n"
    ".c0{color:#6aa8f0}.c1{color:#f27d8c}.c2{color:#5cc98a}.c3{color:#eab64d}\n"
    ".c4{color:#b893ef}.c5{color:#4cc9d8}.c6{color:#e58bc5}.c7{color:#a9adb4}\n"
    ".band{fill-opacity:0.24}\n"
    "}\n"
    "</style>\n";

std::string escaped(const std::string& text) {
  std::string made;
  for (const char each : text) {
    made += each == '&'   ? "&amp;"
            : each == '<' ? "&lt;"
            : each == '>' ? "&gt;"
            : each == '"' ? "&quot;"
                          : std::string(1, each);
  }
  return made;
}

// About how wide a text is: characters, not bytes.
double width_of(const std::string& text) {
  return 6.7 * static_cast<double>(std::count_if(text.begin(), text.end(), [](char each) {
           return (static_cast<unsigned char>(each) & 0xC0U) != 0x80U;
         }));
}

bool ends_in_bytes(const std::string& label) {
  return label.size() >= 5 && label.compare(label.size() - 5, 5, "bytes") == 0;
}

void require_equal_lengths(const chart_line& line) {
  const std::size_t points = line.x.size();
  const bool spread = !line.least.empty() || !line.most.empty();
  if (line.y.size() != points || (spread && (line.least.size() != points || line.most.size() != points))) {
    throw std::invalid_argument("the line \"" + line.name + "\" has unequal lengths");
  }
}

/// The place of a line's name among all names: it chooses colour, shape and dashes, in every panel the same.
std::size_t place_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::string shape(std::size_t place, double x, double y, const std::string& inside) {
  switch (place % 4) {
    case 0:
      return fmt::format("<circle class=\"point\" cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3.5\">{}</circle>\n", x, y, inside);
    case 1:
      return fmt::format("<rect class=\"point\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"6.4\" height=\"6.4\">{}</rect>\n",
                         x - 3.2, y - 3.2, inside);
    case 2:
      return fmt::format("<path class=\"point\" d=\"M{:.2f} {:.2f}l4 7h-8z\">{}</path>\n", x, y - 4.4, inside);
    default:
      return fmt::format("<path class=\"point\" d=\"M{:.2f} {:.2f}l4.4 4.4l-4.4 4.4l-4.4 -4.4z\">{}</path>\n", x,
                         y - 4.4, inside);
  }
}

std::string dashes(std::size_t place) {
  return place < colours ? "" : place < 2 * colours ? " stroke-dasharray=\"6 4\"" : " stroke-dasharray=\"2 4\"";
}

class panel {
 public:
  panel(const chart& of, double x, double y, double width)
      : of_(of),
        x_(values(of, [](const chart_line& line) { return std::vector{&line.x}; }),
           {of.log_x, ends_in_bytes(of.x_label), false}),
        y_(values(of,
                  [](const chart_line& line) {
                    return std::vector{&line.y, &line.least, &line.most};
                  }),
           {of.log_y, ends_in_bytes(of.y_label), true}),
        left_(x + left),
        top_(y + top),
        width_(width - left - right) {}

  [[nodiscard]] std::string draw(const std::vector<std::string>& names) const {
    std::string text = frame();
    for (const chart_line& each : of_.lines) {
      text += draw_line(each, place_of(names, each.name));
    }
    return text;
  }

 private:
  template <typename Of>
  static std::vector<double> values(const chart& of, Of parts) {
    std::vector<double> all;
    for (const chart_line& line : of.lines) {
      for (const std::vector<double>* part : parts(line)) {
        all.insert(all.end(), part->begin(), part->end());
      }
    }
    return all;
  }

  [[nodiscard]] double across(double value) const { return left_ + width_ * x_.place(value); }
  [[nodiscard]] double up(double value) const { return top_ + plot_height * (1 - y_.place(value)); }

  [[nodiscard]] std::string frame() const {
    const double bottom = top_ + plot_height;
    std::string text = fmt::format(
        "<text class=\"title\" x=\"{0:.1f}\" y=\"{1:.1f}\">{2}</text>\n"
        "<text class=\"muted\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4}</text>\n"
        "<text class=\"muted\" x=\"{5:.1f}\" y=\"{6:.1f}\" text-anchor=\"middle\">{7}</text>\n",
        left_ - left + margin, top_ - 36, escaped(of_.title), top_ - 15, escaped(of_.y_label), left_ + width_ / 2,
        bottom + 40, escaped(of_.x_label));
    for (const axis_mark& mark : y_.marks()) {
      text += fmt::format(
          "<path class=\"grid\" d=\"M{0:.2f} {1:.2f}h{2:.2f}\"/>"
          "<text class=\"y\" x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
          left_, up(mark.value), width_, left_ - 8, up(mark.value) + 4, mark.text);
    }
    for (const axis_mark& mark : x_.marks()) {
      text += fmt::format(
          "<path class=\"edge\" d=\"M{0:.2f} {1:.2f}v5\"/>"
          "<text class=\"x\" x=\"{0:.2f}\" y=\"{2:.1f}\" text-anchor=\"middle\">{3}</text>\n",
          across(mark.value), bottom, bottom + 20, mark.text);
    }
    return text + fmt::format("<path class=\"edge\" d=\"M{:.2f} {:.2f}h{:.2f}\"/>\n", left_, bottom, width_);
  }

  [[nodiscard]] std::string draw_line(const chart_line& line, std::size_t place) const {
    std::string path;
    std::string points;
    for (std::size_t at = 0; at < line.x.size(); ++at) {
      if (x_.shows(line.x[at]) && y_.shows(line.y[at])) {
        const double x = across(line.x[at]);
        const double y = up(line.y[at]);
        path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? 'M' : 'L', x, y);
        points += shape(place, x, y, fmt::format("<title>{}: {:.4g}</title>", escaped(line.name), line.y[at]));
      }
    }
    if (path.empty()) {
      return "";
    }
    return fmt::format("<g class=\"c{}\">\n{}<path class=\"line\" d=\"{}\"{}/>\n{}</g>\n", place % colours,
                       draw_spread(line), path, dashes(place), points);
  }

  // A band; for a single point, which has no width, a bar.
  [[nodiscard]] std::string draw_spread(const chart_line& line) const {
    std::string there;
    std::string back;
    std::size_t count = 0;
    for (std::size_t at = 0; at < line.least.size(); ++at) {
      if (x_.shows(line.x[at]) && y_.shows(line.y[at]) && y_.shows(line.least[at]) && y_.shows(line.most[at])) {
        const double x = across(line.x[at]);
        there += fmt::format("{}{:.2f} {:.2f}", there.empty() ? 'M' : 'L', x, up(line.least[at]));
        back.insert(0, fmt::format("L{:.2f} {:.2f}", x, up(line.most[at])));
        ++count;
      }
    }
    return count == 0 ? ""
                      : fmt::format("<path class=\"{}\" d=\"{}{}z\"/>\n", count == 1 ? "bar" : "band", there, back);
  }

  const chart& of_;
  chart_axis x_;
  chart_axis y_;
  double left_;
  double top_;
  double width_;
};

/// Every name of every chart, once, in their order.
std::vector<std::string> names_in(const std::vector<chart>& charts) {
  std::vector<std::string> names;
  for (const chart& each : charts) {
    for (const chart_line& line : each.lines) {
      require_equal_lengths(line);
      if (place_of(names, line.name) == names.size()) {
        names.push_back(line.name);
      }
    }
  }
  return names;
}

/// The legend from there down, and its height.
std::pair<std::string, double> legend(const std::vector<std::string>& names, double y, double width) {
  std::string text;
  double x = margin;
  double row = y;
  for (std::size_t place = 0; place < names.size(); ++place) {
    const double needed = swatch + 8 + width_of(names[place]) + 18;
    if (x > margin && x + needed > width) {
      x = margin;
      row += legend_row;
    }
    text += fmt::format("<g class=\"c{}\"><path class=\"line\" d=\"M{:.1f} {:.1f}h{}\"{}/>{}</g>", place % colours, x,
                        row, swatch, dashes(place), shape(place, x + swatch / 2, row, ""));
    text += fmt::format("<text class=\"name\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + swatch + 8, row + 4,
                        escaped(names[place]));
    x += needed;
  }
  return {text, names.empty() ? 0 : row - y + legend_row};
}

}  // namespace

std::string draw_charts(const std::vector<chart>& side_by_side) {
  const std::vector<std::string> names = names_in(side_by_side);
  const std::size_t columns = side_by_side.size() == 4 ? 2 : std::clamp<std::size_t>(side_by_side.size(), 1, 3);
  const double panel_width = columns == 1 ? 660 : columns == 2 ? 480 : 350;
  const double width = panel_width * static_cast<double>(columns);
  std::string panels;
  for (std::size_t at = 0; at < side_by_side.size(); ++at) {
    panels += panel(side_by_side[at], panel_width * static_cast<double>(at % columns),
                    panel_height * static_cast<double>(at / columns), panel_width)
                  .draw(names);
  }
  const double rows = static_cast<double>((side_by_side.size() + columns - 1) / columns);
  const auto [keys, keys_height] = legend(names, panel_height * rows + 8, width);
  const double height = panel_height * rows + keys_height + 8;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" role=\"img\">\n{2}"
             "<rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"{3:.0f}\" height=\"{4:.0f}\" rx=\"8\"/>\n",
             width, height, style, width - 1, height - 1) +
         panels + keys + "</svg>\n";
}

}  // namespace penstock::bench
