#include "proto/control.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "proto/message.hpp"

namespace penstock::wire {
namespace {

using nlohmann::json;

/// Builds a value from what the parser meets, and stops it at a bound.
class bounded_builder final : public nlohmann::json_sax<json> {
 public:
  explicit bounded_builder(const json_bounds& bounds) : bounds_(bounds) {}

  [[nodiscard]] json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*elements*/) override { return open(json::object()); }
  bool start_array(std::size_t /*elements*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    member_ = &(*open_.back())[name];
    return true;
  }
  bool parse_error(std::size_t /*where*/, const std::string& /*token*/, const json::exception& /*why*/) override {
    return false;
  }

 private:
  bool put(json value) {
    if (values_ == bounds_.values) {
      return false;
    }
    ++values_;
    if (open_.empty()) {
      latest_ = &root_;
    } else if (open_.back()->is_array()) {
      open_.back()->push_back(nullptr);
      latest_ = &open_.back()->back();
    } else {
      latest_ = member_;
    }
    *latest_ = std::move(value);
    return true;
  }
  bool open(json value) {
    if (open_.size() == bounds_.depth || !put(std::move(value))) {
      return false;
    }
    open_.push_back(latest_);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json_bounds bounds_;
  json root_;
  std::vector<json*> open_;  // from the outside in; only the last one grows, so that none of them moves
  json* member_ = nullptr;   // of the innermost object: the value of the key that was read last
  json* latest_ = nullptr;
  std::size_t values_ = 0;
};

}  // namespace

std::optional<nlohmann::json> read_json(std::string_view text, const json_bounds& bounds) {
  if (text.size() > bounds.bytes) {
    return std::nullopt;
  }
  bounded_builder builder(bounds);
  if (!json::sax_parse(text.data(), text.data() + text.size(), &builder)) {
    return std::nullopt;
  }
  return builder.take();
}

namespace {

/// What is written keeps its order. It looks at one key after the other: never for what a peer sent.
using nlohmann::ordered_json;

static_assert(answer_bounds.bytes == max_body_bytes && request_bounds.bytes == max_request_body_bytes);

constexpr std::size_t max_name_bytes = 64;
/// Of each text of an ERROR: four of them, every byte escaped, still fit a body.
constexpr std::size_t max_reason_bytes = 2048;
/// Of one frame: the wire has one more for the frames.
constexpr std::size_t max_frame_dimensions = max_dimensions - 1;

/// The longest prefix of at most `most` bytes that does not cut a UTF-8 sequence.
std::string_view clip(std::string_view text, std::size_t most) noexcept {
  if (text.size() <= most) {
    return text;
  }
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
  while (most > 0 && continues(most)) {
    --most;
  }
  return text.substr(0, most);
}

/// One line of JSON. Bytes that are not UTF-8 become U+FFFD: a reason may quote what a peer sent.
std::string text_of(const ordered_json& body) {
  return body.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

bool is_printable(std::string_view text) noexcept {
  return std::none_of(text.begin(), text.end(), [](char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return byte < 0x20U || byte == 0x7FU;
  });
}

// read(object, key, out): whether `object` has `key` and it is of out's type; `out` then has it.

const json* member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() ? &*found : nullptr;
}

bool read(const json& object, const char* key, std::string& out) {
  const json* const value = member(object, key);
  if (value == nullptr || !value->is_string()) {
    return false;
  }
  out = value->get_ref<const json::string_t&>();
  return true;
}

bool read(const json& object, const char* key, bool& out) {
  const json* const value = member(object, key);
  if (value == nullptr || !value->is_boolean()) {
    return false;
  }
  out = value->get<bool>();
  return true;
}

template <std::unsigned_integral Integer>
bool read(const json& object, const char* key, Integer& out) {
  const json* const value = member(object, key);
  if (value == nullptr || !value->is_number_unsigned() ||
      value->get<std::uint64_t>() > std::numeric_limits<Integer>::max()) {
    return false;
  }
  out = static_cast<Integer>(value->get<std::uint64_t>());
  return true;
}

bool read(const json& object, const char* key, std::vector<std::int64_t>& out) {
  const json* const value = member(object, key);
  if (value == nullptr || !value->is_array() || value->size() > max_frame_dimensions) {
    return false;
  }
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  for (const json& extent : *value) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > largest) {
      return false;
    }
    out.push_back(extent.get<std::int64_t>());
  }
  return true;
}

