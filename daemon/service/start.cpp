#include "daemon/service/start.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/un.h>

#include "base/memory_budget.hpp"
#include "base/process_limits.hpp"
#include "daemon/batch/slot_ring.hpp"
#include "daemon/code/code_cache.hpp"
#include "daemon/code/stage_code.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/net/shard_directory.hpp"
#include "daemon/net/welcome.hpp"
#include "daemon/pipeline/plan.hpp"
#include "penstock_version.hpp"

namespace penstock {
namespace {

using clock = std::chrono::steady_clock;

}  // namespace

start_progress::step::step(start_progress& progress, std::uint32_t shard, std::string text)
    : progress_(progress), shard_(shard) {
  const std::lock_guard lock(progress_.mutex_);
  progress_.steps_[shard_] = {std::move(text), clock::now()};
}

start_progress::step::~step() {
  const std::lock_guard lock(progress_.mutex_);
  const auto mine = progress_.steps_.find(shard_);
  if (const auto time = clock::now() - mine->second.since; time > long_step) {
    spdlog::info("shard {}: {}: that took {:.1f} s", shard_, mine->second.text,
                 std::chrono::duration<double>(time).count());
  }
  progress_.steps_.erase(mine);
}

std::optional<start_progress::longest> start_progress::slowest() const {
  const clock::time_point now = clock::now();
  const std::lock_guard lock(mutex_);
  std::optional<longest> found;
  for (const auto& [shard, each] : steps_) {
    if (!found || now - each.since > found->time) {
      found = {fmt::format("shard {}: {}", shard, each.text), now - each.since};
    }
  }
  return found;
}

namespace {

constexpr std::string_view ipc = "ipc://";

// The host is one device; where every device is asked for, how many there are is the machine's.
std::size_t shards_of(const settings& settings, bool on_host) noexcept {
  const bool one = settings.device.every_device || on_host;
  return static_cast<std::size_t>(settings.device.shards) * (one ? 1 : settings.device.ids.size());
}

// As long as they can become: a port that is any free one has five digits.
std::vector<std::vector<std::string>> longest_endpoints(const settings& settings) {
  constexpr std::string_view longest_port = "65535";
  std::vector<std::vector<std::string>> all =
      endpoints_of_all(settings.daemon.listen, shards_of(settings, settings.device.backend == backend_choice::host));
  for (std::vector<std::string>& of_shard : all) {
    for (std::string& each : of_shard) {
      if (each.starts_with(ipc) && each.size() - ipc.size() >= sizeof(sockaddr_un::sun_path)) {
        throw configuration_error(fmt::format("daemon.listen: the path of {} has {} bytes; the system takes at most {}",
                                              each, each.size() - ipc.size(), sizeof(sockaddr_un::sun_path) - 1));
      }
      if (each.ends_with(":*")) {
        each.replace(each.size() - 1, 1, longest_port);
      }
    }
  }
  return all;
}

void check_welcome(const settings& settings, const std::vector<plan>& plans) {
  const std::string server = std::string("penstockd ") + version;
  const std::string instance(16, '0');
  served_pipelines served;
  for (const plan& each : plans) {
    served.in_order.push_back(&each);
  }
  shard_directory among(longest_endpoints(settings));
  const std::size_t shared = std::min(settings.shared_memory.max_bytes, settings.shared_memory.max_client_bytes);
  const std::size_t on_device = std::min(settings.shared_memory.max_device_bytes, shared);
  (void)welcome_bodies({server, instance, 0, among.size() > 1 ? &among : nullptr, served, settings.clients, shared,
                        on_device, std::string(32, '0')});
}

std::size_t product(std::size_t left, std::size_t right) noexcept {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  return right != 0 && left > most / right ? most : left * right;
}

std::size_t sum(std::size_t left, std::size_t right) noexcept {
  return left + std::min(right, std::numeric_limits<std::size_t>::max() - left);
}

}  // namespace

void check_memory(const settings& settings, std::span<const plan> plans, bool on_host) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20U;
  const slot_size slot = size_for(plans);
  const std::size_t bytes = sum(sum(slot.pinned_input, slot.pinned_output), on_host ? slot.workspace : 0);
  const std::size_t shards = shards_of(settings, on_host);
  const std::size_t slots = product(bytes, product(static_cast<std::size_t>(settings.stream_pool.slots), shards));
  std::size_t states = 0;
  for (const plan& each : plans) {
    const std::size_t kept = product(each.state_bytes, product(2 * shards, settings.sessions.max_sessions));
    states = sum(states, on_host ? kept : 0);
  }
  const std::size_t available = read_machine_share().memory_bytes;
  if (sum(slots, states) > available) {
    throw configuration_error(fmt::format(
        "the slots take {} MiB and the states of sessions {} MiB, but this machine has {} MiB for the daemon: give "
        "fewer [device] slots or shards, smaller batches, or a lower sessions.max_sessions",
        slots / mebibyte, states / mebibyte, available / mebibyte));
  }
}

namespace {

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / static_cast<double>(std::size_t{1} << 20U));
}

