#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "base/quantity.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/status_table.hpp"

namespace penstock::cli {
namespace {

using json = nlohmann::ordered_json;

json json_of(const tensor_info& tensor) {
  return {{"name", tensor.name},   {"dtype", tensor.dtype},       {"element", tensor.element},
          {"shape", tensor.shape}, {"variable", tensor.variable}, {"op", tensor.op},
          {"steps", tensor.steps}, {"indices", tensor.indices},   {"axis", tensor.axis}};
}

/// ", a row for each 256 samples", ", 147 rows for each 160 samples"; "" for a row for each sample.
std::string rows_text(const tensor_info& output) {
  if (output.steps == 1 && output.indices == 1) {
    return "";
  }
  const std::string rows = output.indices == 1 ? "a row" : count_text(static_cast<double>(output.indices)) + " rows";
  return ", " + rows + " for each " +
         (output.steps == 1 ? "sample" : count_text(static_cast<double>(output.steps)) + " samples");
}

json json_of(const pipeline_info& pipeline) {
  json outputs = json::array();
  for (const tensor_info& each : pipeline.outputs) {
    outputs.push_back(json_of(each));
  }
  json made{{"name", pipeline.name},
            {"id", pipeline.id},
            {"max_frames", pipeline.max_frames},
            {"input", json_of(pipeline.input)},
            {"outputs", std::move(outputs)},
            {"keeps_state", pipeline.keeps_state},
            {"ordered", pipeline.ordered},
            {"period", pipeline.period}};
  for (const tensor_info& each : pipeline.inputs) {
    if (pipeline.inputs.size() > 1) {
      made["inputs"].push_back(json_of(each));
    }
  }
  return made;
}

/// Properties of its sessions, if it needs them.
std::string session_text(const pipeline_info& pipeline) {
  if (!pipeline.keeps_state) {
    return "";
  }
  std::string text = "    session needed: it keeps state";
  if (pipeline.period > 1) {
    text +=
        ", several frames a request have a length of a multiple of " + count_text(static_cast<double>(pipeline.period));
  }
  return text + (pipeline.ordered ? "\n" : ", results come in any order\n");
}

std::string as_json(const client& daemon, const std::string& status) {
  const server_info server = daemon.server();
  json pipelines = json::array();
  for (const pipeline_info& each : daemon.pipelines()) {
    pipelines.push_back(json_of(each));
  }
  const json all{{"server", server.name},
                 {"instance", server.instance},
                 {"credit_requests", server.credit_requests},
                 {"credit_bytes", server.credit_bytes},
                 {"max_request_bytes", server.max_request_bytes},
                 {"shared_bytes", server.shared_bytes},
                 {"pipelines", std::move(pipelines)},
                 {"status", json::parse(status, nullptr, /*allow_exceptions=*/false)}};  // the client has bounded it
  return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string as_text(const client& daemon, const global_options& global, const std::string& status) {
  const server_info server = daemon.server();
  std::string text = server.name + " at " + global.url + ", instance " + server.instance + "\n";
  text += "  credits of a client  " + count_text(server.credit_requests) + " requests, " +
          size_text(server.credit_bytes) + "\n";
  text += "  largest request      " + size_text(server.max_request_bytes) + "\n";
  text += "  shared memory        " +
          (server.shared_bytes == 0 ? "none" : size_text(server.shared_bytes) + " a client") + "\n\npipelines\n";
  for (const pipeline_info& each : daemon.pipelines()) {
    text += "  " + each.name + "\n";
    for (const tensor_info& input : each.inputs) {
      text +=
          "    input   " + (each.inputs.size() == 1 ? "" : input.name + "  ") + input.text() + ", " +
          size_text(input.frame_bytes()) + " a frame" +
          (&input == &each.inputs.back() ? ", at most " + count_text(each.max_frames) + " frames a request\n" : "\n");
    }
    text += session_text(each);
    for (const tensor_info& output : each.outputs) {
      text += "    output  " + output.name + "  " + output.text() + "  (" + output.op + rows_text(output) + ")\n";
    }
  }
  text += quarantine_text(status);
  return text + "\ncounters that are not 0; --json has them all\n" + status_table(status);
}

int info(const global_options& global, bool json_wanted) {
  client daemon{client_options_of(global)};
  const std::string status = daemon.status_json(global.timeout);
  std::cout << (json_wanted ? as_json(daemon, status) : as_text(daemon, global, status));
  return EXIT_SUCCESS;
}

}  // namespace

void declare_info(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand("info", "Shows the daemon's pipelines, credits and counters");
  const auto json_wanted = std::make_shared<bool>(false);
  command->add_flag("--json", *json_wanted, "Everything as one JSON object");
  command->callback(
      [&global, &chosen, json_wanted] { chosen = [&global, json_wanted] { return info(global, *json_wanted); }; });
}

}  // namespace penstock::cli