ordered_json to_json(const tensor_description& tensor) {
  ordered_json made{{"name", tensor.name},   {"dtype", tensor.dtype},       {"element", tensor.element},
                    {"shape", tensor.shape}, {"variable", tensor.variable}, {"op", tensor.op}};
  if (tensor.steps != 1) {
    made["steps"] = tensor.steps;
  }
  if (tensor.indices != 1) {
    made["indices"] = tensor.indices;
  }
  if (tensor.axis != 0) {
    made["axis"] = tensor.axis;
  }
  return made;
}

bool from_json(const json& object, tensor_description& out) {
  return object.is_object() && read(object, "name", out.name) && read(object, "dtype", out.dtype) &&
         read(object, "element", out.element) && read(object, "shape", out.shape) &&
         read(object, "variable", out.variable) && read(object, "op", out.op) &&
         (member(object, "steps") == nullptr || read(object, "steps", out.steps)) &&
         (member(object, "indices") == nullptr || read(object, "indices", out.indices)) &&
         (member(object, "axis") == nullptr ||
          (read(object, "axis", out.axis) && (out.axis == 0 || out.axis < out.shape.size())));
}

ordered_json to_json(const pipeline_description& pipeline) {
  ordered_json outputs = ordered_json::array();
  for (const tensor_description& output : pipeline.outputs) {
    outputs.push_back(to_json(output));
  }
  ordered_json made{{"id", pipeline.id},
                    {"name", pipeline.name},
                    {"max_frames", pipeline.max_frames},
                    {"input", to_json(pipeline.input)},
                    {"outputs", std::move(outputs)},
                    {"keeps_state", pipeline.keeps_state},
                    {"ordered", pipeline.ordered},
                    {"period", pipeline.period}};
  for (const tensor_description& input : pipeline.inputs) {
    made["inputs"].push_back(to_json(input));
  }
  return made;
}

bool from_json(const json& object, pipeline_description& out);

bool from_json(const json& text, std::string& out) {
  if (!text.is_string()) {
    return false;
  }
  out = text.get_ref<const json::string_t&>();
  return true;
}

/// An array of texts.
bool from_json(const json& array, std::vector<std::string>& out) {
  return array.is_array() && std::all_of(array.begin(), array.end(), [&out](const json& element) {
           return from_json(element, out.emplace_back());
         });
}

bool is_name(std::string_view text) noexcept {
  return text.size() <= max_name_bytes && is_printable(text);
}

bool read(const json& object, const char* key, double& out) {
  const json* const value = member(object, key);
  if (value == nullptr || !value->is_number()) {
    return false;
  }
  out = value->get<double>();
  return std::isfinite(out);
}

bool from_json(const json& object, number_setting& out) {
  if (!object.is_object() || !read(object, "stage", out.stage) || !read(object, "name", out.name) ||
      !is_name(out.stage) || !is_name(out.name)) {
    return false;
  }
  const json* const value = member(object, "value");
  return value != nullptr && (value->is_null() || read(object, "value", out.value.emplace()));
}

bool from_json(const json& object, number_report& out) {
  return object.is_object() && read(object, "stage", out.stage) && read(object, "name", out.name) &&
         read(object, "value", out.value) && read(object, "own", out.own);
}

bool from_json(const json& object, quarantined_pipeline& out) {
  return object.is_object() && read(object, "name", out.name) && read(object, "reason", out.reason);
}

/// An array of what from_json reads.
template <class Element>
bool read(const json& object, const char* key, std::vector<Element>& out) {
  const json* const value = member(object, key);
  if (value == nullptr || !value->is_array()) {
    return false;
  }
  return std::all_of(value->begin(), value->end(),
                     [&](const json& element) { return from_json(element, out.emplace_back()); });
}

