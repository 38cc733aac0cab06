#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "client/cli/picture.hpp"

namespace penstock::cli {

/// The latest events that `detect` found, a line each: in which frame, of which of its rows, where in that row, and how
/// high.
class event_table : public picture {
 public:
  static constexpr std::size_t most_events = 64;  ///< earlier ones are forgotten

  /// `block` is how many pairs of numbers a row of samples gives: the counts, then its events.
  event_table(std::string title, const sample_clock& clock, std::size_t block);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& where, int rows) const override;

 private:
  struct event {
    std::uint64_t frame = 0;
    std::size_t row = 0;  ///< of the frame
    float index = 0;
    float peak = 0;
  };

  [[nodiscard]] std::string line_of(const event& what) const;

  std::string title_;
  sample_clock clock_;
  std::size_t block_;
  std::size_t rows_ = 1;  ///< of a frame
  std::uint64_t frames_ = 0;
  double found_ = 0;
  double listed_ = 0;
  std::deque<event> latest_;
};

}  // namespace penstock::cli
