#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "daemon/config/settings.hpp"
#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"

namespace penstock {

/// A step of a start or a reload that takes longer is logged.
inline constexpr std::chrono::seconds long_step{1};

/// The steps in which the shards of a starting daemon are. A step that took more than a second is logged when it ends;
/// while it goes on, the admin's thread tells the service manager. Threads: any.
class start_progress {
 public:
  /// A step of a shard's start, for as long as this object lives.
  class step {
   public:
    step(start_progress& progress, std::uint32_t shard, std::string text);
    step(const step&) = delete;
    step& operator=(const step&) = delete;
    ~step();

   private:
    start_progress& progress_;
    std::uint32_t shard_;
  };

  /// The step that has gone on for the longest.
  struct longest {
    std::string text;  ///< "shard 0: pipeline 'fine' is compiled"
    std::chrono::steady_clock::duration time{};
  };
  [[nodiscard]] std::optional<longest> slowest() const;

 private:
  struct entry {
    std::string text;
    std::chrono::steady_clock::time_point since;
  };

  mutable std::mutex mutex_;
  std::map<std::uint32_t, entry> steps_;  // by shard
};

/// Users' code is compiled for `architecture`, such as "sm_90"; "": it is not.
///
/// Throws configuration_error or device_error for what a start would refuse, as far as that is known without the
/// device: pipelines that don't compile (for the host), more of them than WELCOME can describe, endpoints that shards
/// can't have, and slots that the machine has no memory for. What needs a GPU is refused where the settings say the
/// host, or leave the choice and there is no GPU. Returns lines for people: what each pipeline and all of
/// them cost in memory, and a warning where that is more than a quarter of the machine's.
[[nodiscard]] std::string check_start(const settings& settings, const std::string& architecture = "");

/// How users' code is compiled, and what is compiled already.
struct prepared_code {
  compile_options options;
  std::size_t kernels = 0;  ///< that were compiled, or found in the cache
  std::size_t proven = 0;   ///< stages that were run on made-up frames (prepare_and_prove)
  std::string complaint{};  ///< why the cache is not used, for people; "" if it is, or if none is wanted
};

/// Compiles the users' code of these pipelines for these architectures, in several processes at once, with the cache
/// that the settings ask for. What is wrong with the code is thrown by the compile_plan that asks for it.
[[nodiscard]] prepared_code prepare_code(const code_settings& code,
                                         std::span<const pipeline_declaration* const> pipelines,
                                         const std::set<std::string>& architectures);
/// Of all pipelines.
[[nodiscard]] prepared_code prepare_code(const settings& settings, const std::set<std::string>& architectures);
/// The first folder of a variable of systemd's, such as CACHE_DIRECTORY; "" for none.
[[nodiscard]] std::filesystem::path systemd_folder(const char* variable);
/// Those of devices that compile.
[[nodiscard]] std::set<std::string> architectures_of(std::span<const device* const> devices);

/// Throws configuration_error when the slots of all shards, and on the host backend the states of sessions as well,
/// need more memory than this process may have: the kernel would kill it, or others, in the middle of the start.
void check_memory(const settings& settings, std::span<const plan> plans, bool on_host);

}  // namespace penstock
