#include "base/process_limits.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/whole_file.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// A mounted hierarchy of control groups that has a controller which is looked for.
struct hierarchy {
  fs::path group;  ///< the process's, as a folder below `top`
  fs::path top;
  bool is_first_version = false;
};

bool has_word(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == wanted) {
      return true;
    }
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

/// Of the line of /proc/self/cgroup for this controller of version 1, or for version 2 where `controller` is "".
std::optional<std::string> group_of(const std::string& lines, std::string_view controller) {
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) {
      continue;
    }
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty() ? line.starts_with("0::") : has_word(controllers, controller)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

/// A mount shows the groups from `from` on down; a group that lies elsewhere is shown by its top alone.
fs::path below_mount(const fs::path& top, const fs::path& from, const std::string& group) {
  const fs::path relative = fs::path(group).lexically_relative(from);
  const bool is_inside = !relative.empty() && *relative.begin() != ".." && relative != ".";
  return is_inside ? top / relative : top;
}

/// Where `controller` is mounted, in either version. mountinfo: "36 25 0:31 FROM POINT OPTIONS ... - TYPE SOURCE MORE".
std::vector<hierarchy> hierarchies_of(const fs::path& root, std::string_view controller) {
  const std::string groups = read_kernel_file(root / "proc/self/cgroup");
  std::vector<hierarchy> found;
  std::istringstream text(read_kernel_file(root / "proc/self/mountinfo"));
  for (std::string line; std::getline(text, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == line.npos) {
      continue;
    }
    std::istringstream head(line.substr(0, dash));
    std::istringstream tail(line.substr(dash + 3));
    std::string skipped;
    std::string from;
    std::string point;
    std::string type;
    std::string controllers;
    head >> skipped >> skipped >> skipped >> from >> point;
    tail >> type >> skipped >> controllers;
    const bool first_version = type == "cgroup" && has_word(controllers, controller);
    if (!first_version && type != "cgroup2") {
      continue;
    }
    if (const auto group = group_of(groups, first_version ? controller : "")) {
      const fs::path top = root / fs::path(point).relative_path();
      found.push_back({below_mount(top, from, *group), top, first_version});
    }
  }
  return found;
}

std::optional<std::size_t> number_in(const fs::path& file) {
  std::size_t number = 0;
  std::istringstream text(read_kernel_file(file));
  return text >> number ? std::optional(number) : std::nullopt;  // "max" is none
}

/// The value behind a word at the beginning of a line, as in /proc/meminfo and memory.stat.
std::optional<std::size_t> value_of(const std::string& lines, std::string_view key) {
  std::istringstream text(lines);
  for (std::string word; text >> word; std::getline(text, word)) {
    if (std::size_t value = 0; word == key && text >> value) {
      return value;
    }
  }
  return std::nullopt;
}

std::size_t processors_of_quota(double quota, double period) {
  return std::max<std::size_t>(static_cast<std::size_t>(std::ceil(quota / period)), 1);
}

/// "200000 100000": microseconds of every so many; "max", or -1 in version 1, is no quota.
std::optional<std::size_t> quota_of(const fs::path& group, bool is_first_version) {
  double quota = 0;
  double period = 0;
  std::istringstream text(is_first_version ? read_kernel_file(group / "cpu.cfs_quota_us") + " " +
                                                 read_kernel_file(group / "cpu.cfs_period_us")
                                           : read_kernel_file(group / "cpu.max"));
  const bool limits = text >> quota >> period && quota > 0 && period > 0;
  return limits ? std::optional(processors_of_quota(quota, period)) : std::nullopt;
}

void limit_memory(const fs::path& group, bool is_first_version, machine_share& share) {
  const std::string stat = read_kernel_file(group / "memory.stat");
  std::optional<std::size_t> limit = number_in(group / (is_first_version ? "memory.limit_in_bytes" : "memory.max"));
  // Of groups that are not to be seen from here.
  if (const auto above = value_of(stat, "hierarchical_memory_limit"); above && (!limit || *above < *limit)) {
    limit = above;
  }
  if (!limit) {
    return;
  }
  share.memory_bytes = std::min(share.memory_bytes, *limit);
  const std::size_t used =
      number_in(group / (is_first_version ? "memory.usage_in_bytes" : "memory.current")).value_or(0);
  const std::size_t cached = value_of(stat, is_first_version ? "total_inactive_file" : "inactive_file").value_or(0);
  const std::size_t held = used - std::min(cached, used);
  share.available_bytes = std::min(share.available_bytes, *limit - std::min(held, *limit));
}