/// As read, but a key that is missing leaves `out` as it is: keys that came after the protocol's first version.
template <class Value>
bool read_if_there(const json& object, const char* key, Value& out) {
  return member(object, key) == nullptr || read(object, key, out);
}

bool from_json(const json& object, pipeline_description& out) {
  if (!object.is_object() || !read(object, "id", out.id) || !read(object, "name", out.name) ||
      !read(object, "max_frames", out.max_frames) || !read(object, "outputs", out.outputs) ||
      !read_if_there(object, "keeps_state", out.keeps_state) || !read_if_there(object, "ordered", out.ordered) ||
      !read_if_there(object, "period", out.period) || !read_if_there(object, "inputs", out.inputs)) {
    return false;
  }
  const json* const input = member(object, "input");
  return input != nullptr && from_json(*input, out.input);
}

bool is_resume_token(std::string_view text) noexcept {
  return text.size() == resume_token_letters && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// A token that is not there is "", one that is there has its form.
bool read_token(const json& object, std::string& out) {
  return member(object, "resume") == nullptr || (read(object, "resume", out) && is_resume_token(out));
}

bool from_json(const json& object, hello& out) {
  return read(object, "client", out.client) && read(object, "version", out.version) && is_name(out.client) &&
         is_name(out.version) && read_if_there(object, "inline_bytes", out.inline_bytes) &&
         read_token(object, out.resume);
}

bool from_json(const json& object, welcome& out) {
  return read(object, "server", out.server) && read(object, "instance", out.instance) &&
         read(object, "credit_requests", out.credit_requests) && read(object, "credit_bytes", out.credit_bytes) &&
         read(object, "max_request_bytes", out.max_request_bytes) && read(object, "pipelines", out.pipelines) &&
         read_if_there(object, "answering", out.answering) && read_if_there(object, "shard", out.shard) &&
         read_if_there(object, "shards", out.shards) && read_if_there(object, "shared_bytes", out.shared_bytes) &&
         read_if_there(object, "device_bytes", out.device_bytes) && read_if_there(object, "device", out.device) &&
         read_if_there(object, "inline_bytes", out.inline_bytes) && read_token(object, out.resume) &&
         read_if_there(object, "resumed", out.resumed) && read_if_there(object, "quarantined", out.quarantined);
}

bool from_json(const json& object, open_session& out) {
  return read(object, "pipeline", out.pipeline) && read(object, "name", out.name) && is_name(out.name);
}

bool from_json(const json& object, session_opened& out) {
  return read(object, "session", out.session) && read(object, "next_sequence", out.next_sequence);
}

bool from_json(const json& object, attach& out) {
  return read(object, "bytes", out.bytes) && read_if_there(object, "device", out.device);
}

bool from_json(const json& object, attached& out) {
  return read(object, "socket", out.socket) && read(object, "ticket", out.ticket);
}

/// Names, or patterns of names.
bool are_names(const std::vector<std::string>& texts) noexcept {
  return std::all_of(texts.begin(), texts.end(), [](const std::string& each) { return is_name(each); });
}

bool from_json(const json& object, subscribe& out) {
  return read(object, "pipelines", out.pipelines) && !out.pipelines.empty() && are_names(out.pipelines) &&
         read_if_there(object, "sessions", out.sessions) && are_names(out.sessions) &&
         read_if_there(object, "outputs", out.outputs) && are_names(out.outputs) &&
         read_if_there(object, "queue_bytes", out.queue_bytes) && read_if_there(object, "requests", out.requests);
}

bool from_json(const json& object, subscribed& out) {
  return read(object, "queue_bytes", out.queue_bytes) && read(object, "next_sequence", out.next_sequence);
}

bool from_json(const json& object, publisher& out) {
  return read(object, "session", out.session) && read_if_there(object, "name", out.name) &&
         read_if_there(object, "client", out.client) && read_if_there(object, "pipeline", out.pipeline) &&
         read_if_there(object, "outputs", out.outputs) && read_if_there(object, "source", out.source) &&
         read_if_there(object, "ended", out.ended);
}

bool from_json(const json& object, set_values& out) {
  return read(object, "values", out.values) && !out.values.empty();
}

bool from_json(const json& object, values_report& out) {
  return read(object, "values", out.values);
}

bool from_json(const json& object, error_body& out) {
  return read(object, "reason", out.reason) && read(object, "step", out.step) && read(object, "stage", out.stage) &&
         read(object, "device_error", out.device_error) && read_if_there(object, "holds", out.holds);
}

// What fault_of_request looks at, key by key: as the readers above do.

enum class key_kind : std::uint8_t { name, names, number32, number64, token, flag, settings };

struct request_key {
  message_type message;
  const char* key;
  key_kind kind;
  bool required;
};

constexpr std::array<request_key, 14> request_keys{{{message_type::hello, "client", key_kind::name, true},
                                                    {message_type::hello, "version", key_kind::name, true},
                                                    {message_type::hello, "inline_bytes", key_kind::number64, false},
                                                    {message_type::hello, "resume", key_kind::token, false},
                                                    {message_type::open_session, "pipeline", key_kind::number32, true},
                                                    {message_type::open_session, "name", key_kind::name, true},
                                                    {message_type::attach, "bytes", key_kind::number64, true},
                                                    {message_type::attach, "device", key_kind::flag, false},
                                                    {message_type::subscribe, "pipelines", key_kind::names, true},
                                                    {message_type::subscribe, "sessions", key_kind::names, false},
                                                    {message_type::subscribe, "outputs", key_kind::names, false},
                                                    {message_type::subscribe, "queue_bytes", key_kind::number64, false},
                                                    {message_type::subscribe, "requests", key_kind::flag, false},
                                                    {message_type::set_values, "values", key_kind::settings, true}}};

std::string fault_of_name(const std::string& text) {
  if (text.size() > max_name_bytes) {
    return "has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(max_name_bytes) + " are taken";
  }
  return is_printable(text) ? "" : "has a control character";
}

std::string fault_of_names(const json& value) {
  std::vector<std::string> names;
  if (!value.is_array() || !from_json(value, names)) {
    return "is no list of texts";
  }
  const auto wrong = std::find_if(names.begin(), names.end(), [](const std::string& each) { return !is_name(each); });
  return wrong == names.end() ? "" : "has a text that " + fault_of_name(*wrong);
}

std::string fault_of_value(const json& value, key_kind kind) {
  if (kind == key_kind::names) {
    return fault_of_names(value);
  }
  if (kind == key_kind::settings) {
    const bool good =
        value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [](const json& each) {
          number_setting read;
          return from_json(each, read);
        });
    return good ? "" : "is no list of objects with a stage, a name and a number or null as their value";
  }
  const bool is_text = kind == key_kind::name || kind == key_kind::token;
  if (is_text && !value.is_string()) {
    return "is no text";
  }
  if (kind == key_kind::name) {
    return fault_of_name(value.get_ref<const json::string_t&>());
  }
  if (kind == key_kind::token) {
    return is_resume_token(value.get_ref<const json::string_t&>())
               ? ""
               : "is not of " + std::to_string(resume_token_letters) + " hexadecimal digits in small letters";
  }
  if (kind == key_kind::flag) {
    return value.is_boolean() ? "" : "is neither true nor false";
  }
  if (!value.is_number_unsigned()) {
    return value.is_number() ? "is " + value.dump() + "; a whole number from 0 is wanted" : "is no number";
  }
  const std::uint64_t most = kind == key_kind::number32 ? std::numeric_limits<std::uint32_t>::max()
                                                        : std::numeric_limits<std::uint64_t>::max();
  return value.get<std::uint64_t>() <= most ? "" : "is " + value.dump() + "; at most " + std::to_string(most) + " fits";
}

