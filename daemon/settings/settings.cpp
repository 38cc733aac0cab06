#include "daemon/settings/settings.hpp"

#include <algorithm>
#include <optional>

#include <toml++/toml.h>

#include "daemon/files/whole_file.hpp"
#include "daemon/settings/admin_reader.hpp"
#include "daemon/settings/endpoint.hpp"
#include "daemon/settings/foreign_character.hpp"
#include "daemon/settings/pipeline_reader.hpp"
#include "daemon/settings/security_reader.hpp"
#include "daemon/settings/settings_table.hpp"
#include "daemon/settings/shared_memory_reader.hpp"
#include "proto/message.hpp"
#include "proto/quantity/quantity.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t config_version = 1;
constexpr std::size_t largest_file = std::size_t{64} << 20U;
constexpr std::size_t largest_size = std::size_t{1} << 40U;
constexpr nanoseconds least_idle_timeout = std::chrono::seconds(1);
constexpr nanoseconds most_idle_timeout = std::chrono::hours(24 * 365);

configuration_place place_in(const std::string& file, std::uint32_t line) {
  configuration_place place;
  place.position = {file, line};
  return place;
}

/// A reader over a table of the file; over an empty one where the file has none.
settings_table section(settings_table& file, const char* name, configuration_place place) {
  static const toml::table none;
  const toml::node* node = file.find(name);
  if (node != nullptr && !node->is_table()) {
    file.refuse_value(name, *node, "a table: [" + std::string(name) + "]");
  }
  place.position.line = file.line_of(name);
  return {node == nullptr ? none : *node->as_table(), std::move(place), std::string(name) + "."};
}

std::string listen_text(const std::string& endpoint, const std::string& fault) {
  return "\"" + endpoint + "\" is given; allowed is tcp://HOST:PORT, ipc://PATH (" + fault + ")";
}

void read_daemon(settings_table table, daemon_settings& into) {
  table.read("listen", into.listen);
  for (const std::string& endpoint : into.listen) {
    if (const std::string fault = fault_of_endpoint(endpoint); !fault.empty()) {
      table.refuse_key("listen", listen_text(endpoint, fault));
    }
    if (std::count(into.listen.begin(), into.listen.end(), endpoint) > 1) {
      table.refuse_key("listen", "\"" + endpoint + "\" is given twice");
    }
  }
  table.read("drain_timeout", nanoseconds(0), std::chrono::hours(1), into.drain_timeout);
  table.read("log_level", log_levels, into.log_level);
  table.read("io_threads", 0, 16, into.io_threads);
  table.read("spin", nanoseconds(0), std::chrono::milliseconds(10), into.spin);
  table.read("avoid_interrupts", into.avoid_interrupts);
  table.refuse_unknown();
}

void read_ids(settings_table& table, device_settings& into) {
  constexpr int last_id = 63;
  const toml::node* node = table.find("ids");
  if (node == nullptr) {
    return;
  }
  const std::string allowed =
      "\"all\", or an array of whole numbers from 0 to " + std::to_string(last_id) + ", at least one";
  if (const auto* text = node->as_string(); text != nullptr && text->get() == "all") {
    into.every_device = true;
    return;
  }
  const auto* array = node->as_array();
  if (array == nullptr || array->empty()) {
    table.refuse_value("ids", *node, allowed);
  }
  into.ids.clear();
  for (const toml::node& element : *array) {
    const std::optional<std::int64_t> id = element.value_exact<std::int64_t>();
    if (!id || *id < 0 || *id > last_id) {
      table.refuse_value("ids", element, allowed);
    }
    if (std::find(into.ids.begin(), into.ids.end(), *id) != into.ids.end()) {
      table.refuse_key("ids", std::to_string(*id) + " is given twice");
    }
    into.ids.push_back(static_cast<int>(*id));
  }
}

void read_device(settings_table table, device_settings& device, wheel_settings& wheel) {
  table.read("backend", backend_names, device.backend);
  read_ids(table, device);
  table.read("shards", 1, 64, device.shards);
  table.read("host_threads", 0, 1024, device.host_threads);
  table.read("streams", 1, 64, wheel.streams);
  table.read("slots", 2, 4096, wheel.slots);
  table.read("completion", completion_names, wheel.completion);
  table.read("hang_timeout", std::chrono::milliseconds(10), std::chrono::hours(1), wheel.hang_timeout);
  table.refuse_unknown();
}

void read_clients(settings_table& table, client_settings& into) {
  table.read("credit_requests", 1U, 1U << 20U, into.credit_requests);
  table.read_size("credit_bytes", 1, largest_size, into.credit_bytes);
  table.read("max_clients", 1U, 1U << 16U, into.max_clients);
  table.read_size("max_request_bytes", wire::part_bytes(1) + 1, largest_size, into.max_request_bytes);
  table.read_size("reply_queue_bytes", 1, largest_size, into.reply_queue_bytes);
  table.read_size("reply_cache_bytes", 0, largest_size, into.reply_cache_bytes);
  table.read("idle_timeout", least_idle_timeout, most_idle_timeout, into.idle_timeout);
  table.read("resume_grace", nanoseconds{0}, std::chrono::hours(1), into.resume_grace);
  table.refuse_unknown();
}

void read_limits(settings_table table, limit_settings& into) {
  table.read_size("memory", 0, largest_size, into.memory);
  table.refuse_unknown();
}

