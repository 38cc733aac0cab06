#include "daemon/config/settings_table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "daemon/config/endpoint.hpp"
#include "proto/message.hpp"

namespace penstock {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::size_t largest_size = std::size_t{1} << 40U;
constexpr duration_kind idle_timeout{seconds(1), hours(24 * 365)};
constexpr change by_reload = change::by_reload;
constexpr change by_restart = change::by_restart;

/// Where clients connect.
struct endpoints_kind : texts_kind {
  void read(table_reader& table, std::string_view key, std::vector<std::string>& value) const {
    texts_kind::read(table, key, value);
    for (const std::string& endpoint : value) {
      if (const std::string fault = fault_of_endpoint(endpoint); !fault.empty()) {
        table.refuse_key(key, endpoint_complaint(endpoint, fault));
      }
      if (std::count(value.begin(), value.end(), endpoint) > 1) {
        table.refuse_key(key, "\"" + endpoint + "\" is given twice");
      }
    }
  }
};

/// "all", or the numbers of devices.
struct devices_kind {
  static constexpr int last_id = 63;

  [[nodiscard]] std::string summary() const {
    return "\"all\" or array of whole numbers, 0 to " + std::to_string(last_id);
  }
  void read(table_reader& table, std::string_view key, device_settings& device) const {
    const toml::node* node = table.find(key);
    if (node == nullptr) {
      return;
    }
    const std::string allowed =
        "\"all\", or an array of whole numbers from 0 to " + std::to_string(last_id) + ", at least one";
    if (const auto* text = node->as_string(); text != nullptr && text->get() == "all") {
      device.every_device = true;
      return;
    }
    const auto* array = node->as_array();
    if (array == nullptr || array->empty()) {
      table.refuse_value(key, *node, allowed);
    }
    device.ids.clear();
    for (const toml::node& element : *array) {
      const std::optional<std::int64_t> id = element.value_exact<std::int64_t>();
      if (!id || *id < 0 || *id > last_id) {
        table.refuse_value(key, element, allowed);
      }
      if (std::find(device.ids.begin(), device.ids.end(), *id) != device.ids.end()) {
        table.refuse_key(key, std::to_string(*id) + " is given twice");
      }
      device.ids.push_back(static_cast<int>(*id));
    }
  }
  [[nodiscard]] std::string print(const device_settings& device) const {
    return device.every_device ? toml_string("all") : toml_array(device.ids, [](int id) { return std::to_string(id); });
  }
};

/// max_sessions, from which the default of max_per_client follows: one client does not take every place.
struct session_places_kind {
  integer_kind number{1, 1 << 16};

  [[nodiscard]] std::string summary() const { return number.summary(); }
  void read(table_reader& table, std::string_view key, session_settings& sessions) const {
    number.read(table, key, sessions.max_sessions);
    sessions.max_per_client = std::max(sessions.max_sessions / 2, 1U);
  }
  [[nodiscard]] std::string print(const session_settings& sessions) const {
    return number.print(sessions.max_sessions);
  }
};

/// The path of a Unix socket, or "@NAME", or "".
struct socket_kind : text_kind {
  // What the system takes: sockaddr_un has room for so many bytes, the last of them 0.
  static constexpr std::size_t longest_name = 107;

