#include "daemon/doctor/doctor.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptors.hpp"
#include "base/process_limits.hpp"
#include "base/whole_file.hpp"
#include "daemon/config/sink_text.hpp"
#include "daemon/config/source_text.hpp"
#include "daemon/doctor/facts.hpp"
#include "daemon/live/file_writer.hpp"
#include "daemon/live/network/socket_keys.hpp"
#include "daemon/live/network/udp_reader.hpp"
#include "daemon/live/reader.hpp"
#include "daemon/net/keys.hpp"
#include "daemon/net/shard_directory.hpp"

namespace penstock {

std::string amount_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes == no_limit) {
    return "no limit";
  }
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (number >= 1024 && unit + 1 < units.size()) {
    number /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 || number >= 99.95 ? "%.0f %s" : "%.1f %s", number, units[unit]);
  return text.data();
}

std::string counted(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::vector<finding> check_all(const doctor_facts& facts) {
  std::vector<finding> all{check_configuration(facts.configuration)};
  const bool is_valid = facts.configuration.error.empty();
  if (is_valid) {
    all.push_back(check_keys(facts.keys));
    all.push_back(check_device(facts.device, facts.driver));
    all.push_back(check_driver(facts.device, facts.driver));
  }
  if (is_valid && facts.device.error.empty()) {
    all.push_back(check_priorities(facts.device, facts.load));
  }
  if (is_valid && facts.memory) {
    all.push_back(check_device_memory(facts.device, *facts.memory));
    all.push_back(check_pinned_memory(*facts.memory));
    all.push_back(check_locked_memory(facts.device, *facts.memory, facts.limits));
  }
  if (is_valid) {
    all.push_back(check_open_files(facts.load, facts.limits));
    all.push_back(check_processors(facts.load));
    for (const endpoint_facts& each : facts.endpoints) {
      all.push_back(check_endpoint(each));
    }
    for (const source_facts& each : facts.sources) {
      all.push_back(check_source(each));
    }
    for (const source_facts& each : facts.sinks) {
      all.push_back(check_sink(each));
    }
  }
  all.push_back(check_shared_memory(facts.shared_memory));
  all.push_back(check_clock(facts.clock_source));
  if (is_valid && !facts.unit.file.empty()) {
    all.push_back(check_unit(facts.unit, facts.device, facts.memory, facts.load));
  }
  return all;
}

finding check_configuration(const configuration_facts& configuration) {
  finding made{.check = "configuration",
               .found = configuration.file + ": good, " + counted(configuration.pipelines, "pipeline") +
                        (configuration.sources == 0 ? "" : ", " + counted(configuration.sources, "source")) +
                        (configuration.sinks == 0 ? "" : ", " + counted(configuration.sinks, "sink"))};
  made.needed = "a valid configuration";
  if (!configuration.error.empty()) {
    made.level = severity::error;
    made.found = configuration.error;
    made.why = "the daemon ends with 78, and what depends on the configuration was not checked";
    made.todo = "mend the file; penstockd --check-config says the same";
  }
  return made;
}

finding check_keys(const key_facts& keys) {
  finding made{.check = "keys", .found = keys.encrypts ? "good" : "none: no encryption"};
  made.needed = "files that nobody else can read or change";
  if (!keys.error.empty()) {
    made.level = severity::error;
    made.found = keys.error;
    made.why = "the daemon takes no key that somebody else may know, and ends with 78";
    made.todo = "do what the message says; penstock keygen makes keys with the right modes";
  }
  return made;
}

finding check_endpoint(const endpoint_facts& endpoint) {
  finding made{.check = "endpoint", .found = endpoint.endpoint + " is free"};
  made.needed = "a free one, or the daemon already on it";
  switch (endpoint.state) {
    case endpoint_state::free:
      break;
    case endpoint_state::served:
      made.found = endpoint.endpoint + " is taken, by what looks like a daemon that runs already";
      break;
    case endpoint_state::taken:
      made.level = severity::error;
      made.found = endpoint.endpoint + " is taken by something that is no penstockd";
      made.why = "the daemon ends with 69 when it can't listen";
      made.todo = "ss -ltnpx says who holds it; stop that, or listen somewhere else";
      break;
    case endpoint_state::refused:
      made.level = severity::error;
      made.found = endpoint.endpoint + ": " + endpoint.detail;
      made.why = "the daemon ends with 69 when it can't listen";
      made.todo = "an address of this machine, a port above 1023, or a folder that the daemon may write to";
      break;
  }
  return made;
}

finding check_source(const source_facts& source) {
  finding made{.check = "source", .found = source.name + " (" + source.type + "): good"};
  made.needed = "one that can begin, and whose gaps show in its results";
  if (!source.error.empty()) {
    made.level = severity::error;
    made.found = source.name + " (" + source.type + "): " + source.error;
    made.why = "the daemon starts, and tries again and again, but the source brings nothing";
    made.todo = "mend what the message says; a reload takes a changed [[source]]";
  } else if (source.buffer_given < source.buffer_asked) {
    made.level = severity::warning;
    made.found = source.name + " (" + source.type + "): the kernel gives its socket " +
                 amount_text(source.buffer_given) + " of " + amount_text(source.buffer_asked);
    made.why = "packets that come while the source is busy are lost, and counted as the kernel's";
    made.todo = "sysctl -w net.core.rmem_max=" + std::to_string(source.buffer_asked) + ", or a smaller socket_buffer";
  } else if (!source.doubts.empty()) {
    made.level = severity::warning;
    made.found = source.doubts.front();
    made.why = "results can be wrong without looking so";
    made.todo = "gap = { policy = \"fill\" } or \"new-epoch\"; overrun = \"block\" for files";
  }
  return made;
}

finding check_sink(const source_facts& sink) {
  finding made{.check = "sink", .found = sink.name + " (" + sink.type + "): good"};
  made.needed = "one that can begin, and whose receiver gets every result";
  if (!sink.error.empty()) {
    made.level = severity::error;
    made.found = sink.name + " (" + sink.type + "): " + sink.error;
    made.why = "the daemon starts, and tries again and again; meanwhile results are dropped, or their sources paused";
    made.todo = "mend what the message says; a reload takes a changed [[sink]]";
  } else if (!sink.doubts.empty()) {
    made.level = severity::warning;
    made.found = sink.doubts.front();
    made.why = "a receiver can miss results, or take one for another";
    made.todo = "a larger queue; a topic such as \"{output}\", or one output in from";
  }
  return made;
}

finding check_shared_memory(const shared_memory_facts& memory) {
  constexpr std::uint64_t least = std::uint64_t{16} << 20U;
  finding made{.check = "/dev/shm", .found = amount_text(memory.free_bytes) + " free"};
  made.needed = amount_text(least) + " that can be written to";
  if (!memory.is_writable || memory.free_bytes < least) {
    made.level = severity::warning;
    made.found = memory.is_writable ? made.found : "can't be written to";
    made.why = "CUDA and libraries share memory between processes there";
    made.todo = "mount a tmpfs on it; in Docker, --shm-size=64m or more";
  }
  return made;
}

finding check_clock(const std::string& source) {
  constexpr std::array<std::string_view, 4> quick{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page",
                                                  "arch_sys_counter"};
  finding made{.check = "clock source", .found = source.empty() ? "the kernel does not say" : source};
  made.needed = "one that is read without a system call: tsc";
  if (!source.empty() && std::find(quick.begin(), quick.end(), source) == quick.end()) {
    made.level = severity::warning;
    made.why = "the daemon reads the clock for each request, and this one takes a microsecond or more";
    made.todo = "look in dmesg for why tsc was given up; clocksource=tsc on the kernel's command line";
  }
  return made;
}

namespace {

// Beside clients' connections: logs, signals, the device, those that are kept free (daemon/socket/descriptors.cpp), and
// what the sockets of a shard take themselves.
constexpr std::uint64_t files_beside_clients = 160;
constexpr std::uint64_t files_of_a_shard = 32;

std::uint64_t files_needed(const load_facts& load) {
  return files_beside_clients + load.source_files + load.shards * (files_of_a_shard + load.max_clients);
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
    made.level = severity::warning;
    made.why = "where the limit counts, CUDA can't pin the slots, and the daemon does not start";
    made.todo = "LimitMEMLOCK=infinity in the unit, --ulimit memlock=-1 in Docker, ulimit -l in a shell";
  }
  return made;
}

finding check_open_files(const load_facts& load, const limit_facts& limits) {
  const std::uint64_t needed = files_needed(load);
  finding made{.check = "open files", .found = files_text(limits.open_files) + " may be open"};
  made.needed = std::to_string(needed) + ", for " + counted(load.max_clients, "client") + " on each of " +
                counted(load.shards, "shard") + (load.sources == 0 ? "" : ", and " + counted(load.sources, "source")) +
                (load.sinks == 0 ? "" : ", and " + counted(load.sinks, "sink"));
  if (limits.open_files < files_beside_clients + load.source_files + load.shards * files_of_a_shard) {
    made.level = severity::error;
    made.why = "the daemon's own sockets and the device would not get theirs";
  } else if (limits.open_files < needed) {
    made.level = severity::warning;
    made.why = "each client takes one: beyond the limit the next clients can't connect";
  } else {
    return made;
  }
  made.todo = "LimitNOFILE=" + std::to_string(needed) + " in the unit, ulimit -n in a shell, or fewer max_clients";
  return made;
}

finding check_processors(const load_facts& load) {
  // Each shard has its own thread and ZeroMQ's; the admin's sleeps.
  const std::size_t needed = load.shards * (1 + load.io_threads);
  finding made{.check = "processors", .found = counted(load.processors, "processor") + " may be used"};
  made.needed = std::to_string(needed) + ", for " + counted(load.shards, "shard") + " and " +
                counted(load.shards * load.io_threads, "I/O thread");
  const bool starves = load.polls ? load.processors <= load.shards : load.processors < load.shards;
  if (starves || load.processors < needed) {
    made.level = severity::warning;
    made.why = load.polls ? "a shard that polls never sleeps: whatever shares its processor waits"
                          : "shards and I/O threads take turns, and the slowest of them sets the pace";
    made.todo =
        "fewer device.shards, more processors" + std::string(load.polls ? ", or completion = \"callback\"" : "");
  }
  return made;
}

finding check_unit(const unit_facts& unit, const opened_facts& device, const std::optional<memory_facts>& memory,
                   const load_facts& load) {
  finding made{.check = "systemd unit", .found = unit.file + ": "};
  const std::uint64_t files = files_needed(load);
  const std::uint64_t pinned = memory && device.backend != "host" ? memory->pinned_bytes : 0;
  // systemd's own defaults are 8 MiB of locked memory and 1024 files, of which it raises only the hard limit.
  const std::uint64_t locked = unit.locked_bytes.value_or(std::uint64_t{8} << 20U);
  const std::uint64_t open = unit.open_files.value_or(1024);
  made.found += "LimitMEMLOCK " + amount_text(locked) + (unit.locked_bytes ? "" : " (systemd's default)") +
                ", LimitNOFILE " + files_text(open) + (unit.open_files ? "" : " (systemd's default)");
  made.needed = "LimitMEMLOCK=" + std::to_string(pinned) + " and LimitNOFILE=" + std::to_string(files) + " or more";
  if (locked < pinned || open < files) {
    made.level = severity::warning;
    made.why = "the service has the unit's limits, not those of this shell";
    made.todo = "systemctl edit penstockd: [Service] LimitMEMLOCK=infinity LimitNOFILE=" + std::to_string(files);
  }
  return made;
}

finding check_device(const opened_facts& device, const driver_facts& driver) {
  finding made{.check = "device", .found = device.backend + ": " + device.name};
  made.needed = device.asked == backend_choice::host ? "the host backend" : "a CUDA device that takes work";
  if (!device.error.empty()) {
    made.level = severity::error;
    made.found = device.error;
    made.why = "the daemon ends with 69 when it can't open its device";
    made.todo = "do what the message says, or take the host with backend = \"host\"";
  } else if (device.asked == backend_choice::automatic && device.backend == "host" && !driver.version.empty()) {
    made.level = severity::warning;
    made.found = device.reason;
    made.why = "an NVIDIA driver is loaded, and yet the work would run on the processors";
    made.todo = "mend CUDA, and set backend = \"cuda\" so that the host is never taken instead";
  }
  return made;
}

finding check_driver(const opened_facts& device, const driver_facts& driver) {
  finding made{.check = "NVIDIA driver",
               .found = driver.version.empty() ? "none is loaded" : "version " + driver.version};
  const bool uses_cuda = device.asked == backend_choice::cuda || device.backend == "cuda";
  if (!driver.version.empty()) {
    made.found += driver.has_uvm ? ", nvidia-uvm is loaded" : ", nvidia-uvm is not loaded";
  }
  made.needed = uses_cuda ? "the driver and nvidia-uvm" : "nothing, for the host backend";
  if (uses_cuda && driver.version.empty()) {
    made.level = severity::error;
    made.why = "without the driver there is no CUDA device";
    made.todo = "install NVIDIA's driver and check with nvidia-smi; in a container, give it the GPU";
  } else if (uses_cuda && !driver.has_uvm) {
    made.level = severity::warning;
    made.why = "CUDA loads it when it is missing, which a service without new privileges may not";
    made.todo = "modprobe nvidia-uvm at boot: a line \"nvidia-uvm\" in /etc/modules-load.d/nvidia.conf";
  }
  return made;
}

finding check_priorities(const opened_facts& device, const load_facts& load) {
  finding made{.check = "stream priorities", .found = "kept by the host backend itself"};
  made.needed = counted(load.priorities, "level") + ", as the pipelines have";
  if (!device.priorities) {
    return made;
  }
  const auto levels = static_cast<std::size_t>(device.priorities->lowest - device.priorities->highest + 1);
  made.found = counted(levels, "level") + " (" + std::to_string(device.priorities->highest) + " to " +
               std::to_string(device.priorities->lowest) + ")";
  if (levels < load.priorities) {
    made.level = severity::warning;
    made.why = "pipelines of different priorities share one, and wait for each other on the device";
    made.todo = "expect less of priorities on this device, or use fewer of them";
  }
  return made;
}

finding check_device_memory(const opened_facts& device, const memory_facts& memory) {
  finding made{.check = "device memory", .found = amount_text(device.memory_bytes)};
  made.needed = amount_text(memory.device_bytes) + " on each device, for slots and the states of sessions";
  if (memory.device_bytes > device.memory_bytes) {
    made.level = severity::error;
    made.why = "all of it is allocated at start-up, which would fail";
    made.todo = "fewer device.slots, device.shards or sessions.max_sessions, or smaller batches";
  } else {
    made.found += ", " + amount_text(memory.device_bytes) + " needed";
  }
  return made;
}

finding check_pinned_memory(const memory_facts& memory) {
  finding made{.check = "pinned memory", .found = amount_text(memory.pinned_bytes) + " allocated and given back"};
  made.needed = amount_text(memory.pinned_bytes) + ", for the slots of all shards";
  if (!memory.was_tried) {
    made.found = "not tried: " + amount_text(memory.available_bytes) + " of memory are available";
  } else if (!memory.error.empty()) {
    made.found = memory.error;
  } else {
    return made;
  }
  made.level = severity::error;
  made.why = "all of it is allocated at start-up, which would fail";
  made.todo = "fewer device.slots or device.shards, smaller batches, or stop what else uses the memory";
  return made;
}

namespace {

// Its client's and its reader's; a ZeroMQ context has some of its own. Who connects to it takes more.
std::size_t files_of(const source_declaration& source) {
  return source.type == source_type::zmq_sub || source.type == source_type::zmq_pull ? 12 : 4;
}

// Its client has some for each shard, which are as those of a source.
std::size_t files_of(const sink_declaration& sink) {
  const bool is_file = sink.type == sink_type::file || sink.type == sink_type::sigmf;
  return is_file ? 4 + live::most_open_files : sink.type == sink_type::udp ? 4 : 12;
}

load_facts load_of(const settings& settings) {
  std::size_t source_files = 0;
  for (const source_declaration& each : settings.sources) {
    source_files += files_of(each);
  }
  for (const sink_declaration& each : settings.sinks) {
    source_files += files_of(each);
  }
  std::set<stream_priority> priorities;
  for (const pipeline_declaration& each : settings.pipelines) {
    priorities.insert(each.priority);
  }
  return {.shards = 0,
          .max_clients = settings.clients.max_clients,
          .priorities = priorities.size(),
          .polls = settings.stream_pool.completion == completion_mode::poll,
          .processors = read_machine_share().processors,
          .sources = settings.sources.size(),
          .sinks = settings.sinks.size(),
          .source_files = source_files};
}

key_facts keys_of(const security_settings& security) {
  key_facts made{.encrypts = security.encrypts()};
  try {
    if (security.encrypts()) {
      const keyring good(security.secret_key_file, security.authorized_keys_file);
    }
  } catch (const configuration_error& wrong) {
    made.error = wrong.what();
  } catch (const file_unreadable& failed) {
    made.error = failed.what();
  }
  return made;
}

// Files are opened; what comes over a network is only there when it comes.
source_facts source_of(const source_declaration& source, const settings& settings) {
  source_facts made{.name = source.name,
                    .type = std::string(name_of(source.type)),
                    .doubts = doubts_about(source, settings.pipelines)};
  try {
    if (source.type == source_type::file) {
      double rate = source.sample_rate;
      (void)live::make_reader(source, rate);
    } else if (source.type == source_type::udp) {
      const file_descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      made.buffer_asked = source.socket_buffer;
      made.buffer_given = live::ask_for_receive_buffer(socket.number(), source.socket_buffer);
    } else if (source.encrypts()) {
      (void)live::read_socket_keys(source.server_key, source.secret_key_file, source.authorized_keys_file);
    }
  } catch (const std::exception& wrong) {
    made.error = wrong.what();
  }
  return made;
}

// Why files can't be made there; "" when they can. Folders that are not there are made.
std::string fault_of_folder(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path.substr(0, path.find('{'))).parent_path();
  std::error_code ignored;
  while (!folder.empty() && !std::filesystem::exists(folder, ignored)) {
    folder = folder.parent_path();
  }
  const std::string name = folder.empty() ? "." : folder.string();
  return ::access(name.c_str(), W_OK) == 0 ? "" : name + ": " + std::generic_category().message(errno);
}

source_facts sink_of(const sink_declaration& sink) {
  source_facts made{.name = sink.name, .type = std::string(name_of(sink.type)), .doubts = doubts_about(sink)};
  try {
    if (!sink.path.empty()) {
      made.error = fault_of_folder(sink.file());
    } else if (sink.encrypts()) {
      (void)live::read_socket_keys(sink.server_key, sink.secret_key_file, sink.authorized_keys_file);
    }
  } catch (const std::exception& wrong) {
    made.error = wrong.what();
  }
  return made;
}

std::vector<endpoint_facts> endpoints_of(const settings& settings, std::size_t shards) {
  std::vector<endpoint_facts> all;
  for (const std::vector<std::string>& of_shard : endpoints_of_all(settings.daemon.listen, shards)) {
    for (const std::string& each : of_shard) {
      all.push_back(probe_data_endpoint(each));
    }
  }
  for (const std::string& each : settings.admin.listen) {
    all.push_back(probe_admin_endpoint(each));
  }
  return all;
}

}  // namespace

