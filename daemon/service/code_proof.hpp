#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/exit_code.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/service/start.hpp"

namespace penstock {

/// The argument that makes penstockd the process that runs users' code on made-up frames.
inline constexpr std::string_view prove_flag = "--prove-code";

struct proof_options {
  /// The program that becomes that process. It gets this process's arguments, and prove_flag.
  std::filesystem::path program = "/proc/self/exe";
  std::chrono::seconds time_limit{60};  ///< of one stage
};

/// Has the users' code of these pipelines run on made-up frames (kernels/proof.hpp), by a process of its own, which it
/// can crash, hang, or lose the device of. A stage with the same code, parameters, shapes and architecture that was
/// proven once is not run again as long as the cache of machine code knows it. Returns how many stages were run.
///
/// `architecture`: of the first device; "" for the host. Throws configuration_error, with pipeline, stage and the rule
/// that is broken, and device_error if the process does not do its work.
std::size_t prove_code(std::span<const pipeline_declaration* const> pipelines, const std::string& architecture,
                       const compile_options& code, const proof_options& options = {});

/// Compiles the users' code of these pipelines for these devices, and proves it on the first of them if the settings
/// ask for that. Throws as prove_code does.
[[nodiscard]] prepared_code prepare_and_prove(const code_settings& code,
                                              std::span<const pipeline_declaration* const> pipelines,
                                              std::span<const device* const> devices);
/// Of all pipelines.
[[nodiscard]] prepared_code prepare_and_prove(const settings& settings, std::span<const device* const> devices);

/// What that process does: reads keys of stages (plan_stage::code_key) from standard input and proves those; writes one
/// line for each step to `answers`, which become_child has returned.
[[nodiscard]] exit_code run_proof_process(const settings& settings, int answers);

}  // namespace penstock
