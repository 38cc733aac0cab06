#include "daemon/doctor/facts.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptors.hpp"
#include "base/process_limits.hpp"
#include "base/whole_file.hpp"
#include "daemon/batch/slot_ring.hpp"
#include "daemon/config/endpoint.hpp"
#include "daemon/pipeline/plan.hpp"

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

void add_unit_limits(std::string_view text, unit_facts& unit) {
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
      unit.locked_bytes = value;
    } else if (key == "LimitNOFILE" && value) {
      unit.open_files = value;
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

namespace {

std::vector<plan> compile_all(const settings& settings, device& device) {
  std::vector<plan> plans;
  for (const pipeline_declaration& each : settings.pipelines) {
    const auto id = static_cast<std::uint32_t>(plans.size());
    plans.push_back(compile_plan(each, id, device, static_cast<std::uint32_t>(settings.stream_pool.streams)));
  }
  return plans;
}

opened_facts facts_of(const std::vector<opened_device>& opened, backend_choice asked) {
  const device_facts& first = opened.front().device->facts();
  opened_facts made{.asked = asked,
                    .backend = first.backend,
                    .name = first.name + ", " + first.detail,
                    .reason = opened.front().reason,
                    .devices = opened.size(),
                    .memory_bytes = first.memory_bytes};
  for (const opened_device& each : opened) {
    made.memory_bytes = std::min(made.memory_bytes, each.device->facts().memory_bytes);
  }
  return made;
}

/// Of one shard, beside what it needs on the device.
struct shard_need {
  std::size_t slots = 0;
  slot_size slot;
  std::size_t state_bytes = 0;
};

shard_need need_of(const settings& settings, std::span<const plan> plans) {
  shard_need need{.slots = static_cast<std::size_t>(settings.stream_pool.slots), .slot = size_for(plans)};
  for (const plan& each : plans) {
    need.state_bytes += 2 * each.state_bytes * settings.sessions.max_sessions;
  }
  return need;
}

std::string pin(const std::vector<opened_device>& opened, std::size_t shards, const shard_need& need) {
  std::vector<device_memory> held;
  try {
    for (const opened_device& each : opened) {
      for (std::size_t slot = 0; slot < shards * need.slots; ++slot) {
        held.push_back(each.device->allocate_pinned(need.slot.pinned_input));
        held.push_back(each.device->allocate_pinned(need.slot.pinned_output));
      }
    }
  } catch (const device_error& error) {
    return error.what();
  }
  return "";
}

memory_facts try_memory(const std::vector<opened_device>& opened, std::size_t shards, const shard_need& need) {
  memory_facts made;
  const std::size_t slots = shards * need.slots;
  made.pinned_bytes = opened.size() * slots * (need.slot.pinned_input + need.slot.pinned_output);
  made.device_bytes = slots * need.slot.workspace + shards * need.state_bytes;
  made.available_bytes = read_machine_share().available_bytes;
  made.was_tried = made.pinned_bytes <= made.available_bytes;
  made.error = made.was_tried ? pin(opened, shards, need) : "";
  return made;
}

}  // namespace

void try_device(const settings& settings, doctor_facts& facts) {
  const auto shards = static_cast<std::size_t>(settings.device.shards);
  facts.load.shards = shards * (settings.device.every_device ? 1 : settings.device.ids.size());
  try {
    const std::vector<opened_device> opened = open_devices(settings.device);
    facts.device = facts_of(opened, settings.device.backend);
    facts.load.shards = shards * opened.size();
    if (facts.device.backend == "cuda") {
      facts.device.priorities = cuda_priorities(settings.device.every_device ? 0 : settings.device.ids.front());
    }
    const std::vector<plan> plans = compile_all(settings, *opened.front().device);
    facts.memory = try_memory(opened, shards, need_of(settings, plans));
  } catch (const std::runtime_error& error) {
    facts.device.asked = settings.device.backend;
    facts.device.error = error.what();
  }
}

namespace {

namespace fs = std::filesystem;

constexpr int patience_ms = 500;

file_descriptor stream_socket(int family) {
  return file_descriptor{::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
}

struct socket_address {
  sockaddr_storage bytes{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&bytes); }
};

/// What a daemon answers to `question`, when it is asked, begins like this.
struct greeting {
  std::string_view question;
  std::string_view answer;
};
// ZeroMQ's side sends the first byte of its signature by itself.
constexpr greeting of_data{"", "\xFF"};
constexpr greeting of_admin{"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 "};

bool answers(const socket_address& there, const greeting& wanted) {
  const file_descriptor mine = stream_socket(there.bytes.ss_family);
  if (::connect(mine.number(), there.get(), there.length) != 0 ||
      ::send(mine.number(), wanted.question.data(), wanted.question.size(), MSG_NOSIGNAL) < 0) {
    return false;
  }
  std::string got;
  pollfd readable{.fd = mine.number(), .events = POLLIN, .revents = 0};
  while (got.size() < wanted.answer.size() && ::poll(&readable, 1, patience_ms) == 1) {
    std::array<char, 64> part{};
    const ssize_t read = ::recv(mine.number(), part.data(), part.size(), 0);
    if (read <= 0) {
      break;
    }
    got.append(part.data(), static_cast<std::size_t>(read));
  }
  return got.starts_with(wanted.answer);
}

endpoint_facts facts(const std::string& endpoint, endpoint_state state, std::string detail = "") {
  return {endpoint, state, std::move(detail)};
}

bool has_ipv6() {
  return static_cast<bool>(stream_socket(AF_INET6));
}

/// Of an interface: its first address, IPv4 where it has one.
std::optional<socket_address> address_of_interface(const std::string& name, std::uint16_t port) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) {
    return std::nullopt;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(found, ::freeifaddrs);
  std::optional<socket_address> made;
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    const int family = each->ifa_addr == nullptr ? AF_UNSPEC : each->ifa_addr->sa_family;
    const bool is_better = family == AF_INET || (family == AF_INET6 && !made);
    if (name != each->ifa_name || !is_better) {
      continue;
    }
    made.emplace();
    made->length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&made->bytes, each->ifa_addr, made->length);
    auto& number = family == AF_INET ? reinterpret_cast<sockaddr_in&>(made->bytes).sin_port
                                     : reinterpret_cast<sockaddr_in6&>(made->bytes).sin6_port;
    number = htons(port);
    if (family == AF_INET) {
      break;
    }
  }
  return made;
}

