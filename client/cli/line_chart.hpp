#pragma once

#include <span>
#include <string>

#include "client/cli/picture.hpp"
#include "client/cli/series.hpp"

namespace penstock::cli {

/// All of an output's numbers one after the other: for each stretch of them the range from lowest to highest.
class line_chart : public picture {
 public:
  line_chart(std::string title, const sample_clock& clock);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& where, int rows) const override;

 private:
  std::string title_;
  sample_clock clock_;
  std::uint64_t frames_ = 0;
  series numbers_;
};

}  // namespace penstock::cli