std::string fault_of_key(const json& object, const request_key& which) {
  const std::string shown = "key '" + std::string(which.key) + "' ";
  const json* const value = member(object, which.key);
  if (value == nullptr) {
    return which.required ? shown + "is missing" : "";
  }
  const std::string fault = fault_of_value(*value, which.kind);
  return fault.empty() ? "" : shown + fault;
}

template <class Body>
std::optional<Body> decode_body(std::span<const std::byte> bytes, const json_bounds& most) {
  const std::optional<json> object = read_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, most);
  Body body;
  if (!object || !object->is_object() || !from_json(*object, body)) {
    return std::nullopt;
  }
  return body;
}

}  // namespace

std::string encode(const hello& body) {
  ordered_json made{{"client", clip(body.client, max_name_bytes)}, {"version", clip(body.version, max_name_bytes)}};
  if (body.inline_bytes != 0) {
    made["inline_bytes"] = body.inline_bytes;
  }
  if (!body.resume.empty()) {
    made["resume"] = body.resume;
  }
  return text_of(made);
}

std::string resume_keys(const std::string& token, bool resumed) {
  return R"(,"resume":")" + token + R"(","resumed":)" + (resumed ? "true}" : "false}");
}

std::string encode(const welcome& body) {
  ordered_json pipelines = ordered_json::array();
  for (const pipeline_description& pipeline : body.pipelines) {
    pipelines.push_back(to_json(pipeline));
  }
  ordered_json made{{"server", body.server},
                    {"instance", body.instance},
                    {"credit_requests", body.credit_requests},
                    {"credit_bytes", body.credit_bytes},
                    {"max_request_bytes", body.max_request_bytes},
                    {"pipelines", std::move(pipelines)},
                    {"answering", body.answering},
                    {"shard", body.shard},
                    {"shards", body.shards}};
  if (body.shared_bytes != 0) {
    made["shared_bytes"] = body.shared_bytes;
  }
  if (body.device_bytes != 0) {
    made["device_bytes"] = body.device_bytes;
    made["device"] = body.device;
  }
  if (body.inline_bytes != 0) {
    made["inline_bytes"] = body.inline_bytes;
  }
  for (const quarantined_pipeline& each : body.quarantined) {
    made["quarantined"].push_back({{"name", each.name}, {"reason", clip(each.reason, max_reason_bytes)}});
  }
  std::string text = text_of(made);
  if (!body.resume.empty()) {
    text.pop_back();
    text += resume_keys(body.resume, body.resumed);
  }
  return text;
}