void read_sessions(settings_table table, session_settings& into) {
  table.read("max_sessions", 1U, 1U << 16U, into.max_sessions);
  into.max_per_client = std::max(into.max_sessions / 2, 1U);  // so that one client does not take every place
  table.read("max_per_client", 1U, 1U << 16U, into.max_per_client);
  table.read("idle_timeout", least_idle_timeout, most_idle_timeout, into.idle_timeout);
  table.refuse_unknown();
}

void read_timing(settings_table table, timing_settings& into) {
  table.read("batches_per_second", 0U, 1'000'000U, into.batches_per_second);
  table.read("recent_batches", 16U, 1U << 20U, into.recent_batches);
  table.refuse_unknown();
}

/// The first endpoint at which other machines could connect in plain text; nullptr when there is none, or it may be.
const std::string* exposed_endpoint(const settings& what) {
  const std::vector<std::string>& listen = what.daemon.listen;
  const auto exposed = std::find_if(listen.begin(), listen.end(), is_beyond_loopback);
  const bool allowed = what.security.encrypts() || what.security.insecure_plaintext_beyond_loopback;
  return exposed == listen.end() || allowed ? nullptr : &*exposed;
}

std::string exposure_text(const std::string& endpoint) {
  return "\"" + endpoint +
         "\" can be reached from other machines, in plain text and by anybody: give security.secret_key_file and "
         "security.authorized_keys_file (penstock keygen makes keys), or say that you want it with "
         "security.insecure_plaintext_beyond_loopback = true";
}

/// A pipeline of which no frame could ever be sent, or no result be given back, is a mistake in the file.
void check_fits(settings_table& clients, const client_settings& given, const pipeline_declaration& pipeline) {
  const std::size_t request = wire::part_bytes(1) + pipeline.input.bytes();
  std::size_t result = wire::part_bytes(pipeline.outputs.size());
  for (const stage_declaration& stage : pipeline.stages) {
    result += std::count(pipeline.outputs.begin(), pipeline.outputs.end(), stage.name) == 0 ? 0 : stage.output.bytes();
  }
  const auto require = [&](const char* key, std::size_t have, std::size_t need, const std::string& what) {
    if (have < need) {
      clients.refuse_key(key, print_size(have) + " is less than " + print_size(need) + ", which " + what +
                                  " of pipeline '" + pipeline.name + "' takes");
    }
  };
  require("max_request_bytes", given.max_request_bytes, request, "a request of one frame");
  require("credit_bytes", given.credit_bytes, request, "a request of one frame");
  require("reply_queue_bytes", given.reply_queue_bytes, result, "the result of one frame");
}

void check_version(settings_table& file) {
  const toml::node* node = file.find("config_version");
  if (node == nullptr) {
    file.refuse_key("config_version", "is missing; begin the file with config_version = 1");
  }
  if (node->value_exact<std::int64_t>() != config_version) {
    file.refuse_value("config_version", *node, "1, the version that this daemon reads");
  }
}

settings read_settings(const toml::table& given, const std::string& name) {
  const configuration_place place = place_in(name, 0);
  settings_table file(given, place, "");
  check_version(file);
  settings result;
  read_daemon(section(file, "daemon", place), result.daemon);
  read_device(section(file, "device", place), result.device, result.wheel);
  settings_table clients = section(file, "clients", place);
  read_clients(clients, result.clients);
  read_limits(section(file, "limits", place), result.limits);
  read_sessions(section(file, "sessions", place), result.sessions);
  read_timing(section(file, "timing", place), result.timing);
  read_shared_memory(section(file, "shared_memory", place), result.shared_memory);
  read_security(section(file, "security", place), std::filesystem::path(name).parent_path(), result.security);
  if (const std::string* const exposed = exposed_endpoint(result)) {
    section(file, "daemon", place).refuse_key("listen", exposure_text(*exposed));
  }
  read_admin(section(file, "admin", place), result.admin);
  const toml::node* pipelines = file.find("pipeline");
  file.refuse_unknown();
  if (pipelines == nullptr) {
    file.refuse_key("pipeline", "there is none; add a [[pipeline]] table");
  }
  result.pipelines = read_pipelines(*pipelines, name);
  for (const pipeline_declaration& pipeline : result.pipelines) {
    check_fits(clients, result.clients, pipeline);
  }
  return result;
}

}  // namespace

void check_exposure(const settings& what) {
  for (const std::string& endpoint : what.daemon.listen) {
    if (const std::string fault = fault_of_endpoint(endpoint); !fault.empty()) {
      throw configuration_error("daemon.listen: " + listen_text(endpoint, fault));
    }
  }
  if (const std::string* const exposed = exposed_endpoint(what)) {
    throw configuration_error(exposure_text(*exposed));
  }
}

settings parse_settings(std::string_view text, const std::string& name) {
  if (is_wide_text(text)) {
    refuse(place_in(name, 1), "the file is UTF-16 or UTF-32: save it as UTF-8");
  }
  if (const auto line = line_of_foreign_character(text)) {
    refuse(place_in(name, *line), "a character outside ASCII stands outside of quotes");
  }
  toml::table given;
  try {
    given = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    refuse(place_in(name, error.source().begin.line), "not valid TOML: " + std::string(error.description()));
  }
  return read_settings(given, name);
}

settings load_settings(const std::filesystem::path& file) {
  try {
    return parse_settings(read_whole_file(file, largest_file), file.string());
  } catch (const file_refused& error) {
    refuse(place_in(file.string(), 0), error.what());
  }
}

}  // namespace penstock
