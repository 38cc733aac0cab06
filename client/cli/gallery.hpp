#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "client/cli/picture.hpp"

namespace penstock::cli {

/// The pictures of all outputs of a pipeline. The rows of a stream, as behind `reframe`, are drawn like frames, at
/// their time. Spectra and histograms of several channels have one picture for each of the first most_channels.
class gallery {
 public:
  static constexpr std::size_t most_channels = 4;

  gallery(const pipeline_info& pipeline, const sample_clock& clock);

  /// Adds a result's frames to the pictures.
  void add(const result& next);
  /// All pictures below each other, each fitted to the screen less `below` lines.
  [[nodiscard]] std::string draw(const terminal& screen, int below) const;
  /// As many pictures as fit on one screen.
  [[nodiscard]] std::string draw_on_screen(const terminal& screen) const;

 private:
  struct wall {
    std::vector<std::unique_ptr<picture>> pictures;  ///< one per channel
    std::size_t channels = 1;                        ///< of the output; a unit has so many equal parts
    std::size_t unit = 1;                            ///< numbers per frame, or per row of a stream
  };

  std::vector<wall> walls_;  ///< one per output
};

/// Redraws the pictures of a live stream in place while results arrive. Draws on a thread of its own, so that a slow
/// terminal does not delay the stream.
class live_view {
 public:
  /// `pictures` and `out` must outlive this, and nobody else may use them until `end` has returned.
  live_view(gallery& pictures, std::function<terminal()> screen, std::ostream& out);
  live_view(const live_view&) = delete;
  live_view& operator=(const live_view&) = delete;
  ~live_view();

  void add(const result& next);
  /// Stops drawing and clears the screen area.
  void end();

 private:
  void run();
  void draw(const std::string& text);

  gallery& pictures_;
  const std::function<terminal()> where_;
  std::ostream& out_;
  std::size_t lines_ = 0;  ///< drawn at present; used by the drawing thread
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_new_ = false;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace penstock::cli
