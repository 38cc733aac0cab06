#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/cli/picture.hpp"

namespace penstock::cli {

/// The pictures of all outputs of a pipeline.
class gallery {
 public:
  gallery(const pipeline_info& pipeline, const sample_clock& clock);

  /// Adds the next result's frames to each.
  void add(const result& next);
  /// All of them under one another, each fit to a screen of which `below` lines are needed for other things.
  [[nodiscard]] std::string draw(const terminal& where, int below) const;

 private:
  std::vector<std::unique_ptr<picture>> pictures_;
};

}  // namespace penstock::cli