std::string encode(const open_session& body) {
  return text_of({{"pipeline", body.pipeline}, {"name", clip(body.name, max_name_bytes)}});
}

std::string encode(const session_opened& body) {
  return text_of({{"session", body.session}, {"next_sequence", body.next_sequence}});
}

std::string encode(const attach& body) {
  ordered_json made{{"bytes", body.bytes}};
  if (body.device) {
    made["device"] = true;
  }
  return text_of(made);
}

std::string encode(const attached& body) {
  return text_of({{"socket", body.socket}, {"ticket", body.ticket}});
}

std::string encode(const subscribe& body) {
  ordered_json made{{"pipelines", body.pipelines}};
  if (!body.sessions.empty()) {
    made["sessions"] = body.sessions;
  }
  if (!body.outputs.empty()) {
    made["outputs"] = body.outputs;
  }
  if (body.queue_bytes != 0) {
    made["queue_bytes"] = body.queue_bytes;
  }
  if (body.requests) {
    made["requests"] = true;
  }
  return text_of(made);
}

std::string encode(const subscribed& body) {
  return text_of({{"queue_bytes", body.queue_bytes}, {"next_sequence", body.next_sequence}});
}

std::string encode(const publisher& body) {
  ordered_json made{{"session", body.session}};
  const auto add = [&made](const char* key, const std::string& text) {
    if (!text.empty()) {
      made[key] = text;
    }
  };
  add("name", body.name);
  add("client", body.client);
  add("pipeline", body.pipeline);
  if (!body.outputs.empty()) {
    made["outputs"] = body.outputs;
  }
  if (body.source) {
    made["source"] = true;
  }
  if (body.ended) {
    made["ended"] = true;
  }
  return text_of(made);
}

