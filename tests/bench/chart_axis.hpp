#pragma once

#include <string>
#include <vector>

namespace penstock::bench {

struct axis_form {
  bool logarithmic = false;
  bool bytes = false;      ///< marked as 4 KiB, 1 MiB
  bool from_zero = false;  ///< zero is on a linear axis, and both ends are marks
};

struct axis_mark {
  double value = 0;
  std::string text;
};

/// Where values stand along one side of a chart, and its marks: at 1-2-5 times a power of ten, at powers of ten, or at
/// powers of two where the values are, or are bytes.
class chart_axis {
 public:
  /// Values that can't be shown are ignored. Without any, the axis goes from 0 to 1, or from 1 to 10.
  chart_axis(const std::vector<double>& values, axis_form form);

  /// Finite, and above zero on a logarithmic axis.
  [[nodiscard]] bool shows(double value) const;
  /// 0 at the least end and 1 at the other. Only for what the axis shows.
  [[nodiscard]] double place(double value) const;
  [[nodiscard]] const std::vector<axis_mark>& marks() const noexcept { return marks_; }

 private:
  void mark_powers_of_two();
  void mark_powers_of_ten();
  void mark_steps();
  void add_mark(double value);

  axis_form form_;
  double least_ = 0;
  double most_ = 1;
  std::vector<axis_mark> marks_;
};

}  // namespace penstock::bench
