#include "client/cli/live_view.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace penstock::cli {
namespace {

constexpr std::chrono::milliseconds interval{200};

/// At most so many lines of it.
std::string first_lines(const std::string& text, std::size_t most) {
  std::size_t end = 0;
  for (; most > 0 && end < text.size(); --most) {
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  }
  return text.substr(0, end);
}

}  // namespace

live_view::live_view(gallery& pictures, std::function<terminal()> where, std::ostream& out)
    : pictures_(pictures), where_(std::move(where)), out_(out), thread_([this] { run(); }) {}

live_view::~live_view() {
  end();
}

void live_view::add(const result& next) {
  const std::lock_guard lock{mutex_};
  pictures_.add(next);
  is_new_ = true;
  changed_.notify_all();
}

void live_view::end() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock{mutex_};
    has_ended_ = true;
    changed_.notify_all();
  }
  thread_.join();
  draw("");
}

void live_view::run() {
  std::unique_lock lock{mutex_};
  while (!has_ended_) {
    changed_.wait(lock, [this] { return is_new_ || has_ended_; });
    if (is_new_ && !has_ended_) {
      is_new_ = false;
      const terminal where = where_();
      const std::string text = pictures_.draw_on_screen(where);
      lock.unlock();
      draw(first_lines(text, static_cast<std::size_t>(std::max(where.rows - 1, 1))));
      lock.lock();
      changed_.wait_for(lock, interval, [this] { return has_ended_; });
    }
  }
}

void live_view::draw(const std::string& text) {
  if (lines_ > 0) {
    out_ << "\x1b[" << lines_ << "A\r\x1b[J";
  }
  lines_ = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  out_ << text << std::flush;
}

}  // namespace penstock::cli
