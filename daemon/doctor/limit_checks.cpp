#include "daemon/doctor/amount_text.hpp"
#include "daemon/doctor/checks.hpp"

namespace penstock {
namespace {

// Beside clients' connections: logs, signals, the device, those that are kept free (daemon/socket/descriptors.cpp), and
// what the sockets of a shard take themselves.
constexpr std::uint64_t files_beside_clients = 160;
constexpr std::uint64_t files_of_a_shard = 32;

std::uint64_t files_needed(const load_facts& load) {
  return files_beside_clients + load.shards * (files_of_a_shard + load.max_clients);
}

std::string files_text(std::uint64_t files) {
  return files == no_limit ? "no limit" : std::to_string(files);
}

}  // namespace

finding check_locked_memory(const opened_facts& device, const memory_facts& memory, const limit_facts& limits) {
  finding made{.check = "locked memory", .found = amount_text(limits.locked_bytes) + " may be locked"};
  made.needed = amount_text(memory.pinned_bytes) + ", as much as is pinned";
  if (device.backend == "host") {
    made.needed = "nothing: the host backend does not pin";
  } else if (limits.locked_bytes < memory.pinned_bytes) {
    made.how = severity::warning;
    made.why = "where the limit counts, CUDA can't pin the slots, and the daemon does not start";
    made.todo = "LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 in Docker, ulimit -l in a shell";
  }
  return made;
}

finding check_open_files(const load_facts& load, const limit_facts& limits) {
  const std::uint64_t needed = files_needed(load);
  finding made{.check = "open files", .found = files_text(limits.open_files) + " may be open"};
  made.needed = std::to_string(needed) + ", for " + counted(load.max_clients, "client") + " on each of " +
                counted(load.shards, "shard");
  if (limits.open_files < files_beside_clients + load.shards * files_of_a_shard) {
    made.how = severity::error;
    made.why = "the daemon's own sockets and the device would not get theirs";
  } else if (limits.open_files < needed) {
    made.how = severity::warning;
    made.why = "each client takes one: beyond the limit the next clients can't connect";
  } else {
    return made;
  }
  made.todo = "LimitNOFILE=" + std::to_string(needed) + " in the unit, ulimit -n in a shell, or fewer max_clients";
  return made;
}

finding check_processors(const load_facts& given) {
  // Each shard has its own thread and ZeroMQ's; the admin's sleeps.
  const std::size_t needed = given.shards * (1 + given.io_threads);
  finding made{.check = "processors", .found = counted(given.processors, "processor") + " may be used"};
  made.needed = std::to_string(needed) + ", for " + counted(given.shards, "shard") + " and " +
                counted(given.shards * given.io_threads, "I/O thread");
  const bool starves = given.polls ? given.processors <= given.shards : given.processors < given.shards;
  if (starves || given.processors < needed) {
    made.how = severity::warning;
    made.why = given.polls ? "a shard that polls never sleeps: whatever shares its processor waits"
                           : "shards and I/O threads take turns, and the slowest of them sets the pace";
    made.todo =
        "fewer device.shards, more processors" + std::string(given.polls ? ", or completion = \"callback\"" : "");
  }
  return made;
}

finding check_unit(const unit_facts& given, const opened_facts& device, const std::optional<memory_facts>& memory,
                   const load_facts& load) {
  finding made{.check = "systemd unit", .found = given.file + ": "};
  const std::uint64_t files = files_needed(load);
  const std::uint64_t pinned = memory && device.backend != "host" ? memory->pinned_bytes : 0;
  // systemd's own defaults are 8 MiB of locked memory and 1024 files, of which it raises only the hard limit.
  const std::uint64_t locked = given.locked_bytes.value_or(std::uint64_t{8} << 20U);
  const std::uint64_t open = given.open_files.value_or(1024);
  made.found += "LimitMEMLOCK " + amount_text(locked) + (given.locked_bytes ? "" : " (systemd's default)") +
                ", LimitNOFILE " + files_text(open) + (given.open_files ? "" : " (systemd's default)");
  made.needed = "LimitMEMLOCK=" + std::to_string(pinned) + " and LimitNOFILE=" + std::to_string(files) + " or more";
  if (locked < pinned || open < files) {
    made.how = severity::warning;
    made.why = "the service has the unit's limits, not those of this shell";
    made.todo = "systemctl edit penstockd: [Service] LimitMEMLOCK=infinity LimitNOFILE=" + std::to_string(files);
  }
  return made;
}

}  // namespace penstock
