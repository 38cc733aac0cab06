#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Rows of text in columns for a terminal, UTF-8: a heading, a rule, then the rows. A column is as wide as its widest
/// cell, at one place for each code point.
class text_table {
 public:
  struct column {
    std::string heading;
    bool right = false;  ///< numbers end at the same place
  };

  explicit text_table(std::vector<column> columns) : columns_(std::move(columns)) {}

  /// As many cells as there are columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Every line begins with `indent` and ends without a space. A column whose cells are all empty is left out.
  [[nodiscard]] std::string text(std::string_view indent) const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;

  std::vector<column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace penstock
