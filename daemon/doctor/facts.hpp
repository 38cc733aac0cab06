#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/settings.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/device/cuda/module_loader.hpp"

namespace penstock {

// What the doctor knows of the machine and of the configuration. It is gathered first and judged afterwards, by
// functions that see nothing else.

inline constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

struct configuration_facts {
  std::string file;
  std::string error{};  ///< what is wrong with it; "" when it is valid
  std::size_t pipelines = 0;
  std::size_t sources = 0;
  std::size_t sinks = 0;
};

/// A [[source]] or [[sink]] of the configuration.
struct source_facts {
  std::string name;
  std::string type;
  std::string error{};  ///< why it could not begin now; "" when it could, or nobody can say
  std::vector<std::string> doubts{};
  std::size_t buffer_asked = 0;  ///< of its UDP socket
  std::size_t buffer_given = 0;  ///< by the kernel
};

/// The device that the configuration asks for, opened as the daemon would.
struct opened_facts {
  backend_choice asked = backend_choice::automatic;
  std::string error{};  ///< why it can't be opened; "" when it can
  std::string backend{};
  std::string name{};    ///< of the first device, and its details
  std::string reason{};  ///< which backend was taken, and why
  std::size_t devices = 0;
  std::size_t memory_bytes = 0;  ///< of the smallest of them
  std::optional<stream_priority_range> priorities{};
};

/// NVIDIA's driver, as the kernel shows it.
struct driver_facts {
  std::string version{};  ///< of the kernel module; "" when it is not loaded
  bool has_uvm = false;   ///< whether nvidia-uvm is loaded
};

/// What the configuration takes at start-up.
struct memory_facts {
  std::size_t pinned_bytes = 0;     ///< of all shards
  std::size_t device_bytes = 0;     ///< of all shards of one device
  std::size_t available_bytes = 0;  ///< that the machine could still give
  bool was_tried = false;           ///< whether the pinned memory was allocated
  std::string error{};              ///< why it could not be; "" when it could
};

struct limit_facts {
  std::uint64_t locked_bytes = no_limit;
  std::uint64_t open_files = no_limit;
};

/// The limits of the daemon's systemd unit, where one is installed. Unset: the unit does not say.
struct unit_facts {
  std::string file{};  ///< "" when there is none
  std::optional<std::uint64_t> locked_bytes{};
  std::optional<std::uint64_t> open_files{};
};

/// What runs in the daemon.
struct load_facts {
  std::size_t shards = 0;  ///< of all devices
  std::size_t max_clients = 0;
  std::size_t priorities = 1;  ///< different ones among the pipelines
  bool polls = false;          ///< shards wait for batches without sleeping
  std::size_t processors = 0;  ///< that the process may use
  std::size_t io_threads = 1;  ///< of each shard
  std::size_t sources = 0;
  std::size_t sinks = 0;
  std::size_t source_files = 0;  ///< that sources and sinks open
};

struct shared_memory_facts {
  bool is_writable = false;
  std::uint64_t free_bytes = 0;
};

enum class endpoint_state : std::uint8_t {
  free,
  served,   ///< by something that speaks as a penstockd does
  taken,    ///< by something else
  refused,  ///< it can't be listened on at all
};

struct endpoint_facts {
  std::string endpoint;
  endpoint_state state = endpoint_state::free;
  std::string detail{};  ///< why it is refused
};

/// The files of keys; `error` is what is wrong with them.
struct key_facts {
  bool encrypts = false;
  std::string error{};
};

struct doctor_facts {
  configuration_facts configuration;
  driver_facts driver{};
  limit_facts limits{};
  unit_facts unit{};
  std::vector<source_facts> sources{};
  std::vector<source_facts> sinks{};
  shared_memory_facts shared_memory{};
  std::string clock_source{};

  // Only with a valid configuration.
  opened_facts device{};
  std::optional<memory_facts> memory{};  ///< only with a device
  load_facts load{};
  std::vector<endpoint_facts> endpoints{};
  key_facts keys{};
};

// Read from this machine, for this process. What can't be read is left as it is when nothing is known.

[[nodiscard]] driver_facts read_driver();
[[nodiscard]] limit_facts read_limits();
[[nodiscard]] shared_memory_facts read_shared_memory();
[[nodiscard]] std::string read_clock_source();
/// Of penstockd.service and its drop-ins, wherever systemd would look first.
[[nodiscard]] unit_facts read_unit();

/// The limits that a unit's text sets; those that it does not set stay as they are in `into`.
void add_unit_limits(std::string_view text, unit_facts& unit);
/// "infinity", "8M", "1024", "4G:infinity" (the soft one counts); nullopt when it is none of these.
[[nodiscard]] std::optional<std::uint64_t> parse_unit_limit(std::string_view text);

/// Opens the devices, compiles the pipelines for the first of them, allocates the pinned memory of all shards and gives
/// it back: what a start-up would do. Sets `device`, `memory` and `load.shards` of `into`.
void try_device(const settings& settings, doctor_facts& facts);

/// Whether a daemon could listen on this endpoint just now: "tcp://…" or "ipc://…". It is free for a moment's try;
/// where it is taken, whoever answers is asked for ZeroMQ's greeting, for at most half a second.
[[nodiscard]] endpoint_facts probe_data_endpoint(const std::string& endpoint);
/// The same for the admin endpoint, "HOST:PORT" or "unix:PATH"; whoever answers is asked whether it is alive.
[[nodiscard]] endpoint_facts probe_admin_endpoint(const std::string& address);

}  // namespace penstock
