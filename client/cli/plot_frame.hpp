#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/cli/axis.hpp"
#include "client/cli/terminal.hpp"

namespace penstock::cli {

/// The axes around a picture: labels on the left, the picture, labels below.
class plot_frame {
 public:
  /// In at most `rows` lines as wide as the terminal at most. `note` stands behind the labels below.
  plot_frame(const terminal& where, int rows, const axis& left, const axis& below, std::string note);

  /// What is left for the picture, in cells; at least 1 × 1.
  [[nodiscard]] int width() const noexcept { return width_; }
  [[nodiscard]] int height() const noexcept { return height_; }
  /// Cells to the left of the picture.
  [[nodiscard]] int indent() const noexcept { return label_width_ + 2; }

  /// All lines; `row_text` gives the picture's row, counted from the top, exactly width() cells wide.
  [[nodiscard]] std::string draw(const std::function<std::string(int)>& row_text) const;

 private:
  [[nodiscard]] std::string labels_below() const;

  terminal where_;
  axis below_;
  std::string note_;
  int height_;
  int width_;
  int label_width_ = 0;
  std::vector<std::string> labels_;  ///< of each row
};

}  // namespace penstock::cli
