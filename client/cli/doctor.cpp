#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>

#include "base/finding.hpp"
#include "base/quantity.hpp"
#include "client/cli/admin_http.hpp"
#include "client/cli/child_output.hpp"
#include "client/cli/commands.hpp"

namespace penstock::cli {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr std::chrono::nanoseconds longest_wait = 2s;

struct doctor_options {
  std::string config = "/etc/penstock/penstock.toml";
  std::string daemon;
  std::optional<admin_address> admin;
  bool json = false;
  bool running = false;
};

/// Beside this program, otherwise in PATH.
std::string find_daemon() {
  std::error_code failed;
  const fs::path folder = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (const char* const relative : {"penstockd", "../sbin/penstockd"}) {
    const fs::path place = (folder / relative).lexically_normal();
    if (fs::exists(place, failed)) {
      return place.string();
    }
  }
  return "penstockd";
}

std::vector<finding> ask_program(const doctor_options& options) {
  const std::string program = options.daemon.empty() ? find_daemon() : options.daemon;
  finding missing{.check = "penstockd",
                  .level = severity::warning,
                  .found = program,
                  .needed = "the daemon's program",
                  .why = "it is what looks at the machine and at the configuration: neither was checked",
                  .todo = "install it, or name it with --daemon; on a client's machine this does no harm"};
  try {
    const child_output said = output_of({program, "--doctor", "--format", "json", "--config", options.config});
    if (auto findings = read_findings(said.text)) {
      return std::move(*findings);
    }
    missing.found += " --doctor ended with " + std::to_string(said.exit_code) + " and without findings";
    missing.level = severity::error;
  } catch (const std::system_error& failed) {
    missing.found += ": " + failed.code().message();
  }
  return {missing};
}

/// The time of a round trip, or why it failed.
struct ping_outcome {
  std::optional<std::chrono::nanoseconds> time;
  std::string trouble{};
};

ping_outcome try_ping(const global_options& global) {
  try {
    client_options options = client_options_of(global);
    const std::chrono::nanoseconds wait = std::min(global.timeout, longest_wait);
    options.connect_timeout = wait;
    client daemon{options};
    return {daemon.ping(wait)};
  } catch (const std::runtime_error& failed) {
    return {std::nullopt, failed.what()};
  }
}

/// The address of the admin HTTP, if known, and what is wrong with it.
struct admin_outcome {
  std::string address;
  std::string trouble{};
};

admin_outcome try_admin(const global_options& global, const std::optional<admin_address>& given, bool daemon_answers) {
  admin_outcome made{.address = "of the daemon at " + global.url};
  if (!given && global.url_given && !daemon_answers) {
    made.trouble = "its address is not known, because the daemon at " + global.url + " does not answer";
    return made;
  }
  try {
    const admin_address admin = admin_address_of(global, given);
    made.address = text_of(admin);
    made.trouble = admin_get(admin, "/livez", std::min(global.timeout, longest_wait)).status == 200
                       ? ""
                       : "the daemon's admin HTTP says that it is not well";
  } catch (const std::runtime_error& failed) {
    made.trouble = failed.what();
  }
  return made;
}

/// The finding when nothing answers: fine if the daemon need not run.
void add_reason(finding& result, severity level, std::string reason, std::string todo) {
  result.level = level;
  if (level != severity::good) {
    result.why = std::move(reason);
    result.todo = std::move(todo);
  }
}

/// The daemon need not run yet; but if one of its ports answers, the other must too.
std::vector<finding> ask_daemon(const global_options& global, const doctor_options& options) {
  const ping_outcome ping = try_ping(global);
  const admin_outcome admin = try_admin(global, options.admin, ping.time.has_value());
  const bool runs = ping.time || admin.trouble.empty();
  const severity trouble = options.running ? severity::error : runs ? severity::warning : severity::good;
  finding data{.check = "daemon", .found = global.url + " answers", .needed = "an answer from a daemon that runs"};
  if (ping.time) {
    data.found += " within " + duration_text(*ping.time);
  } else {
    data.found = runs ? ping.trouble : "none answers at " + global.url;
    add_reason(data, trouble, "clients get no answer there either",
               "systemctl status penstockd; --url for another address, --server-key and --key-file for keys");
  }
  finding http{.check = "admin HTTP", .found = admin.address + " answers", .needed = data.needed};
  if (!admin.trouble.empty()) {
    http.found = runs ? admin.trouble : "none answers: " + admin.address;
    add_reason(http, trouble, "penstock top, penstock reload and Prometheus need it",
               "set admin.listen in the configuration, or say where it is: --admin, PENSTOCK_ADMIN");
  }
  return {data, http};
}

int doctor(const global_options& global, const doctor_options& options) {
  std::vector<finding> findings = ask_program(options);
  for (finding& each : ask_daemon(global, options)) {
    findings.push_back(std::move(each));
  }
  std::cout << (options.json ? json_of(findings) : text_of(findings));
  return exit_code_of(findings);
}

}  // namespace

void declare_doctor(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "doctor", "Says what is wrong with this machine, the configuration or the daemon, before it bites");
  const auto options = std::make_shared<doctor_options>();
  command->add_option("-c,--config", options->config, "The daemon's configuration file")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_option("--daemon", options->daemon, "The daemon's program; else beside this one, or in PATH")
      ->type_name("FILE");
  add_admin_option(*command, options->admin);
  command->add_flag("--running", options->running, "The daemon has to run: it is an error when it does not answer");
  command->add_flag("--json", options->json, "The findings as one JSON object");
  command->footer("Exit codes: 0 all well, 1 warnings, 2 errors.");
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return doctor(global, *options); }; });
}

}  // namespace penstock::cli