std::vector<finding> examine(const std::string& name, const std::function<settings()>& read) {
  doctor_facts facts{.configuration = {.file = name},
                     .driver = read_driver(),
                     .limits = read_limits(),
                     .unit = read_unit(),
                     .shared_memory = read_shared_memory(),
                     .clock_source = read_clock_source()};
  try {
    const settings settings = read();
    facts.configuration.pipelines = settings.pipelines.size();
    facts.configuration.sources = settings.sources.size();
    for (const source_declaration& each : settings.sources) {
      facts.sources.push_back(source_of(each, settings));
    }
    facts.configuration.sinks = settings.sinks.size();
    for (const sink_declaration& each : settings.sinks) {
      facts.sinks.push_back(sink_of(each));
    }
    facts.load = load_of(settings);
    facts.keys = keys_of(settings.security);
    try_device(settings, facts);
    facts.load.io_threads =
        static_cast<std::size_t>(fitted(settings, facts.load.shards, facts.load.processors).daemon.io_threads);
    facts.endpoints = endpoints_of(settings, facts.load.shards);
  } catch (const configuration_error& wrong) {
    facts.configuration.error = wrong.what();
  } catch (const file_unreadable& failed) {
    facts.configuration.error = failed.what();
  }
  return check_all(facts);
}

}  // namespace penstock
