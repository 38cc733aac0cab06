#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "daemon/admin/service.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/exit_code.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/pipeline/plan_printer.hpp"
#include "daemon/pipeline/suggestion.hpp"
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
  std::optional<std::string> plan;  ///< the pipeline whose plan is to be printed
  std::string format = "text";
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
  CLI::Option* const plan =
      app.add_option("--print-plan", line.plan, "Print what a batch of this pipeline does on the device and exit");
  app.add_option("--format", line.format, "How to print the plan: text, or dot for Graphviz")
      ->check(CLI::IsMember({"text", "dot"}))
      ->capture_default_str()
      ->needs(plan);
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

/// Compiles that one pipeline for the device that the daemon would serve it on.
exit_code print_plan_of(const command_line& line, const settings& how) {
  const auto declared = std::find_if(how.pipelines.begin(), how.pipelines.end(),
                                     [&](const pipeline_declaration& each) { return each.name == *line.plan; });
  if (declared == how.pipelines.end()) {
    std::vector<std::string_view> known;
    for (const pipeline_declaration& each : how.pipelines) {
      known.push_back(each.name);
    }
    throw configuration_error(line.config + ": there is no pipeline '" + *line.plan + "'" +
                              suggestion(*line.plan, known));
  }
  const opened_device opened = open_device(how.device);
  const plan made = compile_plan(*declared, static_cast<std::uint32_t>(declared - how.pipelines.begin()),
                                 *opened.device, static_cast<std::uint32_t>(how.wheel.streams));
  const device_facts& facts = opened.device->facts();
  const std::string text = line.format == "dot" ? print_plan_graph(made, facts.backend + " backend, " + facts.name)
                                                : print_plan(made, opened.reason);
  std::fputs(text.c_str(), stdout);
  return exit_code::ok;
}

exit_code run(const command_line& line) {
  const settings how = read_settings(line);
  if (line.print) {
    std::fputs(print_settings(how).c_str(), stdout);
    return exit_code::ok;
  }
  if (line.check) {
    std::printf("%s: good, %zu %s\n", line.config.c_str(), how.pipelines.size(),
                how.pipelines.size() == 1 ? "pipeline" : "pipelines");
    return exit_code::ok;
  }
  if (line.plan) {
    return print_plan_of(line, how);
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