std::string encode(const set_values& body) {
  ordered_json values = ordered_json::array();
  for (const number_setting& each : body.values) {
    ordered_json& made = values.emplace_back(ordered_json{{"stage", each.stage}, {"name", each.name}});
    made["value"] = each.value ? ordered_json(*each.value) : ordered_json(nullptr);
  }
  return text_of({{"values", std::move(values)}});
}

std::string encode(const values_report& body) {
  ordered_json values = ordered_json::array();
  for (const number_report& each : body.values) {
    values.push_back({{"stage", each.stage}, {"name", each.name}, {"value", each.value}, {"own", each.own}});
  }
  return text_of({{"values", std::move(values)}});
}

std::string encode(const error_body& body) {
  ordered_json made{{"reason", clip(body.reason, max_reason_bytes)},
                    {"step", clip(body.step, max_reason_bytes)},
                    {"stage", clip(body.stage, max_reason_bytes)},
                    {"device_error", clip(body.device_error, max_reason_bytes)}};
  if (body.holds) {
    made["holds"] = true;
  }
  return text_of(made);
}

std::string fault_of_request(message_type type, std::span<const std::byte> body) {
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  if (text.size() > request_bounds.bytes) {
    return "it has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(request_bounds.bytes) +
           " are read";
  }
  const std::optional<json> object = read_json(text, request_bounds);
  if (!object) {
    return json::accept(text) ? "it is nested more than " + std::to_string(request_bounds.depth) +
                                    " deep, or has more than " + std::to_string(request_bounds.values) + " values"
                              : "it is no JSON";
  }
  if (!object->is_object()) {
    return "it is no JSON object";
  }
  for (const request_key& each : request_keys) {
    if (each.message != type) {
      continue;
    }
    if (std::string fault = fault_of_key(*object, each); !fault.empty()) {
      return fault;
    }
  }
  if (type == message_type::subscribe && object->at("pipelines").empty()) {
    return "key 'pipelines' names none";
  }
  return "";
}

std::optional<hello> decode_hello(std::span<const std::byte> body) {
  return decode_body<hello>(body, request_bounds);
}

std::optional<welcome> decode_welcome(std::span<const std::byte> body) {
  return decode_body<welcome>(body, answer_bounds);
}

std::optional<error_body> decode_error_body(std::span<const std::byte> body) {
  return decode_body<error_body>(body, answer_bounds);
}

std::optional<open_session> decode_open_session(std::span<const std::byte> body) {
  return decode_body<open_session>(body, request_bounds);
}

std::optional<session_opened> decode_session_opened(std::span<const std::byte> body) {
  return decode_body<session_opened>(body, answer_bounds);
}

std::optional<attach> decode_attach(std::span<const std::byte> body) {
  return decode_body<attach>(body, request_bounds);
}

std::optional<attached> decode_attached(std::span<const std::byte> body) {
  return decode_body<attached>(body, answer_bounds);
}

std::optional<subscribe> decode_subscribe(std::span<const std::byte> body) {
  return decode_body<subscribe>(body, request_bounds);
}

std::optional<subscribed> decode_subscribed(std::span<const std::byte> body) {
  return decode_body<subscribed>(body, answer_bounds);
}

std::optional<publisher> decode_publisher(std::span<const std::byte> body) {
  return decode_body<publisher>(body, answer_bounds);
}

std::optional<set_values> decode_set_values(std::span<const std::byte> body) {
  return decode_body<set_values>(body, request_bounds);
}

std::optional<values_report> decode_values(std::span<const std::byte> body) {
  return decode_body<values_report>(body, answer_bounds);
}

bool is_answer(std::span<const std::byte> body) {
  const std::optional<json> object =
      read_json({reinterpret_cast<const char*>(body.data()), body.size()}, answer_bounds);
  return object && object->is_object();
}

}  // namespace penstock::wire
