#include "daemon/doctor/machine_facts.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <vector>

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "daemon/files/whole_file.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

// What can't be read says nothing.
std::string text_of_unit(const fs::path& file) {
  constexpr std::size_t most = std::size_t{1} << 20U;
  try {
    return read_whole_file(file, most);
  } catch (const std::runtime_error&) {
    return "";
  }
}

std::string first_word(const fs::path& file) {
  std::istringstream text(read_kernel_file(file));
  std::string word;
  text >> word;
  return word;
}

// Of open files the daemon raises the soft limit to the hard one.
std::uint64_t hard_limit(int resource) {
  rlimit limit{};
  return ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 && limit.rlim_max != RLIM_INFINITY
             ? limit.rlim_max
             : no_limit;
}

std::uint64_t soft_limit(int resource) {
  rlimit limit{};
  return ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
             ? limit.rlim_cur
             : no_limit;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(" \t\r") + 1);
}

}  // namespace

driver_facts read_driver() {
  std::error_code unreadable;
  return {.version = first_word("/sys/module/nvidia/version"),
          .has_uvm = fs::exists("/sys/module/nvidia_uvm", unreadable)};
}

limit_facts read_limits() {
  return {.locked_bytes = soft_limit(RLIMIT_MEMLOCK), .open_files = hard_limit(RLIMIT_NOFILE)};
}

shared_memory_facts read_shared_memory() {
  constexpr const char* place = "/dev/shm";
  struct statvfs found {};
  if (::statvfs(place, &found) != 0) {
    return {};
  }
  return {.is_writable = ::access(place, W_OK) == 0, .free_bytes = std::uint64_t{found.f_bavail} * found.f_frsize};
}

std::string read_clock_source() {
  return first_word("/sys/devices/system/clocksource/clocksource0/current_clocksource");
}

std::optional<std::uint64_t> parse_unit_limit(std::string_view text) {
  constexpr std::string_view units = "KMGT";
  text = trimmed(text.substr(0, text.find(':')));
  if (text == "infinity") {
    return no_limit;
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc{} || unit.size() > 1) {
    return std::nullopt;
  }
  if (unit.empty()) {
    return number;
  }
  const std::size_t power = units.find(unit.front());
  return power == std::string_view::npos ? std::nullopt : std::optional(number << (10 * (power + 1)));
}

void add_unit_limits(std::string_view text, unit_facts& into) {
  while (!text.empty()) {
    const std::string_view line = trimmed(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      continue;
    }
    const std::string_view key = trimmed(line.substr(0, equals));
    const auto value = parse_unit_limit(line.substr(equals + 1));
    if (key == "LimitMEMLOCK" && value) {
      into.locked_bytes = value;
    } else if (key == "LimitNOFILE" && value) {
      into.open_files = value;
    }
  }
}

unit_facts read_unit() {
  unit_facts found;
  std::vector<fs::path> drop_ins;
  for (const char* const folder : {"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
                                   "/usr/lib/systemd/system", "/lib/systemd/system"}) {
    const fs::path unit = fs::path(folder) / "penstockd.service";
    std::error_code unreadable;
    if (found.file.empty() && fs::exists(unit, unreadable)) {
      found.file = unit.string();
    }
    unreadable.clear();
    for (fs::directory_iterator each(unit.string() + ".d", unreadable); !unreadable && each != fs::directory_iterator();
         each.increment(unreadable)) {
      const bool is_hidden = std::any_of(drop_ins.begin(), drop_ins.end(), [&](const fs::path& other) {
        return other.filename() == each->path().filename();
      });
      if (each->path().extension() == ".conf" && !is_hidden) {
        drop_ins.push_back(each->path());
      }
    }
  }
  if (!found.file.empty()) {
    std::sort(drop_ins.begin(), drop_ins.end(),
              [](const fs::path& left, const fs::path& right) { return left.filename() < right.filename(); });
    add_unit_limits(text_of_unit(found.file), found);
    for (const fs::path& each : drop_ins) {
      add_unit_limits(text_of_unit(each), found);
    }
  }
  return found;
}

}  // namespace penstock
