#include <array>
#include <charconv>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "daemon/settings/settings.hpp"
#include "daemon/settings/settings_names.hpp"
#include "proto/quantity/quantity.hpp"

namespace penstock {
namespace {

std::string string_text(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (code < 0x20 || code == 0x7F) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04X", static_cast<unsigned>(code));
      out += escape.data();
    } else {
      out += letter;
    }
  }
  return out + "\"";
}

/// The shortest that reads back to the same number, and that TOML takes for a float.
std::string real(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string out(digits.data(), end);
  return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
}

/// "[a, b]", each element through `show`.
template <typename Elements, typename Show>
std::string array_of(const Elements& elements, Show show) {
  std::string out = "[";
  const char* separator = "";
  for (const auto& element : elements) {
    out += separator + show(element);
    separator = ", ";
  }
  return out + "]";
}

template <typename Value, std::size_t Count>
std::string named(const std::array<named_value<Value>, Count>& names, Value value) {
  for (const auto& each : names) {
    if (each.value == value) {
      return string_text(each.name);
    }
  }
  return string_text("");
}

/// A parameter's key may be any string; only plain ones stand without quotes.
std::string key_text(const std::string& key) {
  constexpr std::string_view bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !key.empty() && key.find_first_not_of(bare) == std::string::npos ? key : string_text(key);
}

std::string value_text(const parameters::value& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using type = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<type, bool>) {
          return held ? "true" : "false";
        } else if constexpr (std::is_same_v<type, std::int64_t>) {
          return std::to_string(held);
        } else if constexpr (std::is_same_v<type, double>) {
          return real(held);
        } else if constexpr (std::is_same_v<type, std::string>) {
          return string_text(held);
        } else if constexpr (std::is_same_v<type, std::vector<double>>) {
          return array_of(held, real);
        } else {
          return "";
        }
      },
      value);
}

void line(std::string& out, std::string_view key, const std::string& value) {
  out += std::string(key) + " = " + value + "\n";
}

void print_daemon(const daemon_settings& what, std::string& out) {
  out += "\n[daemon]\n";
  line(out, "listen", array_of(what.listen, string_text));
  line(out, "drain_timeout", string_text(print_duration(what.drain_timeout)));
  line(out, "log_level", string_text(what.log_level));
  line(out, "io_threads", std::to_string(what.io_threads));
  line(out, "spin", string_text(print_duration(what.spin)));
  line(out, "avoid_interrupts", what.avoid_interrupts ? "true" : "false");
}

void print_device(const device_settings& device, const wheel_settings& wheel, std::string& out) {
  const auto number = [](int value) { return std::to_string(value); };
  out += "\n[device]\n";
  line(out, "backend", named(backend_names, device.backend));
  line(out, "ids", device.every_device ? string_text("all") : array_of(device.ids, number));
  line(out, "shards", number(device.shards));
  line(out, "host_threads", number(device.host_threads));
  line(out, "streams", number(wheel.streams));
  line(out, "slots", number(wheel.slots));
  line(out, "completion", named(completion_names, wheel.completion));
  line(out, "hang_timeout", string_text(print_duration(wheel.hang_timeout)));
}

void print_clients(const client_settings& what, std::string& out) {
  out += "\n[clients]\n";
  line(out, "credit_requests", std::to_string(what.credit_requests));
  line(out, "credit_bytes", string_text(print_size(what.credit_bytes)));
  line(out, "max_clients", std::to_string(what.max_clients));
  line(out, "max_request_bytes", string_text(print_size(what.max_request_bytes)));
  line(out, "reply_queue_bytes", string_text(print_size(what.reply_queue_bytes)));
  line(out, "reply_cache_bytes", string_text(print_size(what.reply_cache_bytes)));
  line(out, "idle_timeout", string_text(print_duration(what.idle_timeout)));
  line(out, "resume_grace", string_text(print_duration(what.resume_grace)));
}

void print_limits(const limit_settings& what, std::string& out) {
  out += "\n[limits]\n";
  line(out, "memory", string_text(print_size(what.memory)));
}

