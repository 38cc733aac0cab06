#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>

#include "base/descriptors.hpp"
#include "base/quantity.hpp"
#include "client/cli/admin_http.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/status_table.hpp"
#include "penstock_version.hpp"

namespace penstock::cli {
namespace {

constexpr int usage_error = 2;

constexpr const char* epilog =
    "Exit codes: 0 all went well, 1 something failed, 2 the command line is wrong, 128 and its number for a signal.\n"
    "PENSTOCK_URL, PENSTOCK_SERVER_KEY, PENSTOCK_KEY_FILE and PENSTOCK_TRANSPORT stand for --url, --server-key,\n"
    "--key-file and --transport.";

int run(int argc, char** argv) {
  CLI::App app{"Talks to penstockd, the daemon that puts live data on a GPU."};
  app.name("penstock");
  app.footer(epilog);
  app.set_version_flag("--version", std::string("penstock ") + version);
  app.require_subcommand(1);
  app.fallthrough();
  global_options global;
  const CLI::Option* const url = app.add_option("--url", global.url, "The daemon's address")
                                     ->type_name("URL")
                                     ->envname("PENSTOCK_URL")
                                     ->capture_default_str();
  app.add_option("--server-key", global.server_key, "The daemon's public key, where it asks for keys")
      ->type_name("KEY")
      ->envname("PENSTOCK_SERVER_KEY");
  app.add_option("--key-file", global.key_file, "The file with your own key, as `penstock keygen` writes it")
      ->type_name("FILE")
      ->envname("PENSTOCK_KEY_FILE");
  const std::map<std::string, transport> transports{
      {"auto", transport::automatic}, {"zmq", transport::zmq}, {"shm", transport::shared_memory}};
  app.add_option(
         "--transport", global.transport,
         "How large frames travel: auto takes memory that is shared with a daemon on this machine where it can,\n"
         "shm fails where it can't, zmq never does")
      ->transform(CLI::CheckedTransformer(transports).description(""))
      ->type_name("auto|zmq|shm")
      ->envname("PENSTOCK_TRANSPORT")
      ->default_str("auto");
  const auto* const timeout =
      add_duration(app, "--timeout", global.timeout, "How long to wait for the daemon, and for each request");
  action chosen;
  declare_ping(app, global, chosen);
  declare_info(app, global, chosen);
  declare_send(app, global, chosen);
  declare_replay(app, global, chosen);
  declare_record(app, global, chosen);
  declare_watch(app, global, chosen);
  declare_bench(app, global, chosen);
  declare_trace(app, global, chosen);
  declare_keygen(app, chosen);
  declare_top(app, global, chosen);
  declare_reload(app, global, chosen);
  declare_set(app, global, chosen);
  declare_doctor(app, global, chosen);
  declare_check_plugin(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? EXIT_SUCCESS : usage_error;
  }
  global.timeout_given = timeout->count() > 0;
  global.url_given = url->count() > 0;
  try {
    return chosen();
  } catch (const connect_error& unreachable) {
    std::cerr << "penstock: " << unreachable.what() << "\n"
              << "Another address: --url, or PENSTOCK_URL; keys: --server-key and --key-file.\n";
  } catch (const std::exception& failure) {
    std::cerr << "penstock: " << failure.what() << "\n";
  }
  return EXIT_FAILURE;
}

}  // namespace

client_options client_options_of(const global_options& global) {
  client_options options;
  options.url = global.url;
  options.server_key = global.server_key;
  options.key_file = global.key_file;
  options.name = "penstock-cli";
  options.transport = global.transport;
  if (global.timeout_given) {
    options.connect_timeout = global.timeout;
  }
  options.request_timeout = global.timeout;
  return options;
}

admin_address admin_address_of(const global_options& global, const std::optional<admin_address>& given) {
  if (given) {
    return *given;
  }
  if (!global.url_given) {
    return default_admin_address();
  }
  client daemon{client_options_of(global)};
  return choose_admin_address(daemon.status_json(global.timeout), global.url);
}

pipeline_info pipeline_of(client& connection, const std::string& name) {
  const auto all = connection.pipelines();
  std::string known;
  for (const pipeline_info& each : all) {
    if (each.name == name) {
      return each;
    }
    known += "\n  " + each.name + "  " + each.input.text();
  }
  if (const std::string why = quarantine_reason(connection.status_json(), name); !why.empty()) {
    throw std::runtime_error(why);
  }
  throw std::runtime_error("there is no pipeline \"" + name + "\"; the daemon has" +
                           (all.empty() ? " none" : ":" + known));
}

void require_one_input(const pipeline_info& pipeline, const std::string& what) {
  if (pipeline.inputs.size() > 1) {
    throw std::runtime_error("pipeline \"" + pipeline.name + "\" takes several inputs, and " + what +
                             " has one: use a client library");
  }
}

CLI::Option* add_rate(CLI::App& app, double& value, const std::string& help) {
  const auto read = [&value](const CLI::results_t& texts) {
    const auto parsed = parse_positive(texts.back());
    if (!parsed) {
      throw CLI::ConversionError("--rate: \"" + texts.back() + "\" is no rate: " + parsed.fault);
    }
    value = *parsed;
    return true;
  };
  return app.add_option("--rate", read, help);
}

CLI::Option* add_duration(CLI::App& app, const std::string& name, std::chrono::nanoseconds& value,
                          const std::string& help) {
  const auto read = [&value, name](const CLI::results_t& texts) {
    const auto parsed = parse_duration(texts.back(), bare_number::seconds);
    if (!parsed) {
      throw CLI::ConversionError(name + ": \"" + texts.back() + "\" is no time: " + parsed.fault);
    }
    value = *parsed;
    return true;
  };
  return app.add_option(name, read, help + " (5s, 500ms, ...)")->type_name("TIME")->default_str(duration_text(value));
}

}  // namespace penstock::cli

int main(int argc, char** argv) {
  penstock::occupy_standard_descriptors();
  try {
    return penstock::cli::run(argc, argv);
  } catch (const std::exception& failure) {
    std::cerr << "penstock: " << failure.what() << "\n";
    return EXIT_FAILURE;
  }
}
