#include "daemon/config/settings.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <variant>

#include "base/quantity.hpp"
#include "base/whole_file.hpp"
#include "daemon/config/endpoint.hpp"
#include "daemon/config/pipeline_text.hpp"
#include "daemon/config/settings_table.hpp"
#include "daemon/config/sink_text.hpp"
#include "daemon/config/source_text.hpp"
#include "kernels/number_file.hpp"
#include "kernels/plugin_library.hpp"
#include "proto/message.hpp"

namespace penstock {
namespace {

constexpr std::int64_t config_version = 1;
constexpr std::size_t largest_file = std::size_t{64} << 20U;

/// A reader over a table of the file; over an empty one where the file has none.
table_reader section(table_reader& file, std::string_view name) {
  static const toml::table none;
  const toml::node* node = file.find(name);
  if (node != nullptr && !node->is_table()) {
    file.refuse_value(name, *node, "a table: [" + std::string(name) + "]");
  }
  return file.nested(name, node == nullptr ? none : *node->as_table());
}

/// The first endpoint at which other machines could connect in plain text; nullptr when there is none, or it may be.
const std::string* exposed_endpoint(const settings& settings) {
  const std::vector<std::string>& listen = settings.daemon.listen;
  const auto exposed = std::find_if(listen.begin(), listen.end(), is_beyond_loopback);
  const bool is_allowed = settings.security.encrypts() || settings.security.insecure_plaintext_beyond_loopback;
  return exposed == listen.end() || is_allowed ? nullptr : &*exposed;
}

std::string exposure_text(const std::string& endpoint) {
  return "\"" + endpoint +
         "\" can be reached from other machines, in plain text and by anybody: give security.secret_key_file and "
         "security.authorized_keys_file (penstock keygen makes keys), or say that you want it with "
         "security.insecure_plaintext_beyond_loopback = true";
}

void check_keys(const table_reader& table, const security_settings& security) {
  if (!security.secret_key_file.empty() && security.authorized_keys_file.empty()) {
    table.refuse_key("secret_key_file",
                     "a key without security.authorized_keys_file would let everybody in; name the list of those who "
                     "may connect");
  }
  if (security.secret_key_file.empty() && !security.authorized_keys_file.empty()) {
    table.refuse_key("authorized_keys_file",
                     "a list of keys without security.secret_key_file would keep nobody out; make a key with penstock "
                     "keygen");
  }
}

/// A pipeline of which no frame could ever be sent, or no result be given back, is a mistake in the file.
void check_fits(const table_reader& clients, const client_settings& given, const pipeline_declaration& pipeline) {
  const std::size_t request = wire::part_bytes(pipeline.all_inputs().size()) + pipeline.frame_bytes();
  std::size_t result = wire::part_bytes(pipeline.outputs.size());
  for (const stage_declaration& stage : pipeline.stages) {
    for (const operator_output& each : stage.outputs()) {
      result += std::count(pipeline.outputs.begin(), pipeline.outputs.end(), each.name) == 0 ? 0 : each.spec.bytes();
    }
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

void check_version(table_reader& file) {
  const toml::node* node = file.find("config_version");
  if (node == nullptr) {
    file.refuse_key("config_version", "is missing; begin the file with config_version = 1");
  }
  if (node->value_exact<std::int64_t>() != config_version) {
    file.refuse_value("config_version", *node, "1, the version that this daemon reads");
  }
}

// What is wrong with a table is said before what is wrong between two of them.
settings read_file(const toml::table& contents, const std::string& name) {
  configuration_place place;
  place.position = {name, 0};
  table_reader file(contents, place, "");
  check_version(file);
  settings read;
  for (const settings_section& each : settings_table()) {
    table_reader table = section(file, each.name);
    read_all(each.rows, table, read);
    table.refuse_unknown();
  }
  const toml::node* pipelines = file.find("pipeline");
  const toml::node* sources = file.find("source");
  const toml::node* sinks = file.find("sink");
  file.refuse_unknown();
  check_keys(section(file, "security"), read.security);
  if (const std::string* const exposed = exposed_endpoint(read)) {
    section(file, "daemon").refuse_key("listen", exposure_text(*exposed));
  }
  check_admin(section(file, "admin"), read.admin);
  if (pipelines == nullptr) {
    file.refuse_key("pipeline", "there is none; add a [[pipeline]] table");
  }
  read.pipelines = read_pipelines(*pipelines, name, read.code);
  const table_reader clients = section(file, "clients");
  for (const pipeline_declaration& pipeline : read.pipelines) {
    check_fits(clients, read.clients, pipeline);
  }
  if (sources != nullptr) {
    read.sources = read_sources(*sources, name, read);
  }
  if (sinks != nullptr) {
    read.sinks = read_sinks(*sinks, name, read);
  }
  return read;
}

}  // namespace

settings parse_settings(std::string_view text, const std::string& name) {
  return read_file(parse_toml(text, name), name);
}

settings load_settings(const std::filesystem::path& file) {
  try {
    return parse_settings(read_whole_file(file, largest_file), file.string());
  } catch (const file_refused& error) {
    configuration_place place;
    place.position = {file.string(), 0};
    refuse(place, error.what());
  }
}

void check_admin(const admin_settings& admin) {
  const toml::table none;
  check_admin(table_reader(none, configuration_place{}, "admin."), admin);
}

void check_exposure(const settings& settings) {
  for (const std::string& endpoint : settings.daemon.listen) {
    if (const std::string fault = fault_of_endpoint(endpoint); !fault.empty()) {
      throw configuration_error("daemon.listen: " + endpoint_complaint(endpoint, fault));
    }
  }
  if (const std::string* const exposed = exposed_endpoint(settings)) {
    throw configuration_error(exposure_text(*exposed));
  }
}

std::string print_settings(const settings& settings) {
  std::string text = "config_version = " + std::to_string(config_version) + "\n";
  for (const settings_section& each : settings_table()) {
    text += "\n[" + std::string(each.name) + "]\n" + print_all(each.rows, settings);
  }
  for (const pipeline_declaration& pipeline : settings.pipelines) {
    text += print_pipeline(pipeline);
  }
  for (const source_declaration& source : settings.sources) {
    text += print_source(source);
  }
  for (const sink_declaration& sink : settings.sinks) {
    text += print_sink(sink);
  }
  return text;
}

std::string configuration_hash(const settings& settings) {
  // Fowler, Noll and Vo's, RFC 9923.
  std::uint64_t hash = 0xCBF29CE484222325;
  const auto add = [&hash](std::string_view text) {
    for (const char each : text) {
      hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001B3;
    }
  };
  add(print_settings(settings));
  for (const pipeline_declaration& pipeline : settings.pipelines) {
    for (const stage_declaration& stage : pipeline.stages) {
      for (const auto& [key, value] : stage.settings) {
        if (const auto* const code = std::get_if<std::shared_ptr<const code_file>>(&value)) {
          add(digest_of(**code));
        }
        if (const auto* const numbers = std::get_if<std::shared_ptr<const number_file>>(&value)) {
          add((*numbers)->state());
        }
      }
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

bool same_pipeline(const pipeline_declaration& left, const pipeline_declaration& right) {
  // The keys are the same where the texts are.
  const auto same_value = [](const auto& one, const auto& other) {
    const auto* const code = std::get_if<std::shared_ptr<const code_file>>(&one.second);
    const auto* const another = std::get_if<std::shared_ptr<const code_file>>(&other.second);
    const auto* const numbers = std::get_if<std::shared_ptr<const number_file>>(&one.second);
    const auto* const others = std::get_if<std::shared_ptr<const number_file>>(&other.second);
    return (code == nullptr || another == nullptr || digest_of(**code) == digest_of(**another)) &&
           (numbers == nullptr || others == nullptr || (*numbers)->state() == (*others)->state());
  };
  const auto same_code = [&](const stage_declaration& one, const stage_declaration& other) {
    return std::equal(one.settings.begin(), one.settings.end(), other.settings.begin(), other.settings.end(),
                      same_value);
  };
  return print_pipeline(left) == print_pipeline(right) &&
         std::equal(left.stages.begin(), left.stages.end(), right.stages.begin(), same_code);
}

namespace {

/// `wanted` with those of its numbers as they were that a stage lets change: those of the table `values`, if there is
/// one.
parameters with_numbers(const parameters& before, const parameters& wanted, const std::vector<std::string>& tunable) {
  if (wanted.has("values") && before.has("values")) {
    parameters made = wanted;
    made.set("values",
             std::make_shared<const parameters>(with_numbers(before.table("values"), wanted.table("values"), tunable)));
    return made;
  }
  const auto is_tunable = [&tunable](const std::string& key) {
    return std::find(tunable.begin(), tunable.end(), key) != tunable.end();
  };
  parameters made;
  for (const auto& [key, value] : wanted) {
    if (!is_tunable(key)) {
      made.set(key, value);
    }
  }
  for (const auto& [key, value] : before) {
    if (is_tunable(key)) {
      made.set(key, value);
    }
  }
  return made;
}

/// Whether the configuration has it; else it is by default what it is, which may depend on other numbers.
bool is_given(const stage_declaration& stage, const std::string& number) {
  return stage.settings.has(number) || stage.settings.table("values").has(number);
}

}  // namespace

std::optional<std::vector<wire::number_setting>> tuned_changes(const pipeline_declaration& before,
                                                               const pipeline_declaration& wanted) {
  if (before.stages.size() != wanted.stages.size()) {
    return std::nullopt;
  }
  pipeline_declaration adjusted = wanted;
  std::vector<wire::number_setting> changes;
  for (std::size_t index = 0; index < before.stages.size(); ++index) {
    const stage_declaration& old = before.stages[index];
    stage_declaration& stage = adjusted.stages[index];
    if (old.tunable != stage.tunable || old.numbers.size() != stage.numbers.size()) {
      return std::nullopt;
    }
    if (old.tunable.empty()) {
      continue;
    }
    for (std::size_t each = 0; each < old.numbers.size(); ++each) {
      const tunable_number& number = stage.numbers[each];
      const bool is_tunable = std::find(old.tunable.begin(), old.tunable.end(), number.name) != old.tunable.end();
      const bool given = is_given(stage, number.name);
      if (is_tunable && (given != is_given(old, number.name) || (given && number != old.numbers[each]))) {
        changes.push_back({stage.name, number.name, given ? std::optional(number.value) : std::nullopt});
      }
    }
    stage.settings = with_numbers(old.settings, stage.settings, old.tunable);
  }
  return same_pipeline(before, adjusted) ? std::optional(std::move(changes)) : std::nullopt;
}

std::vector<std::string> needs_restart(const settings& started, const settings& wanted) {
  std::vector<std::string> changes;
  for (const settings_section& each : settings_table()) {
    for (const setting<settings>& row : each.rows) {
      const std::string value = row.print(wanted);
      if (row.effect == change::by_restart && value != row.print(started)) {
        changes.push_back("[" + std::string(each.name) + "] " + std::string(row.key) +
                          (value.empty() ? " left out" : " = " + value));
      }
    }
  }
  if (wanted.clients.max_request_bytes > started.clients.max_request_bytes) {
    changes.push_back("[clients] max_request_bytes above " + std::to_string(started.clients.max_request_bytes));
  }
  if (started.timing.batches_per_second == 0 && wanted.timing.batches_per_second != 0) {
    changes.emplace_back("[timing] batches_per_second from 0");
  }
  return changes;
}

settings fitted(settings settings, std::size_t shards, std::size_t processors) {
  // A shard has no use for more: see docs/decisions/0015-threads-and-placement.md.
  constexpr std::size_t most_io_threads = 4;
  // With fewer for each shard, one that spins takes the processor from ZeroMQ's, the device's and the clients' threads.
  constexpr std::size_t processors_to_spin = 4;
  const std::size_t each = processors / std::max<std::size_t>(shards, 1);
  if (settings.daemon.io_threads == 0) {
    settings.daemon.io_threads = static_cast<int>(std::clamp<std::size_t>(each / 4, 1, most_io_threads));
  }
  if (each < processors_to_spin) {
    settings.daemon.spin = std::chrono::nanoseconds{0};
  }
  if (each < 2 && settings.stream_pool.completion == completion_mode::automatic) {
    settings.stream_pool.completion = completion_mode::callback;
  }
  return settings;
}

}  // namespace penstock