void print_sessions(const session_settings& what, std::string& out) {
  out += "\n[sessions]\n";
  line(out, "max_sessions", std::to_string(what.max_sessions));
  line(out, "max_per_client", std::to_string(what.max_per_client));
  line(out, "idle_timeout", string_text(print_duration(what.idle_timeout)));
}

void print_timing(const timing_settings& what, std::string& out) {
  out += "\n[timing]\n";
  line(out, "batches_per_second", std::to_string(what.batches_per_second));
  line(out, "recent_batches", std::to_string(what.recent_batches));
}

void print_shared_memory(const shared_memory_settings& what, std::string& out) {
  out += "\n[shared_memory]\n";
  line(out, "max_bytes", string_text(print_size(what.max_bytes)));
  line(out, "max_client_bytes", string_text(print_size(what.max_client_bytes)));
  line(out, "socket", string_text(what.socket));
}

void print_admin(const admin_settings& what, std::string& out) {
  out += "\n[admin]\n";
  line(out, "listen", array_of(what.listen, string_text));
  if (!what.names.empty()) {
    line(out, "names", array_of(what.names, string_text));
  }
  line(out, "insecure_beyond_loopback", what.insecure_beyond_loopback ? "true" : "false");
}

void print_security(const security_settings& what, std::string& out) {
  std::array<char, 8> mode{};
  std::snprintf(mode.data(), mode.size(), "%04o", static_cast<unsigned>(what.ipc_mode));
  out += "\n[security]\n";
  line(out, "secret_key_file", string_text(what.secret_key_file.string()));
  line(out, "authorized_keys_file", string_text(what.authorized_keys_file.string()));
  line(out, "insecure_plaintext_beyond_loopback", what.insecure_plaintext_beyond_loopback ? "true" : "false");
  line(out, "ipc_mode", string_text(mode.data()));
  line(out, "ipc_group", string_text(what.ipc_group));
  line(out, "handshake_timeout", string_text(print_duration(what.handshake_timeout)));
}

std::string input_text(const tensor_spec& input) {
  bool leading = input.variable;
  const std::string shape = array_of(input.shape, [&](std::int64_t extent) {
    const bool most = std::exchange(leading, false);
    return most ? string_text("max " + std::to_string(extent)) : std::to_string(extent);
  });
  return "{ dtype = " + string_text(name_of(input.type)) + ", shape = " + shape + " }";
}

void print_stage(const stage_declaration& stage, std::string& out) {
  out += "\n[[pipeline.stage]]\n";
  line(out, "name", string_text(stage.name));
  line(out, "op", string_text(stage.op));
  if (!stage.from.empty()) {
    line(out, "from", array_of(stage.from, string_text));
  }
  for (const auto& [key, value] : stage.settings) {
    line(out, key_text(key), value_text(value));
  }
}

void print_pipeline(const pipeline_declaration& pipeline, std::string& out) {
  out += "\n[[pipeline]]\n";
  line(out, "name", string_text(pipeline.name));
  line(out, "input", input_text(pipeline.input));
  line(out, "batch",
       "{ max_frames = " + std::to_string(pipeline.batch.max_frames) +
           ", max_bytes = " + string_text(print_size(pipeline.batch.max_bytes)) +
           ", max_delay = " + string_text(print_duration(pipeline.batch.max_delay)) + " }");
  line(out, "priority", named(priority_names, pipeline.priority));
  line(out, "overflow", named(overflow_names, pipeline.overflow));
  line(out, "ordered", pipeline.ordered ? "true" : "false");
  if (!pipeline.outputs.empty()) {
    line(out, "outputs", array_of(pipeline.outputs, string_text));
  }
  for (const stage_declaration& stage : pipeline.stages) {
    print_stage(stage, out);
  }
}

}  // namespace

std::string print_settings(const settings& what) {
  std::string out = "config_version = 1\n";
  print_daemon(what.daemon, out);
  print_device(what.device, what.wheel, out);
  print_clients(what.clients, out);
  print_limits(what.limits, out);
  print_sessions(what.sessions, out);
  print_timing(what.timing, out);
  print_shared_memory(what.shared_memory, out);
  print_security(what.security, out);
  print_admin(what.admin, out);
  for (const pipeline_declaration& pipeline : what.pipelines) {
    print_pipeline(pipeline, out);
  }
  return out;
}

}  // namespace penstock