  void read(table_reader& table, std::string_view key, std::string& value) const {
    text_kind::read(table, key, value);
    const bool is_named = value.starts_with('/') || (value.starts_with('@') && value.size() > 1);
    if ((!value.empty() && !is_named) || value.size() > longest_name) {
      table.refuse_key(key, "\"" + value +
                                "\" is given; allowed is the path of a socket, from / on, or \"@NAME\", of at most " +
                                std::to_string(longest_name) + " bytes, or \"\" for a name that the daemon chooses");
    }
  }
};

/// The path of a folder, or "auto", or "".
struct cache_kind : text_kind {
  void read(table_reader& table, std::string_view key, std::string& value) const {
    text_kind::read(table, key, value);
    if (!value.empty() && value != "auto" && !value.starts_with('/')) {
      table.refuse_key(key, "\"" + value +
                                "\" is given; allowed is the path of a folder, from / on, or \"auto\", or "
                                "\"\" for none");
    }
  }
};

/// A file's mode.
struct mode_kind {
  [[nodiscard]] std::string summary() const { return "four octal digits in quotes"; }
  void read(table_reader& table, std::string_view key, std::uint32_t& value) const {
    const toml::node* const node = table.find(key);
    if (node == nullptr) {
      return;
    }
    const auto* const text = node->as_string();
    const std::string_view digits = text == nullptr ? std::string_view{} : std::string_view{text->get()};
    if (digits.size() != 4 || digits.front() != '0' || digits.find_first_not_of("01234567") != digits.npos) {
      table.refuse_value(key, *node, "a file mode as four octal digits in quotes: \"0660\", \"0600\", \"0666\"");
    }
    value = static_cast<std::uint32_t>(std::stoul(text->get(), nullptr, 8));
  }
  [[nodiscard]] std::string print(std::uint32_t value) const {
    std::array<char, 8> mode{};
    std::snprintf(mode.data(), mode.size(), "%04o", static_cast<unsigned>(value));
    return toml_string(mode.data());
  }
};

/// Where HTTP is answered; "" and [] are nowhere. check_admin looks at the addresses, once the whole table is read.
struct addresses_kind : texts_kind {
  void read(table_reader& table, std::string_view key, std::vector<std::string>& value) const {
    const toml::node* const node = table.find(key);
    if (node == nullptr) {
      return;
    }
    const auto* const array = node->as_array();
    if (node->value_exact<std::string>() == "" || (array != nullptr && array->empty())) {
      value.clear();
      return;
    }
    texts_kind::read(table, key, value);
  }
  [[nodiscard]] std::string print(const std::vector<std::string>& value) const {
    return toml_array(value, toml_string);
  }
};

/// Names of hosts, as a Host header can have them.
struct host_names_kind : texts_kind {
  void read(table_reader& table, std::string_view key, std::vector<std::string>& value) const {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    texts_kind::read(table, key, value);
    for (const std::string& name : value) {
      if (name.empty() || name.size() > 253 || name.find_first_not_of(letters) != name.npos) {
        table.refuse_key(key, "\"" + name + "\" is given; allowed are hosts' names in small letters, without a port");
      }
    }
  }
};

settings_section daemon_section() {
  const settings_of row(&settings::daemon);
  return {"daemon",
          "",
          {row("listen", &daemon_settings::listen, endpoints_kind{}, by_restart,
               "Where the daemon listens for clients; see [security] for others than loopback. "
               "An endpoint of ZeroMQ, `tcp://HOST:PORT` or `ipc://PATH`, or an array of several. "
               "An IPv6 address stands in brackets, `tcp://[::1]:7600`; `*` is every address of both kinds, so that "
               "`tcp://*:7600` lets the whole network in."),
           row("drain_timeout", &daemon_settings::drain_timeout, duration_kind{nanoseconds(0), hours(1)}, by_reload,
               "How long requests in flight have to finish after SIGTERM."),
           row("log_level", &daemon_settings::log_level, word_kind{log_levels}, by_reload,
               "The least severe messages that are logged."),
           row("io_threads", &daemon_settings::io_threads, integer_kind{0, 16}, by_restart,
               "ZeroMQ's threads of each shard; 0: one for 4 processors, up to 4. "
               "Each connection is served by one of them. "
               "0 counts the processors that each shard can have."),
           row("spin", &daemon_settings::spin, duration_kind{nanoseconds(0), milliseconds(10)}, by_restart,
               "How long a shard without work looks for more before it sleeps. "
               "Waking it takes tens of microseconds. "
               "It applies only where there are at least four processors for each shard.")}};
}

settings_section device_section() {
  const settings_of device(&settings::device);
  const settings_of pool(&settings::stream_pool);
  return {
      "device",
      "",
      {device("backend", &device_settings::backend, named_kind{backend_names}, by_restart,
              "`auto` takes CUDA where it works, else the host. "
              "`cuda` and `host` take no other."),
       device("ids", devices_kind{}, by_restart, "Which GPUs; `\"all\"` takes every one."),
       device("shards", &device_settings::shards, integer_kind{1, 64}, by_restart,
              "Shards on each GPU, each with a thread, streams and slots of its own."),
       device("host_threads", &device_settings::host_threads, integer_kind{0, 1024}, by_restart,
              "Worker threads of the host backend; 0: one for each processor. "
              "Batches that take less time than a hand-over to a worker, as measured at the start, run on the "
              "shard's own thread."),
       pool("streams", &stream_pool_settings::streams, integer_kind{1, 64}, by_restart,
            "Batches that can be on the device at once."),
       pool("slots", &stream_pool_settings::slots, integer_kind{2, 4096}, by_restart,
            "Batches that have memory: filling, on the device, being sent back."),
       pool("completion", &stream_pool_settings::completion, named_kind{completion_names}, by_restart,
            "How the end of a batch is noticed. "
            "`poll` is quicker than `callback` and costs a processor core. "
            "`auto` polls on a GPU for batches that take up to a millisecond, where there are two processors for "
            "each shard."),
       pool("hang_timeout", &stream_pool_settings::hang_timeout, duration_kind{milliseconds(10), hours(1)}, by_reload,
            "A batch that takes longer is a hung device. "
            "Everything in flight fails, and the daemon exits.")}};
}

settings_section clients_section() {
  const settings_of row(&settings::clients);
  return {"clients",
          "",
          {row("credit_requests", &client_settings::credit_requests, integer_kind{1, 1 << 20}, by_reload,
               "Requests that each client may have in flight."),
           row("credit_bytes", &client_settings::credit_bytes, size_kind{1, largest_size}, by_reload,
               "Bytes that each client may have in flight."),
           row("max_clients", &client_settings::max_clients, integer_kind{1, 1 << 16}, by_reload,
               "Clients that are known at once."),
           row("max_request_bytes", &client_settings::max_request_bytes,
               size_kind{wire::part_bytes(1) + 1, largest_size}, by_reload,
               "The largest message that is accepted. "
               "A reload can't raise it above its value at the start."),
           row("reply_queue_bytes", &client_settings::reply_queue_bytes, size_kind{1, largest_size}, by_reload,
               "Replies kept for a slow client; beyond it, its results are dropped."),
           row("reply_cache_bytes", &client_settings::reply_cache_bytes, size_kind{0, largest_size}, by_reload,
               "Finished replies to frames of sessions, kept for each client. "
               "Frames of sessions never run twice: a client that asks again gets the reply that was kept. "
               "Of other small replies each shard keeps the last thousand or so; a request whose reply is gone runs "
               "again. "
               "0 keeps none."),
           row("idle_timeout", &client_settings::idle_timeout, idle_timeout, by_reload,
               "A client is forgotten after so long without a message. "
               "One with requests in flight or shared memory stays."),
           row("resume_grace", &client_settings::resume_grace, duration_kind{nanoseconds(0), hours(1)}, by_reload,
               "A client whose connection has ended keeps its place for so long. "
               "Its requests and sessions too, unless others need them."),
           row("max_subscriptions", &client_settings::max_subscriptions, integer_kind{0, 1 << 16}, by_reload,
               "Subscriptions to results on a shard; 0: nobody may subscribe. "
               "A subscriber gets the results of all clients. "
               "Each subscription takes memory for its queue out of limits.memory.")}};
}

settings_section limits_section() {
  const settings_of row(&settings::limits);
  return {"limits",
          "",
          {row("memory", &limit_settings::memory, size_kind{0, largest_size}, by_restart,
               "Host memory that all clients can make it hold; 0: a quarter of the machine's. "
               "Credits, replies under way, queues, caches and shared memory count. "
               "0 is a quarter of what the control group allows, where that is less than the machine has.")}};
}

settings_section sessions_section() {
  const settings_of row(&settings::sessions);
  return {"sessions",
          "",
          {row("max_sessions", session_places_kind{}, by_restart, "Sessions open at once on a shard."),
           row("max_per_client", &session_settings::max_per_client, integer_kind{1, 1 << 16}, by_restart,
               "Sessions of one client; half of max_sessions when left out."),
           row("idle_timeout", &session_settings::idle_timeout, idle_timeout, by_reload,
               "A session is closed after so long without a frame.")}};
}

settings_section timing_section() {
  const settings_of row(&settings::timing);
  return {"timing",
          "",
          {row("batches_per_second", &timing_settings::batches_per_second, integer_kind{0, 1'000'000}, by_reload,
               "Batches a second that are timed with device events; 0: none. "
               "A reload can't change it where it was 0 at the start."),
           row("recent_batches", &timing_settings::recent_batches, integer_kind{16, 1 << 20}, by_restart,
               "The last batches whose times are kept.")}};
}

settings_section shared_memory_section() {
  const settings_of row(&settings::shared_memory);
  return {"shared_memory",
          "Clients on this machine may write frames into memory that the device reads directly.",
          {row("max_bytes", &shared_memory_settings::max_bytes, size_kind{0, largest_size}, by_restart,
               "Memory that all clients together may share with the daemon; 0: none. "
               "It is pinned when a client asks for it."),
           row("max_client_bytes", &shared_memory_settings::max_client_bytes, size_kind{4096, largest_size}, by_restart,
               "Memory that one client may share with the daemon, and as much device memory."),
           row("max_device_bytes", &shared_memory_settings::max_device_bytes, size_kind{0, largest_size}, by_restart,
               "Device memory that all clients together may share with the daemon; 0: none. "
               "Only GPUs have such memory."),
           row("socket", &shared_memory_settings::socket, socket_kind{}, by_restart,
               "The Unix socket where clients fetch it: a path, `\"@NAME\"`, or `\"\"`. "
               "A path is a file, with `security.ipc_mode` and `security.ipc_group`. "
               "`\"@NAME\"` has no file; `\"\"` has none either, and any name.")}};
}

settings_section code_section() {
  const settings_of row(&settings::code);
  settings_section section{
      "code",
      "Stages may run code of users: kernels and plug-ins. "
      "It runs in the daemon, with all that the daemon may do. "
      "Such a file must belong to root or to the daemon's user, and nobody else may be able to change it.",
      {row("allow", &code_settings::allow, texts_kind{}, by_reload,
           "Files whose code may run, and folders of such files, relative to the configuration's folder. "
           "None when left out."),
       row("cache", &code_settings::cache, cache_kind{}, by_reload,
           "A folder that keeps machine code between starts, at most 256 MiB; `\"\"` for none. "
           "`\"auto\"` is `code` in systemd's `CACHE_DIRECTORY`, else `penstock/code` in the user's cache. "
           "It is not used where others than root and the daemon's user can write to it."),
       row("proof", &code_settings::proof, flag_kind{}, by_reload,
           "Whether users' code runs on made-up frames before it serves, in a process of its own. "
           "A stage is refused that writes beside its outputs, whose results depend on the other frames of a batch, "
           "or that crashes or hangs.")}};
  section.rows[0].example = "[\"kernels/\"]";
  return section;
}

settings_section security_section() {
  const settings_of row(&settings::security);
  return {"security",
          "Without keys, everyone who can connect may use every pipeline. "
          "With them each connection is encrypted, over ipc too, and needs a key of the list. "
          "Give both files or none; `penstock keygen` makes the keys.",
          {row("secret_key_file", &security_settings::secret_key_file, file_kind{}, by_restart,
               "The daemon's own key, which only the owner of the file may read."),
           row("authorized_keys_file", &security_settings::authorized_keys_file, file_kind{}, by_restart,
               "Public keys of the clients that may connect. "
               "A key a line, and a name behind it. "
               "Only the owner of the file may write to it. "
               "A reload reads it again."),
           row("insecure_plaintext_beyond_loopback", &security_settings::insecure_plaintext_beyond_loopback,
               flag_kind{}, by_restart,
               "Let other machines connect without keys. "
               "It is refused otherwise."),
           row("ipc_mode", &security_settings::ipc_mode, mode_kind{}, by_restart,
               "The mode of the files of ipc endpoints: who may write may connect."),
           row("ipc_group", &security_settings::ipc_group, text_kind{}, by_restart,
               "The group of these files; `\"\"` is the process's own."),
           row("handshake_timeout", &security_settings::handshake_timeout, duration_kind{milliseconds(100), minutes(1)},
               by_restart, "A connection is closed when its handshake takes longer.")}};
}

settings_section admin_section() {
  const settings_of row(&settings::admin);
  settings_section section{"admin",
                           "HTTP for health, metrics, status and reload.",
                           {row("listen", &admin_settings::listen, addresses_kind{}, by_restart,
                                "An address, or an array of several; `\"\"` for none. "
                                "Such as `127.0.0.1:7680`, `[::1]:7680` or `unix:/run/penstock/admin.sock`."),
                            row("names", &admin_settings::names, host_names_kind{}, by_restart,
                                "Host names in URLs of it, beside addresses and localhost."),
                            row("insecure_beyond_loopback", &admin_settings::insecure_beyond_loopback, flag_kind{},
                                by_restart, "Let other machines reach `listen`: they may reload, too.")}};
  section.rows[1].example = "[\"penstock\"]";
  return section;
}

}  // namespace

