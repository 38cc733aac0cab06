#include "tests/bench/overload/pressing.hpp"

#include <algorithm>
#include <thread>

namespace penstock::bench {
namespace {

using std::chrono::milliseconds;

bool is_done(const std::future<crowd_report>& crowd, milliseconds wait = milliseconds{0}) {
  return crowd.wait_for(wait) == std::future_status::ready;
}

}  // namespace

pressing::pressing(const crowd_settings& settings) {
  const std::size_t cores = std::max<std::size_t>(std::thread::hardware_concurrency() / 4, 1);
  std::size_t clients = settings.clients;
  for (std::size_t left = std::min(cores, settings.clients); left > 0; --left) {
    crowd_settings share = settings;
    share.clients = clients / left;
    share.seed = settings.seed * settings.clients + left;
    share.stop = stop_.get_token();
    share.before_sending = [this] {
      ++ready_;
      go_.wait();
    };
    clients -= share.clients;
    crowds_.push_back(std::async(std::launch::async, [share] { return run_crowd(share); }));
  }
  // One that is done by now has failed, and says so at the end.
  const auto failed = [this] {
    return std::any_of(crowds_.begin(), crowds_.end(), [](const auto& each) { return is_done(each); });
  };
  while (ready_ < crowds_.size() && !failed()) {
    std::this_thread::sleep_for(milliseconds{1});
  }
}

pressing::~pressing() {
  stop();
  if (!go_.try_wait()) {
    go();
  }
}

bool pressing::done_within(milliseconds wait) const {
  const auto end = std::chrono::steady_clock::now() + wait;
  return std::all_of(crowds_.begin(), crowds_.end(), [&](const std::future<crowd_report>& each) {
    return is_done(each, std::chrono::ceil<milliseconds>(
                             std::max(end - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration{})));
  });
}

pressed pressing::outcome() {
  pressed all;
  for (std::future<crowd_report>& each : crowds_) {
    const crowd_report report = each.get();
    all.sent += report.sent;
    all.results += report.results.size();
    all.unanswered += report.unanswered;
    for (const auto& [code, count] : report.errors) {
      all.errors[code] += count;
    }
    all.begin = &each == &crowds_.front() ? report.begin : std::min(all.begin, report.begin);
  }
  return all;
}

}  // namespace penstock::bench
