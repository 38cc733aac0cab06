#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "daemon/admin/service.hpp"
#include "daemon/exit_code.hpp"
#include "daemon/settings/settings.hpp"
#include "penstock_version.hpp"

namespace {

using namespace penstock;

struct command_line {
  std::string config = "/etc/penstock/penstock.toml";
  std::vector<std::string> listen;
  std::string backend;
  std::string completion;
  bool check = false;
  bool print = false;
};

void declare(CLI::App& app, command_line& line) {
  app.set_version_flag("--version", std::string("penstockd ") + version);
  app.add_option("-c,--config", line.config, "The configuration file")->capture_default_str();
  app.add_option("--listen", line.listen,
                 "Listen here instead (may be repeated): tcp://127.0.0.1:7600, ipc:///run/...");
  app.add_option("--backend", line.backend, "Take this device backend instead")
      ->check(CLI::IsMember({"auto", "cuda", "host"}));
  app.add_option("--completion", line.completion, "Take this completion mode instead")
      ->check(CLI::IsMember({"callback", "poll"}));
  app.add_flag("--check-config", line.check, "Check the configuration file and exit");
  app.add_flag("--print-config", line.print, "Print the configuration with every default filled in and exit");
}

settings read_settings(const command_line& line) {
  settings how = load_settings(line.config);
  if (!line.listen.empty()) {
    how.daemon.listen = line.listen;
  }
  if (!line.backend.empty()) {
    how.device.backend = line.backend == "cuda"   ? backend_choice::cuda
                         : line.backend == "host" ? backend_choice::host
                                                  : backend_choice::automatic;
  }
  if (!line.completion.empty()) {
    how.wheel.completion = line.completion == "poll" ? completion_mode::poll : completion_mode::callback;
  }
  return how;
}

void open_log(const std::string& level) {
  auto log = spdlog::stderr_color_mt("penstockd");
  log->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  log->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(log));
}

exit_code run(const command_line& line) {
  const settings how = read_settings(line);
  if (line.print) {
    std::fputs(print_settings(how).c_str(), stdout);
    return exit_code::ok;
  }
  if (line.check) {
    std::printf("%s: good, %zu pipelines\n", line.config.c_str(), how.pipelines.size());
    return exit_code::ok;
  }
  open_log(how.daemon.log_level);
  return service(how).run();
}

int fail(exit_code code, const char* what) {
  std::fprintf(stderr, "penstockd: %s\n", what);
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"penstockd puts live data on a GPU: it serves the pipelines of its configuration over ZeroMQ."};
  command_line line;
  declare(app, line);
  try {
    app.parse(argc, argv);
    return static_cast<int>(run(line));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(exit_code::ok) : static_cast<int>(exit_code::usage);
  } catch (const configuration_error& error) {
    return fail(exit_code::configuration, error.what());
  } catch (const std::runtime_error& error) {
    return fail(exit_code::unavailable, error.what());
  } catch (const std::exception& error) {
    return fail(exit_code::internal, error.what());
  }
}
