#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>

#include "client/cli/gallery.hpp"

namespace penstock::cli {

/// Draws the pictures of a live stream in place, again and again while results come, on a thread of its own: a slow
/// terminal holds up nobody.
class live_view {
 public:
  /// `pictures` and `out` must live longer, and are this object's until `end` has returned.
  live_view(gallery& pictures, std::function<terminal()> where, std::ostream& out);
  live_view(const live_view&) = delete;
  live_view& operator=(const live_view&) = delete;
  ~live_view();

  void add(const result& next);
  /// Draws no more, and takes away what was drawn.
  void end();

 private:
  void run();
  void draw(const std::string& text);

  gallery& pictures_;
  const std::function<terminal()> where_;
  std::ostream& out_;
  std::size_t lines_ = 0;  ///< that stand there now; the drawing thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_new_ = false;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace penstock::cli
