#pragma once

#include <span>
#include <string>
#include <vector>

#include "client/cli/picture.hpp"

namespace penstock::cli {

/// Counts in bins, added up over all frames, as upright bars.
class bar_chart : public picture {
 public:
  explicit bar_chart(std::string title);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& where, int rows) const override;

 private:
  std::string title_;
  std::uint64_t frames_ = 0;
  std::vector<double> counts_;
};

}  // namespace penstock::cli