const std::vector<settings_section>& settings_table() {
  static const std::vector<settings_section> table{
      daemon_section(), device_section(),        clients_section(),  limits_section(), sessions_section(),
      timing_section(), shared_memory_section(), security_section(), code_section(),   admin_section()};
  return table;
}

void check_admin(const table_reader& table, const admin_settings& admin) {
  constexpr const char* allowed =
      "\"ADDRESS:PORT\" with a numeric address or localhost, \"unix:/PATH\", or \"\" for none";
  for (const std::string& text : admin.listen) {
    const std::optional<admin_address> address = parse_admin_address(text);
    if (!address) {
      table.refuse_key("listen", "\"" + text + "\" is given; allowed is " + allowed);
    }
    if (std::count(admin.listen.begin(), admin.listen.end(), text) > 1) {
      table.refuse_key("listen", "\"" + text + "\" is given twice");
    }
    if (!address->is_local() && !admin.insecure_beyond_loopback) {
      table.refuse_key("listen",
                       "\"" + text + "\" can be reached from beyond this machine, and anyone who reaches it may " +
                           "read everything and reload; if that is wanted, say " + "insecure_beyond_loopback = true");
    }
  }
}

std::string endpoint_complaint(const std::string& endpoint, const std::string& fault) {
  return "\"" + endpoint + "\" is given; allowed is tcp://HOST:PORT, ipc://PATH (" + fault + ")";
}

}  // namespace penstock
