#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/picture.hpp"

namespace penstock::cli {

/// The pictures of all outputs of a pipeline. Where an output is a stream of rows, as behind `reframe`, each row is
/// drawn as a frame is, at its place in time. Spectra and histograms of several channels have one for each of the first
/// most_channels.
class gallery {
 public:
  static constexpr std::size_t most_channels = 4;

  gallery(const pipeline_info& pipeline, const sample_clock& clock);

  /// Adds the next result's frames to each.
  void add(const result& next);
  /// All of them under one another, each fit to a screen of which `below` lines are needed for other things.
  [[nodiscard]] std::string draw(const terminal& where, int below) const;
  /// The same, as many on one screen as there is room for.
  [[nodiscard]] std::string draw_on_screen(const terminal& where) const;

 private:
  struct wall {
    std::vector<std::unique_ptr<picture>> pictures;  ///< one a channel
    std::size_t channels = 1;                        ///< of the output: a unit is that many equal parts
    std::size_t unit = 1;                            ///< numbers of a frame, or of a row of a stream of them
  };

  std::vector<wall> walls_;  ///< one an output
};

}  // namespace penstock::cli
