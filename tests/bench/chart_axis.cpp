#include "tests/bench/chart_axis.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

constexpr double most_steps = 5;
constexpr double few_decades = 2.2;

bool is_power_of_two(double value) {
  int exponent = 0;
  return value >= 1 && std::frexp(value, &exponent) == 0.5;
}

// The largest of 1, 2 and 5 times a power of ten that is not above the value; with `up`, the smallest not below it.
double one_two_five(double value, bool up) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  constexpr double factors[] = {1, 2, 5, 10};
  constexpr double tolerance = 1e-9;  // of powers that are not exact
  if (up) {
    return power * *std::find_if(std::begin(factors), std::end(factors),
                                 [&](double each) { return each * power >= value * (1 - tolerance); });
  }
  return power * *std::find_if(std::rbegin(factors), std::rend(factors),
                               [&](double each) { return each * power <= value * (1 + tolerance); });
}

std::string number_text(double value) {
  const double size = std::abs(value);
  return size >= 1e9   ? fmt::format("{:.4g}G", value * 1e-9)
         : size >= 1e6 ? fmt::format("{:.4g}M", value * 1e-6)
         : size >= 1e3 ? fmt::format("{:.4g}k", value * 1e-3)
                       : fmt::format("{:.4g}", value);
}

}  // namespace

chart_axis::chart_axis(const std::vector<double>& values, axis_form form) : form_(form) {
  std::vector<double> shown;
  std::copy_if(values.begin(), values.end(), std::back_inserter(shown), [this](double each) { return shows(each); });
  if (!shown.empty()) {
    const auto [least, most] = std::minmax_element(shown.begin(), shown.end());
    least_ = *least;
    most_ = *most;
  } else if (form_.logarithmic) {
    least_ = 1;
    most_ = 10;
  }
  if (!form_.logarithmic) {
    mark_steps();
  } else if (form_.bytes ||
             (!shown.empty() && most_ <= 2048 &&
              std::all_of(shown.begin(), shown.end(), [](double each) { return is_power_of_two(each); }))) {
    mark_powers_of_two();
  } else {
    mark_powers_of_ten();
  }
}

bool chart_axis::shows(double value) const {
  return std::isfinite(value) && (!form_.logarithmic || value > 0);
}

double chart_axis::place(double value) const {
  return form_.logarithmic ? std::log(value / least_) / std::log(most_ / least_) : (value - least_) / (most_ - least_);
}

void chart_axis::add_mark(double value) {
  marks_.push_back({value, form_.bytes ? bytes_text(static_cast<std::size_t>(value)) : number_text(value)});
}

void chart_axis::mark_powers_of_two() {
  const double first = std::floor(std::log2(least_));
  const double last = std::max(std::ceil(std::log2(most_)), first + 1);
  least_ = std::exp2(first);
  most_ = std::exp2(last);
  const double step = std::ceil((last - first) / most_steps);
  for (double exponent = first; exponent <= last; exponent += step) {
    add_mark(std::exp2(exponent));
  }
}

void chart_axis::mark_powers_of_ten() {
  least_ = one_two_five(least_, false);
  most_ = one_two_five(most_, true);
  most_ = most_ > least_ ? most_ : one_two_five(least_ * 1.5, true);
  const double decades = std::log10(most_ / least_);
  if (decades <= few_decades) {
    for (double value = least_; value <= most_ * 1.001; value = one_two_five(value * 1.5, true)) {
      add_mark(value);
    }
    return;
  }
  const double step = std::ceil(decades / most_steps);
  for (double exponent = std::ceil(std::log10(least_) - 1e-9); std::pow(10, exponent) <= most_ * 1.001;
       exponent += step) {
    add_mark(std::pow(10, exponent));
  }
}

void chart_axis::mark_steps() {
  if (form_.from_zero || (least_ >= 0 && least_ < most_ / 3)) {
    least_ = std::min(least_, 0.0);
    most_ = std::max(most_, 0.0);
  }
  most_ = most_ > least_ ? most_ : least_ + 1;
  const double rough = (most_ - least_) / most_steps;
  const double step = form_.bytes ? std::exp2(std::ceil(std::log2(rough))) : one_two_five(rough, true);
  double first = std::ceil(least_ / step - 1e-9) + 0.0;  // never -0
  double last = std::floor(most_ / step + 1e-9);
  if (form_.from_zero) {
    first = std::floor(least_ / step + 1e-9);
    last = std::ceil(most_ / step - 1e-9);
    least_ = first * step;
    most_ = last * step;
  }
  for (double at = first; at <= last; ++at) {
    add_mark(at * step);
  }
}

}  // namespace penstock::bench
