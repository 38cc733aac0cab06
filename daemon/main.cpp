#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/child_process.hpp"
#include "base/descriptors.hpp"
#include "base/exit_code.hpp"
#include "base/process_limits.hpp"
#include "base/unix_listener.hpp"
#include "daemon/code/compiler.hpp"
#include "daemon/config/client_memory.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/config/sink_text.hpp"
#include "daemon/config/source_text.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/doctor/doctor.hpp"
#include "daemon/net/keys.hpp"
#include "daemon/net/message_memory.hpp"
#include "daemon/net/router_socket.hpp"
#include "daemon/pipeline/check.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/pipeline/plan_printer.hpp"
#include "daemon/service/code_proof.hpp"
#include "daemon/service/process.hpp"
#include "daemon/service/service.hpp"
#include "daemon/service/start.hpp"
#include "penstock_version.hpp"

namespace {

using namespace penstock;

struct command_line {
  std::string config = "/etc/penstock/penstock.toml";
  std::vector<std::string> listen;
  std::optional<std::vector<std::string>> admin;
  std::string backend;
  std::string completion;
  bool check = false;
  std::string arch;  ///< for which a check compiles users' code
  bool print = false;
  bool manual = false;
  bool doctor = false;
  bool prove = false;               ///< prove_flag
  std::optional<std::string> plan;  ///< the pipeline whose plan is to be printed
  std::string format = "text";
};

template <typename Values>
std::vector<std::string> words(const Values& values) {
  const auto all = words_of(values);
  return {all.begin(), all.end()};
}

/// Sets what the word stands for; nothing for "".
template <typename Value, std::size_t Count>
void set_by_word(const std::array<named_value<Value>, Count>& values, std::string_view word, Value& value) {
  for (const auto& [name, named] : values) {
    value = name == word ? named : value;
  }
}

void declare(CLI::App& app, command_line& line) {
  app.set_version_flag("--version", std::string("penstockd ") + version);
  app.add_option("-c,--config", line.config, "The configuration file")->capture_default_str();
  app.add_option("--listen", line.listen,
                 "Listen here instead (may be repeated): tcp://127.0.0.1:7600, ipc:///run/...");
  app.add_option("--admin", line.admin,
                 "Answer HTTP for health and metrics here instead (may be repeated): 127.0.0.1:7680, unix:/run/...; "
                 "'none' for nowhere");
  app.add_option("--backend", line.backend, "Take this device backend instead")
      ->check(CLI::IsMember(words(backend_names)));
  app.add_option("--completion", line.completion, "Take this completion mode instead")
      ->check(CLI::IsMember(words(completion_names)));
  app.add_flag("--check-config", line.check, "Check the configuration file and exit");
  app.add_option("--arch", line.arch, "With --check-config: compile users' code for this architecture too (sm_90)");
  app.add_flag("--print-config", line.print, "Print the configuration with every default filled in and exit");
  app.add_flag("--print-settings", line.manual, "Print every setting with its default and what it is for, and exit");
  app.add_flag(
      "--doctor", line.doctor,
      "Say what would go wrong here, without serving, and exit: with 0 (all well), 1 (warnings) or 2 (errors)");
  app.add_flag(std::string(prove_flag), line.prove)->group("");
  app.add_option("--print-plan", line.plan, "Print what a batch of this pipeline does on the device and exit");
  app.add_option("--format", line.format,
                 "How to print: text, a plan also as dot for Graphviz, --doctor also as json, settings also as man")
      ->check(CLI::IsMember({"text", "dot", "json", "man"}))
      ->capture_default_str();
}

/// Throws CLI::ParseError when the format does not suit what is to be printed.
void check_format(const command_line& line) {
  const bool suits = line.format == "text" || (line.format == "dot" && line.plan) ||
                     (line.format == "json" && line.doctor) || (line.format == "man" && line.manual);
  if (!suits) {
    throw CLI::ValidationError("--format " + line.format,
                               "dot is for --print-plan, json for --doctor, man for --print-settings");
  }
}

/// Throws std::runtime_error when what was printed did not arrive.
void finish_printing() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot write to the standard output");
  }
}

settings read_settings(const command_line& line) {
  settings settings = load_settings(line.config);
  if (!line.listen.empty()) {
    settings.daemon.listen = line.listen;
    check_exposure(settings);
  }
  if (line.admin) {
    const bool is_none = *line.admin == std::vector<std::string>{"none"};
    settings.admin.listen = is_none ? std::vector<std::string>{} : *line.admin;
    check_admin(settings.admin);
  }
  set_by_word(backend_names, line.backend, settings.device.backend);
  set_by_word(completion_names, line.completion, settings.stream_pool.completion);
  return settings;
}

void print_warnings(const std::vector<std::string>& doubts) {
  for (const std::string& doubt : doubts) {
    std::fprintf(stderr, "warning: %s\n", doubt.c_str());
  }
}

/// Compiles that one pipeline for the device that the daemon would serve it on.
exit_code print_one_plan(const command_line& line, const settings& settings) {
  const auto declared = std::find_if(settings.pipelines.begin(), settings.pipelines.end(),
                                     [&](const pipeline_declaration& each) { return each.name == *line.plan; });
  if (declared == settings.pipelines.end()) {
    std::vector<std::string_view> known;
    for (const pipeline_declaration& each : settings.pipelines) {
      known.push_back(each.name);
    }
    throw configuration_error(line.config + ": there is no pipeline '" + *line.plan + "'" +
                              suggestion(*line.plan, known));
  }
  const opened_device opened = open_device(settings.device);
  const plan made = compile_plan(*declared, static_cast<std::uint32_t>(declared - settings.pipelines.begin()),
                                 *opened.device, static_cast<std::uint32_t>(settings.stream_pool.streams),
                                 prepare_code(settings, architectures_of(std::array{opened.device.get()})).options);
  const device_facts& facts = opened.device->facts();
  const std::string text = line.format == "dot" ? print_plan_graph(made, facts.backend + " backend, " + facts.name)
                                                : print_plan(made, opened.reason);
  std::fputs(text.c_str(), stdout);
  finish_printing();
  print_warnings(doubts_about(*declared));
  return exit_code::ok;
}

