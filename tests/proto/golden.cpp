#include "tests/proto/golden.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>

#include <sys/mman.h>
#include <unistd.h>

namespace penstock::wire::testing {
namespace {

message_type type_of(const std::string& name) {
  static const std::map<std::string, message_type> types{{"hello", message_type::hello},
                                                         {"welcome", message_type::welcome},
                                                         {"goodbye", message_type::goodbye},
                                                         {"ping", message_type::ping},
                                                         {"pong", message_type::pong},
                                                         {"get_status", message_type::get_status},
                                                         {"status_report", message_type::status_report},
                                                         {"open_session", message_type::open_session},
                                                         {"session_opened", message_type::session_opened},
                                                         {"close_session", message_type::close_session},
                                                         {"get_trace", message_type::get_trace},
                                                         {"trace_report", message_type::trace_report},
                                                         {"attach", message_type::attach},
                                                         {"attached", message_type::attached},
                                                         {"submit", message_type::submit},
                                                         {"cancel", message_type::cancel},
                                                         {"submit_shared", message_type::submit_shared},
                                                         {"result", message_type::result},
                                                         {"error", message_type::error},
                                                         {"result_shared", message_type::result_shared},
                                                         {"released", message_type::released},
                                                         {"subscribe", message_type::subscribe},
                                                         {"subscribed", message_type::subscribed},
                                                         {"unsubscribe", message_type::unsubscribe},
                                                         {"published", message_type::published},
                                                         {"publisher", message_type::publisher},
                                                         {"set_values", message_type::set_values},
                                                         {"values", message_type::values},
                                                         {"get_values", message_type::get_values}};
  return types.at(name);
}

status status_of(const std::string& name) {
  for (const status_entry& row : status_table()) {
    if (row.name == name) {
      return row.code;
    }
  }
  throw std::out_of_range("no status " + name);
}

}  // namespace

std::filesystem::path golden_folder() {
  const char* const given = std::getenv("PENSTOCK_GOLDEN");
  return given != nullptr ? given : PENSTOCK_GOLDEN;
}

bytes read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw std::runtime_error("cannot read " + file.string() + " (PENSTOCK_GOLDEN names the folder)");
  }
  bytes out(std::filesystem::file_size(file));
  stream.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
  return out;
}

const nlohmann::json& golden_index() {
  static const nlohmann::json index = [] {
    const bytes text = read_file(golden_folder() / "index.json");
    return nlohmann::json::parse(reinterpret_cast<const char*>(text.data()),
                                 reinterpret_cast<const char*>(text.data()) + text.size());
  }();
  return index;
}

std::vector<bytes> parts_of(const nlohmann::json& entry) {
  std::vector<bytes> parts;
  for (const auto& name : entry.at("parts")) {
    parts.push_back(read_file(golden_folder() / name.get<std::string>()));
  }
  return parts;
}

std::vector<bytes> all_heads() {
  std::vector<bytes> heads;
  for (const char* const group : {"messages", "malformed"}) {
    for (const auto& entry : golden_index().at(group)) {
      heads.push_back(parts_of(entry).front());
    }
  }
  return heads;
}

message_header header_of(const nlohmann::json& entry) {
  const auto& fields = entry.at("header");
  message_header header;
  header.major = fields.at("major").get<std::uint8_t>();
  header.type = type_of(fields.at("type").get<std::string>());
  header.header_len = fields.at("header_len").get<std::uint16_t>();
  header.request_id = fields.at("request_id").get<std::uint64_t>();
  header.timeout_ns = fields.at("timeout_ns").get<std::uint64_t>();
  header.pipeline = fields.at("pipeline").get<std::uint32_t>();
  header.session = fields.at("session").get<std::uint32_t>();
  header.sequence = fields.at("sequence").get<std::uint64_t>();
  header.tensors = fields.at("tensors").get<std::uint16_t>();
  header.code = status_of(fields.at("status").get<std::string>());
  header.frames = fields.at("frames").get<std::uint32_t>();
  const auto digits = fields.at("trace_id").get<std::string>();
  for (std::size_t i = 0; i < header.trace_id.size(); ++i) {
    unsigned value = 0;
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, value, 16);
    header.trace_id[i] = static_cast<std::byte>(value);
  }
  return header;
}

std::vector<tensor_header> tensors_of(const nlohmann::json& entry) {
  std::vector<tensor_header> tensors;
  for (const auto& fields : entry.at("tensors")) {
    tensor_header tensor;
    tensor.type = {fields.at("code").get<std::uint8_t>(), fields.at("bits").get<std::uint8_t>(),
                   fields.at("lanes").get<std::uint16_t>()};
    tensor.bytes = fields.at("bytes").get<std::uint64_t>();
    const auto shape = fields.at("shape").get<std::vector<std::int64_t>>();
    tensor.dimensions = static_cast<std::uint8_t>(shape.size());
    std::copy(shape.begin(), shape.end(), tensor.shape.begin());
    tensors.push_back(tensor);
  }
  return tensors;
}

shared_place place_of(const nlohmann::json& entry) {
  const auto& fields = entry.at("place");
  return {fields.at("arena").get<std::uint32_t>(), fields.at("repeat").get<bool>(),
          fields.at("input").get<std::uint64_t>(), fields.at("output").get<std::uint64_t>(),
          fields.at("output_bytes").get<std::uint64_t>()};
}

sample_account account_of(const nlohmann::json& entry) {
  const auto& fields = entry.at("account");
  return {.index = fields.at("index").get<std::int64_t>(),
          .time_ns = fields.at("time_ns").get<std::int64_t>(),
          .lost_before = fields.at("lost_before").get<std::uint64_t>(),
          .epoch = fields.at("epoch").get<std::uint32_t>(),
          .filled = fields.at("filled").get<std::uint32_t>(),
          .quality = static_cast<time_quality>(fields.at("quality").get<std::uint8_t>()),
          .flags = fields.at("flags").get<std::uint8_t>()};
}

decode_error error_of(const std::string& name) {
  static const std::map<std::string, decode_error> errors{{"truncated", decode_error::truncated},
                                                          {"bad_magic", decode_error::bad_magic},
                                                          {"unsupported_version", decode_error::unsupported_version},
                                                          {"bad_header_len", decode_error::bad_header_len},
                                                          {"too_many_tensors", decode_error::too_many_tensors},
                                                          {"truncated_tensors", decode_error::truncated_tensors},
                                                          {"bad_tensor", decode_error::bad_tensor}};
  return errors.at(name);
}

guarded_bytes::guarded_bytes(std::span<const std::byte> content) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t readable = (content.size() + page - 1) / page * page;
  mapped_bytes_ = readable + page;
  void* const memory = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error("mmap failed");
  }
  mapped_ = static_cast<std::byte*>(memory);
  if (mprotect(mapped_ + readable, page, PROT_NONE) != 0) {
    munmap(mapped_, mapped_bytes_);
    throw std::runtime_error("mprotect failed");
  }
  std::byte* const first = mapped_ + readable - content.size();
  std::copy(content.begin(), content.end(), first);
  view_ = {first, content.size()};
}

guarded_bytes::~guarded_bytes() {
  munmap(mapped_, mapped_bytes_);
}

}  // namespace penstock::wire::testing