/// As the daemon takes it: an address, "*", "localhost" or the name of an interface.
std::optional<socket_address> address_of(std::string host, const std::string& port) {
  if (host == "*") {
    host = has_ipv6() ? "::" : "0.0.0.0";
  } else if (host == "localhost") {
    host = "127.0.0.1";
  } else if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo wanted{};
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0) {
    std::uint16_t number = 0;
    std::from_chars(port.data(), port.data() + port.size(), number);
    return address_of_interface(host, number);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  socket_address made;
  made.length = found->ai_addrlen;
  std::memcpy(&made.bytes, found->ai_addr, found->ai_addrlen);
  return made;
}

endpoint_facts probe_tcp(const std::string& endpoint, const std::string& host, const std::string& port,
                         const greeting& greeting) {
  if (port == "*" || port == "0") {
    return facts(endpoint, endpoint_state::free);
  }
  const std::optional<socket_address> known = address_of(host, port);
  if (!known) {
    return facts(endpoint, endpoint_state::refused, "this machine has no interface '" + host + "' with an address");
  }
  const socket_address& there = *known;
  const file_descriptor mine = stream_socket(there.bytes.ss_family);
  if (!mine) {
    return facts(endpoint, endpoint_state::refused, std::strerror(errno));
  }
  const int yes = 1;
  ::setsockopt(mine.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(mine.number(), there.get(), there.length) == 0) {
    return facts(endpoint, endpoint_state::free);
  }
  if (errno != EADDRINUSE) {
    return facts(endpoint, endpoint_state::refused, std::strerror(errno));
  }
  return facts(endpoint, answers(there, greeting) ? endpoint_state::served : endpoint_state::taken);
}

endpoint_facts probe_file(const std::string& endpoint, const fs::path& path, const greeting& greeting) {
  std::error_code unreadable;
  const fs::file_status status = fs::symlink_status(path, unreadable);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  socket_address there;
  auto& name = reinterpret_cast<sockaddr_un&>(there.bytes);
  if (path.string().size() >= sizeof name.sun_path) {
    return facts(endpoint, endpoint_state::refused, "the path is too long for a socket");
  }
  name.sun_family = AF_UNIX;
  std::strcpy(name.sun_path, path.c_str());
  there.length = sizeof name;
  if (fs::exists(status)) {
    if (!fs::is_socket(status)) {
      return facts(endpoint, endpoint_state::refused, "there is a file that is no socket");
    }
    const file_descriptor mine = stream_socket(AF_UNIX);
    if (::connect(mine.number(), there.get(), there.length) == 0) {
      return facts(endpoint, answers(there, greeting) ? endpoint_state::served : endpoint_state::taken);
    }
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    return facts(endpoint, endpoint_state::refused, folder.string() + ": " + std::strerror(errno));
  }
  return facts(endpoint, endpoint_state::free);
}

}  // namespace

endpoint_facts probe_data_endpoint(const std::string& endpoint) {
  constexpr std::string_view tcp = "tcp://";
  constexpr std::string_view ipc = "ipc://";
  if (endpoint.starts_with(ipc)) {
    return probe_file(endpoint, endpoint.substr(ipc.size()), of_data);
  }
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(tcp) || colon < tcp.size()) {
    return facts(endpoint, endpoint_state::free);
  }
  return probe_tcp(endpoint, endpoint.substr(tcp.size(), colon - tcp.size()), endpoint.substr(colon + 1), of_data);
}

endpoint_facts probe_admin_endpoint(const std::string& address) {
  const auto parsed = parse_admin_address(address);
  const std::string shown = "admin " + address;
  if (!parsed) {
    return facts(shown, endpoint_state::refused, "no address");
  }
  return parsed->path.empty() ? probe_tcp(shown, parsed->host, std::to_string(parsed->port), of_admin)
                              : probe_file(shown, parsed->path, of_admin);
}

}  // namespace penstock
