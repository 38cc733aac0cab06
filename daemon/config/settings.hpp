#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/sink_declaration.hpp"
#include "daemon/config/source_declaration.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/pipeline/declaration.hpp"
#include "proto/control.hpp"

namespace penstock {

enum class completion_mode { callback, poll, automatic };

/// Where the daemon listens and how it stops.
struct daemon_settings {
  std::vector<std::string> listen{"tcp://127.0.0.1:7600"};
  std::chrono::nanoseconds drain_timeout = std::chrono::seconds{10};
  std::string log_level = "info";  ///< trace, debug, info, warn, error
  int io_threads = 0;              ///< ZeroMQ's, of each shard; 0: as many as suit the machine
  /// How long a shard that finds nothing to do looks again before it sleeps.
  std::chrono::nanoseconds spin = std::chrono::microseconds{100};

  bool operator==(const daemon_settings&) const = default;
};

/// The slot ring and the stream pool of a shard.
struct stream_pool_settings {
  int streams = 8;
  int slots = 16;
  completion_mode completion = completion_mode::automatic;
  /// A batch that has not finished after this long is a hung device: everything in flight fails, the daemon exits.
  std::chrono::nanoseconds hang_timeout = std::chrono::seconds{30};

  bool operator==(const stream_pool_settings&) const = default;
};

/// What each client is granted and what all of them can hold together.
struct client_settings {
  std::uint32_t credit_requests = 256;
  std::size_t credit_bytes = std::size_t{64} << 20U;
  std::uint32_t max_clients = 256;
  std::size_t max_request_bytes = std::size_t{64} << 20U;  ///< of one message's parts together
  /// Replies that wait for a slow client; beyond it, that client's results are dropped and counted.
  std::size_t reply_queue_bytes = std::size_t{64} << 20U;
  /// Finished replies of sessions that are kept for each client, for requests that are repeated. Small ones without a
  /// session are kept too, as many as a shard has places for (recent_replies).
  std::size_t reply_cache_bytes = std::size_t{1} << 20U;
  /// A client with nothing in flight is forgotten after this long without a message.
  std::chrono::nanoseconds idle_timeout = std::chrono::minutes{10};
  /// A client whose connection has ended keeps its place for this long, unless another client needs it.
  std::chrono::nanoseconds resume_grace = std::chrono::seconds{10};
  std::uint32_t max_subscriptions = 64;  ///< of all clients of a shard; 0: nobody may subscribe

  bool operator==(const client_settings&) const = default;
};

/// What the daemon may hold for all peers together.
struct limit_settings {
  /// Host memory for requests, replies under way, queues, caches and arenas; 0: a quarter of the machine's, or of what
  /// its control group allows.
  std::size_t memory = 0;

  bool operator==(const limit_settings&) const = default;
};

/// The sessions that a shard keeps.
struct session_settings {
  std::uint32_t max_sessions = 64;    ///< open at once on a shard
  std::uint32_t max_per_client = 32;  ///< of them, each client's; half of them, where nothing is said
  /// A session with nothing in flight is closed after this long without a frame.
  std::chrono::nanoseconds idle_timeout = std::chrono::minutes{10};

  bool operator==(const session_settings&) const = default;
};

/// How much of the work is timed, and how much of that a shard remembers.
struct timing_settings {
  std::uint32_t batches_per_second = 200;  ///< timed with device events; 0: none
  std::uint32_t recent_batches = 4096;     ///< the last batches whose times are kept

  bool operator==(const timing_settings&) const = default;
};

/// Where the admin endpoint answers: health, metrics, status.
struct admin_settings {
  std::vector<std::string> listen{"127.0.0.1:7680"};  ///< as parse_admin_address reads them; none: there is no endpoint
  std::vector<std::string> names{};                   ///< that it may be asked by, beside addresses and localhost
  bool insecure_beyond_loopback = false;              ///< `listen` may be reached from beyond this machine

  bool operator==(const admin_settings&) const = default;
};

/// Who may connect. Either both files are given or none.
struct security_settings {
  std::filesystem::path secret_key_file{};       ///< the daemon's; "": no encryption, and whoever can connect may
  std::filesystem::path authorized_keys_file{};  ///< public keys of the clients that may connect
  bool insecure_plaintext_beyond_loopback = false;
  std::uint32_t ipc_mode = 0660;  ///< of the files of ipc endpoints
  std::string ipc_group{};        ///< theirs; "": the process's own
  /// A connection that has not finished its handshake after this long is closed.
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds{5};

  [[nodiscard]] bool encrypts() const noexcept { return !secret_key_file.empty(); }

  bool operator==(const security_settings&) const = default;
};

/// Memory that clients on the same machine share with the daemon.
struct shared_memory_settings {
  std::size_t max_bytes = std::size_t{1} << 30U;           ///< of all of it together; 0: none is shared
  std::size_t max_client_bytes = std::size_t{256} << 20U;  ///< of one client's, of either kind
  std::size_t max_device_bytes = std::size_t{1} << 30U;    ///< of device memory, of all clients together; 0: none
  /// The Unix socket where it is fetched: a path, "@NAME" for an abstract one, "" for an abstract one of any name.
  std::string socket{};