std::string text_of_costs(const settings& settings, const std::vector<plan>& plans) {
  const bool on_host = settings.device.backend == backend_choice::host;
  const char* const there = on_host ? "in its arena" : "on the device";
  std::string text;
  std::size_t states = 0;
  for (const plan& each : plans) {
    text += fmt::format("pipeline '{}': a batch has up to {} frames; its slot takes {} in, {} out and {} {}",
                        each.declaration.name, each.max_frames, mebibytes(each.pinned_input_bytes),
                        mebibytes(each.pinned_output_bytes), mebibytes(each.device_bytes), there);
    if (each.keeps_state()) {
      text += fmt::format(", each of {} sessions {}", settings.sessions.max_sessions, mebibytes(2 * each.state_bytes));
    }
    text += '\n';
    states = sum(states, product(2 * each.state_bytes, settings.sessions.max_sessions));
  }
  const slot_size slot = size_for(plans);
  const std::size_t shards = shards_of(settings, on_host);
  const std::size_t slots = product(static_cast<std::size_t>(settings.stream_pool.slots), shards);
  const std::size_t pinned = product(slots, sum(slot.pinned_input, slot.pinned_output));
  const std::size_t device = sum(product(slots, slot.workspace), product(shards, states));
  text += fmt::format("{} slots as large as the largest, and the states: {} of the host's memory", slots,
                      mebibytes(on_host ? sum(pinned, device) : pinned));
  text += on_host ? "\n"
                  : fmt::format(" and about {} of the devices', as much of the host's where that is the device\n",
                                mebibytes(device));
  const std::size_t machine = read_machine_share().memory_bytes;
  const std::size_t most =
      on_host || settings.device.backend == backend_choice::automatic ? sum(pinned, device) : pinned;
  if (most > machine / 4) {
    text += fmt::format(
        "warning: that can be {} of the {} that this machine has for the daemon: give fewer [device] slots, smaller "
        "batches (max_frames, max_bytes), or a lower sessions.max_sessions\n",
        mebibytes(most), mebibytes(machine));
  }
  return text;
}

}  // namespace

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The folder for machine code; "" for none.
std::filesystem::path cache_folder(const code_settings& code) {
  if (code.cache != "auto") {
    return code.cache;
  }
  if (const std::filesystem::path own = systemd_folder("CACHE_DIRECTORY"); !own.empty()) {
    return own / "code";
  }
  if (const std::string users = variable("XDG_CACHE_HOME"); users.starts_with('/')) {
    return std::filesystem::path(users) / "penstock" / "code";
  }
  const std::string home = variable("HOME");
  return home.starts_with('/') && home != "/" ? std::filesystem::path(home) / ".cache" / "penstock" / "code"
                                              : std::filesystem::path{};
}

}  // namespace

std::filesystem::path systemd_folder(const char* variable_name) {
  // Several have colons between.
  const std::string folders = variable(variable_name);
  return folders.starts_with('/') ? folders.substr(0, folders.find(':')) : "";
}

std::set<std::string> architectures_of(std::span<const device* const> devices) {
  std::set<std::string> all;
  for (const device* const each : devices) {
    all.insert(each->facts().architecture);
  }
  all.erase("");
  return all;
}

prepared_code prepare_code(const code_settings& code, std::span<const pipeline_declaration* const> pipelines,
                           const std::set<std::string>& architectures) {
  std::vector<compile_request> requests;
  for (const pipeline_declaration* const pipeline : pipelines) {
    for (const stage_declaration& stage : pipeline->stages) {
      for (const std::string& architecture : architectures) {
        if (std::optional<compile_request> request = request_of(stage.settings, architecture)) {
          requests.push_back(std::move(*request));
        }
      }
    }
  }
  prepared_code made;
  made.kernels = requests.size();
  const bool compiles = !architectures.empty();
  const bool uses_code = std::any_of(pipelines.begin(), pipelines.end(), [&](const pipeline_declaration* pipeline) {
    return std::any_of(pipeline->stages.begin(), pipeline->stages.end(), [&](const stage_declaration& stage) {
      return runs_users_code(stage) || (compiles && stage.op == "map");
    });
  });
  if (!uses_code) {
    return made;
  }
  const std::filesystem::path folder = cache_folder(code);
  made.complaint = folder.empty() ? "" : code_cache::prepare(folder);
  made.options.compiler.cache = made.complaint.empty() ? folder : std::filesystem::path{};
  made.options.compiler.ahead = compile_ahead(requests, made.options.compiler);
  return made;
}

prepared_code prepare_code(const settings& settings, const std::set<std::string>& architectures) {
  std::vector<const pipeline_declaration*> all;
  for (const pipeline_declaration& each : settings.pipelines) {
    all.push_back(&each);
  }
  return prepare_code(settings.code, all, architectures);
}

std::string check_start(const settings& settings, const std::string& architecture) {
  prepared_code code = prepare_code(settings, architecture.empty() ? std::set<std::string>{} : std::set{architecture});
  code.options.checks_for = architecture;
  code.options.may_be_gpu = !architecture.empty() || may_take_cuda(settings.device);
  const std::unique_ptr<device> host = open_host_device(1);
  std::vector<plan> plans;
  for (const pipeline_declaration& each : settings.pipelines) {
    plans.push_back(compile_plan(each, static_cast<std::uint32_t>(plans.size()), *host,
                                 static_cast<std::uint32_t>(settings.stream_pool.streams), code.options));
  }
  check_welcome(settings, plans);
  // What lies on the device is counted where that is the host for certain.
  check_memory(settings, plans, !code.options.may_be_gpu);
  std::string text = text_of_costs(settings, plans);
  text += code.complaint.empty() ? "" : "warning: the cache of machine code is not used: " + code.complaint + "\n";
  for (const plan& each : plans) {
    for (const plan_stage& stage : each.stages) {
      text += stage.code.empty()
                  ? ""
                  : fmt::format("pipeline '{}', stage '{}': {}\n", each.declaration.name, stage.name, stage.code);
    }
  }
  return text;
}

}  // namespace penstock
