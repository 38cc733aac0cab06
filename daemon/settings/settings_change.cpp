#include "daemon/settings/settings_change.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <set>
#include <sstream>
#include <utility>

namespace penstock {
namespace {

// Each setting with the name of its table in front.
std::vector<std::string> lines_of(const settings& what) {
  std::istringstream text(print_settings(what));
  std::vector<std::string> made;
  std::string table;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line.front() == '[') {
      table = line + " ";
    } else if (!line.empty() && line.front() != '#') {
      made.push_back(table + line);
    }
  }
  return made;
}

std::string key_of(const std::string& line) {
  return line.substr(0, line.find(" ="));
}

// What can't change while the daemon runs.
settings fixed_part_of(settings what) {
  const settings defaults;
  what.pipelines.clear();
  what.clients = defaults.clients;
  what.sessions.idle_timeout = defaults.sessions.idle_timeout;
  what.daemon.drain_timeout = defaults.daemon.drain_timeout;
  what.daemon.log_level = defaults.daemon.log_level;
  what.wheel.hang_timeout = defaults.wheel.hang_timeout;
  what.timing.batches_per_second = defaults.timing.batches_per_second;
  return what;
}

}  // namespace

std::string configuration_hash(const settings& of) {
  // Fowler, Noll and Vo's, RFC 9923.
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char each : print_settings(of)) {
    hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001B3;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

bool same_pipeline(const pipeline_declaration& left, const pipeline_declaration& right) {
  settings one;
  settings other;
  one.pipelines = {left};
  other.pipelines = {right};
  return print_settings(one) == print_settings(other);
}

std::vector<std::string> needs_restart(const settings& started, const settings& wanted) {
  const std::vector<std::string> before = lines_of(fixed_part_of(started));
  std::vector<std::string> after = lines_of(fixed_part_of(wanted));
  const std::set<std::string> known(before.begin(), before.end());
  std::set<std::string> keys;
  for (const std::string& line : after) {
    keys.insert(key_of(line));
  }
  std::erase_if(after, [&](const std::string& line) { return known.contains(line); });
  for (const std::string& line : before) {
    if (!keys.contains(key_of(line))) {
      after.push_back(key_of(line) + " left out");
    }
  }
  if (wanted.clients.max_request_bytes > started.clients.max_request_bytes) {
    after.push_back("[clients] max_request_bytes above " + std::to_string(started.clients.max_request_bytes));
  }
  if (started.timing.batches_per_second == 0 && wanted.timing.batches_per_second != 0) {
    after.emplace_back("[timing] batches_per_second from 0");
  }
  return after;
}

}  // namespace penstock