  bool operator==(const shared_memory_settings&) const = default;
};

/// Users' code that stages may run.
struct code_settings {
  std::vector<std::string> allow{};  ///< files, and folders of files, relative to the configuration's folder
  /// The folder of machine code between starts: a path; "" for none; "auto": $CACHE_DIRECTORY/code, else that of the
  /// user's.
  std::string cache = "auto";
  bool proof = true;  ///< prove_code

  bool operator==(const code_settings&) const = default;
};

/// The whole configuration file, checked.
struct settings {
  daemon_settings daemon;
  device_settings device;
  stream_pool_settings stream_pool;
  client_settings clients;
  limit_settings limits;
  session_settings sessions;
  timing_settings timing;
  shared_memory_settings shared_memory;
  admin_settings admin;
  security_settings security;
  code_settings code;
  std::vector<pipeline_declaration> pipelines;
  std::vector<source_declaration> sources{};
  std::vector<sink_declaration> sinks{};
  std::vector<refused_pipeline> refused{};  ///< no part of the file: see quarantine
};

/// Reads, parses and checks a configuration file, and the .npy files that it names. Throws configuration_error, which
/// names file, line and key (and pipeline, stage and field where it is about one).
[[nodiscard]] settings load_settings(const std::filesystem::path& file);
/// The same from text; `name` stands for the file in messages, and .npy files are looked for in its folder.
[[nodiscard]] settings parse_settings(std::string_view text, const std::string& name);
/// Refuses what [admin] may not be. parse_settings calls it; call it again after changing addresses. Throws
/// configuration_error.
void check_admin(const admin_settings& admin);
/// Refuses malformed endpoints, and plain text where other machines can connect unless the configuration allows it.
/// parse_settings calls it; call it again after changing endpoints. Throws configuration_error.
void check_exposure(const settings& settings);

/// The effective configuration as TOML, defaults filled in; parse_settings reads it back to the same settings.
[[nodiscard]] std::string print_settings(const settings& settings);
enum class manual_format {
  toml,  ///< each table with its defaults and a line of help on each key, as in penstock.toml
  man    ///< each table with all that is known of each key, as in penstock.toml(5)
};
/// All tables and keys that there are.
[[nodiscard]] std::string print_manual(manual_format format);

/// Stands for a configuration as a whole, with the contents of the files that it names: 16 hexadecimal digits
/// (FNV-1a) of what print_settings says of it.
[[nodiscard]] std::string configuration_hash(const settings& settings);
/// Whether both declare the same, wherever they stand.
[[nodiscard]] bool same_pipeline(const pipeline_declaration& left, const pipeline_declaration& right);
/// The tunable numbers that differ, with those of `wanted`, or without a value where it leaves one out; nullopt if
/// anything else differs too.
[[nodiscard]] std::optional<std::vector<wire::number_setting>> tuned_changes(const pipeline_declaration& before,
                                                                             const pipeline_declaration& wanted);
/// What `wanted` has different from what the daemon started with and only a restart can change, a line each:
/// "[device] streams = 4". Also larger requests than the sockets were opened for, and timing where the daemon started
/// without.
[[nodiscard]] std::vector<std::string> needs_restart(const settings& started, const settings& wanted);

/// What a shard is told to do on a machine with so many processors, which all shards share: what the configuration
/// leaves to the machine is filled in, and a shard spins only where another thread does not wait for its processor.
[[nodiscard]] settings fitted(settings settings, std::size_t shards, std::size_t processors);

/// A value of the configuration and its word in the file and on the command line.
template <typename Value>
struct named_value {
  std::string_view name;
  Value value;
};

template <typename Value, std::size_t Count>
[[nodiscard]] constexpr std::array<std::string_view, Count> words_of(
    const std::array<named_value<Value>, Count>& values) noexcept {
  std::array<std::string_view, Count> words;
  for (std::size_t index = 0; index < Count; ++index) {
    words[index] = values[index].name;
  }
  return words;
}

inline constexpr std::array<named_value<backend_choice>, 3> backend_names{
    {{"auto", backend_choice::automatic}, {"cuda", backend_choice::cuda}, {"host", backend_choice::host}}};
inline constexpr std::array<named_value<completion_mode>, 3> completion_names{
    {{"callback", completion_mode::callback}, {"poll", completion_mode::poll}, {"auto", completion_mode::automatic}}};
inline constexpr std::array<named_value<stream_priority>, 3> priority_names{
    {{"low", stream_priority::low}, {"normal", stream_priority::normal}, {"high", stream_priority::high}}};
inline constexpr std::array<named_value<overflow_policy>, 2> overflow_names{
    {{"reject", overflow_policy::reject}, {"drop-oldest", overflow_policy::drop_oldest}}};
inline constexpr std::array<std::string_view, 5> log_levels{"trace", "debug", "info", "warn", "error"};
inline constexpr std::array<std::string_view, 15> element_names{
    "u8", "u16", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "cf32", "cu8", "ci8", "ci16", "bool"};

}  // namespace penstock