/// What can be said without the device: the files of keys, the group of the sockets and all that a start would refuse
/// are looked at too.
exit_code check(const command_line& line, const settings& settings) {
  if (settings.security.encrypts()) {
    const keyring good(settings.security.secret_key_file, settings.security.authorized_keys_file);
  }
  (void)group_of(settings.security.ipc_group);
  const std::string costs = check_start(settings, line.arch);
  const std::size_t devices = settings.device.every_device ? 1 : settings.device.ids.size();
  const client_memory held = memory_of_clients(settings, devices * static_cast<std::size_t>(settings.device.shards),
                                               read_machine_share().memory_bytes);
  check_memory_limit(settings, held.limit);
  std::printf("%s: good, %zu %s", line.config.c_str(), settings.pipelines.size(),
              settings.pipelines.size() == 1 ? "pipeline" : "pipelines");
  if (!settings.sources.empty()) {
    std::printf(", %zu %s", settings.sources.size(), settings.sources.size() == 1 ? "source" : "sources");
  }
  if (!settings.sinks.empty()) {
    std::printf(", %zu %s", settings.sinks.size(), settings.sinks.size() == 1 ? "sink" : "sinks");
  }
  std::puts("");
  std::printf("%s%s\n", text_of(held).c_str(), settings.device.every_device ? ", for each device" : "");
  std::fputs(costs.c_str(), stdout);
  finish_printing();
  for (const pipeline_declaration& each : settings.pipelines) {
    print_warnings(doubts_about(each));
  }
  for (const source_declaration& each : settings.sources) {
    print_warnings(doubts_about(each, settings.pipelines));
  }
  for (const sink_declaration& each : settings.sinks) {
    print_warnings(doubts_about(each));
  }
  return exit_code::ok;
}

exit_code run(const command_line& line) {
  if (line.manual) {
    std::fputs(print_manual(line.format == "man" ? manual_format::man : manual_format::toml).c_str(), stdout);
    finish_printing();
    return exit_code::ok;
  }
  // Before packages of models are read, which stay open.
  const int answers = line.prove ? become_child() : -1;
  const settings settings = read_settings(line);
  if (line.print) {
    std::fputs(print_settings(settings).c_str(), stdout);
    finish_printing();
    return exit_code::ok;
  }
  if (line.check) {
    return check(line, settings);
  }
  if (line.prove) {
    return run_proof_process(settings, answers);
  }
  if (line.plan) {
    return print_one_plan(line, settings);
  }
  open_log(settings.daemon.log_level);
  keep_message_memory();
  if (!raise_descriptor_limit()) {
    spdlog::warn("the soft limit of open files can't be raised to the hard one");
  }
  if (descriptor_limit() < least_descriptors) {
    throw std::runtime_error(fmt::format(
        "Too many open files: this process may open {} at most, and a daemon without clients wants {}: raise the limit "
        "(ulimit -n, LimitNOFILE)",
        descriptor_limit(), least_descriptors));
  }
  return service(settings, [line] { return read_settings(line); }).run();
}

int diagnose(const command_line& line) {
  const std::vector<finding> findings = examine(line.config, [&line] { return read_settings(line); });
  std::fputs((line.format == "json" ? json_of(findings) : text_of(findings)).c_str(), stdout);
  finish_printing();
  return exit_code_of(findings);
}

// Libraries allocate before main, and before any constructor of ours. A sanitizer is one of them, and what it has
// instrumented can't run before it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
[[gnu::constructor]] void before_main() noexcept {
  end_when_out_of_memory();
}
#else
void before_all_libraries(int /*count*/, char** /*words*/, char** /*environment*/) noexcept {
  end_when_out_of_memory();
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const first)(int, char**, char**) noexcept = before_all_libraries;
#endif

int fail(exit_code code, const char* what) {
  complain(what);
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_descriptors();
  if (argc == 2 && argv[1] == compile_word) {
    return run_compiler_process();
  }
  CLI::App app{"penstockd puts live data on a GPU: it serves the pipelines of its configuration over ZeroMQ."};
  command_line line;
  declare(app, line);
  try {
    app.parse(argc, argv);
    check_format(line);
    return line.doctor ? diagnose(line) : static_cast<int>(run(line));
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(exit_code::ok) : static_cast<int>(exit_code::usage);
  } catch (const configuration_error& error) {
    return fail(exit_code::configuration, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    // Of a file that the configuration names, or that the daemon looks for: it is no other at the next start.
    return fail(exit_code::configuration, (error.path1().string() + ": " + error.code().message()).c_str());
  } catch (const std::system_error& error) {
    const bool is_thread = error.code() == std::errc::resource_unavailable_try_again;
    return fail(exit_code::unavailable, is_thread ? "no more threads can be started: raise the limit of the user's "
                                                    "processes (ulimit -u) or the unit's TasksMax"
                                                  : error.what());
  } catch (const std::runtime_error& error) {
    return fail(exit_code::unavailable, error.what());
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) {
      end_without_memory();
    }
    return fail(exit_code::internal, error.what());
  }
}
