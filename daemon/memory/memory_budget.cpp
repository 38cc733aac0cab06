#include "daemon/memory/memory_budget.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>

#include <unistd.h>

#include "daemon/files/whole_file.hpp"

namespace penstock {
namespace {

// The group's own path, of cgroup v2's line "0::/PATH"; "" when there is none.
std::string control_group() {
  std::istringstream groups(read_kernel_file("/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) {
      return line.substr(3);
    }
  }
  return "";
}

}  // namespace

bool memory_budget::take(std::size_t bytes) noexcept {
  std::size_t now = used_.load(std::memory_order_relaxed);
  do {
    if (now > limit_ || bytes > limit_ - now) {
      return false;
    }
  } while (!used_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  return true;
}

std::size_t memory_budget::left() const noexcept {
  const std::size_t now = used();
  return limit_ - std::min(now, limit_);
}

std::size_t memory_of_machine() {
  auto bytes = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::filesystem::path root = "/sys/fs/cgroup";
  std::filesystem::path group = std::filesystem::path(control_group()).relative_path();
  for (;;) {
    // "max" is no number, and sets no bound.
    if (std::size_t bound = 0; std::istringstream(read_kernel_file(root / group / "memory.max")) >> bound) {
      bytes = std::min(bytes, bound);
    }
    if (group.empty()) {
      return bytes;
    }
    group = group.parent_path();
  }
}

}  // namespace penstock
