#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <penstock/client.hpp>

#include "client/cli/admin_http.hpp"

namespace penstock::cli {

/// What every command takes.
struct global_options {
  std::string url = "tcp://127.0.0.1:7600";
  bool url_given = false;  ///< by --url or PENSTOCK_URL
  std::string server_key;  ///< the daemon's public key; "": it asks for none
  std::string key_file;    ///< with the client's own key
  std::chrono::nanoseconds timeout = std::chrono::seconds{10};
  bool timeout_given = false;  ///< then the daemon is waited for so long, also while nobody listens
  penstock::transport transport = penstock::transport::automatic;
};

/// What `main` runs when the command line has been read; its value is the exit code.
using action = std::function<int()>;

// Each declares its command and sets `chosen` when it is the one that was asked for. All three must live longer.

void declare_ping(CLI::App& app, const global_options& global, action& chosen);
void declare_info(CLI::App& app, const global_options& global, action& chosen);
void declare_send(CLI::App& app, const global_options& global, action& chosen);
void declare_bench(CLI::App& app, const global_options& global, action& chosen);
void declare_trace(CLI::App& app, const global_options& global, action& chosen);
void declare_top(CLI::App& app, const global_options& global, action& chosen);
void declare_reload(CLI::App& app, const global_options& global, action& chosen);
void declare_doctor(CLI::App& app, const global_options& global, action& chosen);

void declare_keygen(CLI::App& app, action& chosen);

/// The options of a client for these.
[[nodiscard]] client_options client_options_of(const global_options& global);
/// The admin HTTP that is meant: `given` where there is one; where --url names a daemon, the one that this daemon says
/// that it has; else the default of a daemon on this machine. Throws connect_error, or std::runtime_error when that
/// daemon has none that can be reached from here.
[[nodiscard]] admin_address admin_address_of(const global_options& global, const std::optional<admin_address>& given);
/// The pipeline of that name. Throws std::runtime_error, which names those that there are.
[[nodiscard]] pipeline_info pipeline_of(const client& from, const std::string& name);
/// Adds --rate, a number greater than 0.
CLI::Option* add_rate(CLI::App& to, double& value, const std::string& help);
/// Adds an option whose value is a time such as "500ms".
CLI::Option* add_duration(CLI::App& to, const std::string& name, std::chrono::nanoseconds& value,
                          const std::string& help);

}  // namespace penstock::cli
