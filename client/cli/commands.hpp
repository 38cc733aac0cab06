#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <penstock/client.hpp>

#include "client/cli/admin_http.hpp"

namespace penstock::cli {

/// Options of all commands.
struct global_options {
  std::string url = "tcp://127.0.0.1:7600";
  bool url_given = false;  ///< by --url or PENSTOCK_URL
  std::string server_key;  ///< the daemon's public key; "" = no encryption
  std::string key_file;    ///< holds the client's own key
  std::chrono::nanoseconds timeout = std::chrono::seconds{10};
  bool timeout_given = false;  ///< then also the time to wait while nobody listens
  penstock::transport transport = penstock::transport::automatic;
};

/// Runs the chosen command and returns the exit code.
using action = std::function<int()>;

// Each declares a subcommand, which sets `chosen` when the command line names it. The references must outlive `app`.

void declare_ping(CLI::App& app, const global_options& global, action& chosen);
void declare_info(CLI::App& app, const global_options& global, action& chosen);
void declare_send(CLI::App& app, const global_options& global, action& chosen);
void declare_bench(CLI::App& app, const global_options& global, action& chosen);
void declare_trace(CLI::App& app, const global_options& global, action& chosen);
void declare_top(CLI::App& app, const global_options& global, action& chosen);
void declare_replay(CLI::App& app, const global_options& global, action& chosen);
void declare_record(CLI::App& app, const global_options& global, action& chosen);
void declare_watch(CLI::App& app, const global_options& global, action& chosen);
void declare_reload(CLI::App& app, const global_options& global, action& chosen);
void declare_set(CLI::App& app, const global_options& global, action& chosen);
void declare_doctor(CLI::App& app, const global_options& global, action& chosen);

void declare_keygen(CLI::App& app, action& chosen);
void declare_check_plugin(CLI::App& app, action& chosen);

/// Options for a client.
[[nodiscard]] client_options client_options_of(const global_options& global);
/// The admin HTTP to use: `given` if set; with --url, the address that the daemon there reports; otherwise the default
/// on this machine. Throws connect_error, or std::runtime_error when that daemon has no address reachable from here.
[[nodiscard]] admin_address admin_address_of(const global_options& global, const std::optional<admin_address>& given);
/// Throws std::runtime_error, with the names of the existing pipelines, when there is none of that name.
[[nodiscard]] pipeline_info pipeline_of(client& connection, const std::string& name);
/// Throws std::runtime_error for a pipeline with several inputs, which `what` has no use for.
void require_one_input(const pipeline_info& pipeline, const std::string& what);
/// Adds --rate, a number greater than 0.
CLI::Option* add_rate(CLI::App& app, double& value, const std::string& help);
/// Adds an option for a duration such as "500ms".
CLI::Option* add_duration(CLI::App& app, const std::string& name, std::chrono::nanoseconds& value,
                          const std::string& help);

}  // namespace penstock::cli
