#include "daemon/shard/thread_mask.hpp"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace penstock {
namespace {

// `of` without `what`.
cpu_set_t without(const cpu_set_t& of, const cpu_set_t& what) noexcept {
  cpu_set_t both;
  CPU_AND(&both, &of, &what);
  cpu_set_t left;
  CPU_XOR(&left, &of, &both);
  return left;
}

std::vector<pid_t> threads() {
  std::vector<pid_t> found;
  std::error_code none;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator each("/proc/self/task", none); !none && each != end; each.increment(none)) {
    found.push_back(static_cast<pid_t>(std::atol(each->path().filename().c_str())));
  }
  return found;
}

}  // namespace

thread_mask::thread_mask() noexcept {
  CPU_ZERO(&off_);
  CPU_ZERO(&all_);
  static_cast<void>(::sched_getaffinity(0, sizeof all_, &all_));
}

bool thread_mask::keep_off(const std::vector<int>& processors, std::size_t least) {
  cpu_set_t off;
  CPU_ZERO(&off);
  for (const int each : processors) {
    CPU_SET(static_cast<std::size_t>(each), &off);
  }
  const cpu_set_t left = without(all_, off);
  if (static_cast<std::size_t>(CPU_COUNT(&left)) < least) {
    return false;
  }
  std::map<pid_t, cpu_set_t> before;
  for (const pid_t thread : threads()) {
    cpu_set_t mask;
    if (::sched_getaffinity(thread, sizeof mask, &mask) != 0) {
      continue;  // it has ended
    }
    if (const auto known = before_.find(thread); known != before_.end()) {
      mask = known->second;
    } else {  // it has its mask from a thread that was kept off
      CPU_OR(&mask, &mask, &off_);
      CPU_AND(&mask, &mask, &all_);
    }
    const cpu_set_t wanted = without(mask, off);
    if (CPU_COUNT(&wanted) != 0) {
      static_cast<void>(::sched_setaffinity(thread, sizeof wanted, &wanted));
    }
    before.emplace(thread, mask);
  }
  before_ = std::move(before);
  off_ = off;
  return true;
}

}  // namespace penstock