void for_each_group(const hierarchy& groups, const std::function<void(const fs::path&)>& look) {
  for (fs::path each = groups.group;; each = each.parent_path()) {
    look(each);
    if (each == groups.top || !each.has_relative_path()) {
      return;
    }
  }
}

std::size_t processors_by_affinity() {
  for (std::size_t most = CPU_SETSIZE; most <= std::size_t{1} << 20U; most *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mine(CPU_ALLOC(most), [](cpu_set_t* set) { CPU_FREE(set); });
    if (mine != nullptr && ::sched_getaffinity(0, CPU_ALLOC_SIZE(most), mine.get()) == 0) {
      return static_cast<std::size_t>(CPU_COUNT_S(CPU_ALLOC_SIZE(most), mine.get()));
    }
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

machine_share read_machine_share() {
  return read_machine_share("/", processors_by_affinity());
}

machine_share read_machine_share(const fs::path& root, std::size_t affinity) {
  constexpr std::size_t kibibyte = 1024;
  const std::string memory = read_kernel_file(root / "proc/meminfo");
  machine_share share{.processors = std::max<std::size_t>(affinity, 1)};
  share.memory_bytes = value_of(memory, "MemTotal:").value_or(0) * kibibyte;
  if (share.memory_bytes == 0) {
    share.memory_bytes =
        static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }
  const auto available = value_of(memory, "MemAvailable:");
  share.available_bytes = available ? *available * kibibyte : share.memory_bytes;
  for (const hierarchy& each : hierarchies_of(root, "cpu")) {
    for_each_group(each, [&](const fs::path& group) {
      share.processors = std::min(share.processors, quota_of(group, each.is_first_version).value_or(share.processors));
    });
  }
  for (const hierarchy& each : hierarchies_of(root, "memory")) {
    for_each_group(each, [&](const fs::path& group) { limit_memory(group, each.is_first_version, share); });
  }
  return share;
}

namespace {

// The admin's connections (64) and what else may open something for a moment; of a small limit a half.
constexpr std::size_t most_kept = 96;
constexpr std::size_t kept_share = 2;
// Where even the held descriptor is of no use, the I/O thread that asks would do nothing else.
constexpr timespec back_off{.tv_sec = 0, .tv_nsec = 5'000'000};

std::atomic<std::uint64_t> turned_away{0};
std::mutex held_mutex;
int held = -1;

// Straight to the system: what sanitizers know of libzmq's threads would make races of these descriptors.
int accept_by_the_system(int listening, sockaddr* address, socklen_t* size, int flags) noexcept {
  return static_cast<int>(::syscall(SYS_accept4, listening, address, size, flags));
}

void turn_away(int taken) noexcept {
  static_cast<void>(::syscall(SYS_close, taken));
  turned_away.fetch_add(1, std::memory_order_relaxed);
}

// No connection gets through here to stay: a thread that takes the descriptor meanwhile leaves this one without.
int turn_away_with_the_held_one(int listening) noexcept {
  const std::lock_guard lock(held_mutex);
  if (held >= 0) {
    ::close(held);
  }
  const int taken = accept_by_the_system(listening, nullptr, nullptr, SOCK_CLOEXEC);
  if (taken >= 0) {
    turn_away(taken);
  }
  held = ::eventfd(0, EFD_CLOEXEC);
  return taken;
}

}  // namespace

bool raise_descriptor_limit() noexcept {
  held = ::eventfd(0, EFD_CLOEXEC);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return false;
  }
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

std::size_t descriptor_limit() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
             ? limit.rlim_cur
             : std::numeric_limits<std::size_t>::max();
}

bool is_among_the_last(int descriptor) noexcept {
  const std::size_t limit = std::min(descriptor_limit(), most_watched_descriptors);
  return static_cast<std::size_t>(descriptor) >= limit - std::min(most_kept, limit / kept_share);
}

bool descriptors_are_short() noexcept {
  const int next = ::eventfd(0, EFD_CLOEXEC);
  if (next < 0) {
    return errno == EMFILE || errno == ENFILE;
  }
  const bool last = is_among_the_last(next);
  ::close(next);
  return last;
}

int accept_connection(int listening, sockaddr* address, socklen_t* size, int flags) noexcept {
  const int taken = accept_by_the_system(listening, address, size, flags);
  if (taken >= 0) {
    if (!is_among_the_last(taken)) {
      return taken;
    }
    turn_away(taken);
  } else if (errno != EMFILE && errno != ENFILE) {
    return taken;
  } else if (turn_away_with_the_held_one(listening) < 0) {
    ::nanosleep(&back_off, nullptr);
  }
  errno = ENFILE;
  return -1;
}

std::uint64_t connections_turned_away() noexcept {
  return turned_away.load(std::memory_order_relaxed);
}

}  // namespace penstock
