#include "base/sigmf.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/utc_time.hpp"
#include "base/whole_file.hpp"

namespace penstock {
namespace {

constexpr int max_nesting = 64;
// Of samples: sums and differences of such fit into 64 bits.
constexpr std::uint64_t largest_place = std::uint64_t{1} << 60U;

using json = nlohmann::json;

constexpr std::size_t largest_meta_bytes = std::size_t{64} << 20U;
constexpr const char* version = "1.0.0";

struct datatype {
  std::string_view sigmf;
  std::string_view element;
  std::size_t bytes;
};

constexpr std::array<datatype, 14> datatypes{{{"cf32_le", "cf32", 8},
                                              {"ci16_le", "ci16", 4},
                                              {"ci8", "ci8", 2},
                                              {"cu8", "cu8", 2},
                                              {"rf32_le", "f32", 4},
                                              {"rf64_le", "f64", 8},
                                              {"ri32_le", "i32", 4},
                                              {"ri16_le", "i16", 2},
                                              {"ru16_le", "u16", 2},
                                              {"ri8", "i8", 1},
                                              {"ru8", "u8", 1},
                                              // Both spell one byte, and older writers put an order behind it.
                                              {"ci8_le", "ci8", 2},
                                              {"cu8_le", "cu8", 2},
                                              {"ru8_le", "u8", 1}}};

/// The value of a key, which is taken out.
template <typename Value>
std::optional<Value> take(json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) {
    return std::nullopt;
  }
  try {
    const Value value = found->get<Value>();
    object.erase(found);
    return value;
  } catch (const json::exception&) {
    throw sigmf_error(std::string(key) + " is " + found->dump() + ", which it can't be");
  }
}

std::optional<std::uint64_t> take_count(json& object, const char* key) {
  if (const auto found = object.find(key); found != object.end() && !found->is_number_unsigned()) {
    throw sigmf_error(std::string(key) + " is " + found->dump() + ", which is no whole number from 0");
  }
  return take<std::uint64_t>(object, key);
}

std::string rest_of(const json& object) {
  return object.empty() ? "" : object.dump();
}

json object_of(const std::string& text) {
  return text.empty() ? json::object() : json::parse(text);
}

sigmf_capture capture_of(json object) {
  if (!object.is_object()) {
    throw sigmf_error("a capture is no object");
  }
  sigmf_capture capture;
  const auto start = take_count(object, "core:sample_start");
  if (!start) {
    throw sigmf_error("a capture has no core:sample_start");
  }
  capture.sample_start = *start;
  capture.global_index = take_count(object, "core:global_index");
  if (capture.sample_start > largest_place || capture.global_index.value_or(0) > largest_place) {
    throw sigmf_error("a capture is beyond the sample 2^60");
  }
  if (const auto time = take<std::string>(object, "core:datetime")) {
    capture.time_ns = parse_utc_time(*time);
    if (!capture.time_ns) {
      throw sigmf_error("core:datetime is \"" + *time + "\", which is no time");
    }
  }
  capture.frequency = take<double>(object, "core:frequency");
  capture.epoch = take_count(object, "penstock:epoch");
  capture.lost_before = take_count(object, "penstock:lost_before");
  capture.more = rest_of(object);
  return capture;
}

const json& list_of(const json& all, const char* key) {
  static const json none = json::array();
  const auto found = all.find(key);
  if (found != all.end() && !found->is_array()) {
    throw sigmf_error(std::string(key) + " is no array");
  }
  return found == all.end() ? none : *found;
}

/// Of the years that can be read again.
std::optional<std::int64_t> readable_time(std::optional<std::int64_t> time_ns) {
  return time_ns && parse_utc_time(print_utc_time(*time_ns)) ? time_ns : std::nullopt;
}

std::string failure(const char* what, const std::filesystem::path& file) {
  return std::string(what) + " " + file.string() + ": " + std::strerror(errno);
}

}  // namespace

sigmf_meta parse_sigmf(std::string_view text) {
  // What is nested is written by recursion.
  const auto bounded = [](int depth, json::parse_event_t /*event*/, json& /*value*/) {
    if (depth > max_nesting) {
      throw sigmf_error("it is nested deeper than " + std::to_string(max_nesting) + " levels");
    }
    return true;
  };
  const json all = json::parse(text, bounded, /*allow_exceptions=*/false);
  if (!all.is_object() || !all.contains("global") || !all["global"].is_object()) {
    throw sigmf_error("it is no JSON object with an object \"global\"");
  }
  json global = all["global"];
  sigmf_meta meta;
  const auto type = take<std::string>(global, "core:datatype");
  if (!type) {
    throw sigmf_error("it has no core:datatype");
  }
  meta.datatype = *type;
  const std::uint64_t channels = take_count(global, "core:num_channels").value_or(1);
  if (channels == 0 || channels > 65536) {
    throw sigmf_error("core:num_channels is " + std::to_string(channels));
  }
  meta.channels = static_cast<std::uint32_t>(channels);
  meta.sample_rate = take<double>(global, "core:sample_rate").value_or(0);
  if (!(meta.sample_rate >= 0) || meta.sample_rate > 1e12) {
    throw sigmf_error("core:sample_rate is no rate");
  }
  if (const auto found = global.find("core:version"); found != global.end() && *found == version) {
    global.erase(found);  // the one that is written again
  }
  meta.more = rest_of(global);
  for (const json& each : list_of(all, "captures")) {
    meta.captures.push_back(capture_of(each));
  }
  const auto before = [](const sigmf_capture& left, const sigmf_capture& right) {
    return left.sample_start < right.sample_start;
  };
  if (!std::is_sorted(meta.captures.begin(), meta.captures.end(), before)) {
    throw sigmf_error("its captures are not in order");
  }
  for (const json& each : list_of(all, "annotations")) {
    meta.annotations.push_back(each.dump());
  }
  return meta;
}

sigmf_meta read_sigmf(const std::filesystem::path& meta_file) {
  std::string text;
  try {
    text = read_whole_file(meta_file, largest_meta_bytes);
  } catch (const std::runtime_error& error) {
    throw sigmf_error(error.what());
  }
  return parse_sigmf(text);
}

std::vector<sigmf_capture> complete_captures(const sigmf_meta& meta) {
  std::vector<sigmf_capture> all = meta.captures;
  if (all.empty() || all.front().sample_start > 0) {
    all.insert(all.begin(), sigmf_capture{});
  }
  const bool says_epochs =
      std::any_of(all.begin(), all.end(), [](const sigmf_capture& each) { return each.epoch.has_value(); });
  for (std::size_t at = 0; at < all.size(); ++at) {
    sigmf_capture& next = all[at];
    const sigmf_capture* const last = at > 0 ? &all[at - 1] : nullptr;
    const std::uint64_t expected =
        last != nullptr ? *last->global_index + (next.sample_start - last->sample_start) : next.sample_start;
    next.global_index = next.global_index.value_or(expected);
    const bool falls_back = last != nullptr && *next.global_index < expected;
    const std::uint64_t before = last != nullptr ? *last->epoch : 0;
    next.epoch = says_epochs ? next.epoch.value_or(0) : before + (falls_back ? 1 : 0);
    const bool jumps = last != nullptr && *next.epoch == before && *next.global_index > expected;
    next.lost_before = next.lost_before.value_or(jumps ? *next.global_index - expected : 0);
  }
  return all;
}

std::string print_sigmf(const sigmf_meta& meta) {
  json global = object_of(meta.more);
  global["core:datatype"] = meta.datatype;
  if (!global.contains("core:version")) {
    global["core:version"] = version;
  }
  if (meta.channels != 1) {
    global["core:num_channels"] = meta.channels;
  }
  if (meta.sample_rate != 0) {
    global["core:sample_rate"] = meta.sample_rate;
  }
  json captures = json::array();
  for (const sigmf_capture& each : meta.captures) {
    json object = object_of(each.more);
    object["core:sample_start"] = each.sample_start;
    if (each.global_index) {
      object["core:global_index"] = *each.global_index;
    }
    if (each.time_ns) {
      object["core:datetime"] = print_utc_time(*each.time_ns);
    }
    if (each.frequency) {
      object["core:frequency"] = *each.frequency;
    }
    if (each.epoch) {
      object["penstock:epoch"] = *each.epoch;
    }
    if (each.lost_before) {
      object["penstock:lost_before"] = *each.lost_before;
    }
    captures.push_back(std::move(object));
  }
  json annotations = json::array();
  for (const std::string& each : meta.annotations) {
    annotations.push_back(json::parse(each));
  }
  const json all = {
      {"global", std::move(global)}, {"captures", std::move(captures)}, {"annotations", std::move(annotations)}};
  return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string_view element_of_sigmf(std::string_view name) noexcept {
  const auto* const found =
      std::find_if(datatypes.begin(), datatypes.end(), [&](const datatype& each) { return each.sigmf == name; });
  return found == datatypes.end() ? "" : found->element;
}

std::string_view sigmf_of_element(std::string_view element) noexcept {
  const auto* const found =
      std::find_if(datatypes.begin(), datatypes.end(), [&](const datatype& each) { return each.element == element; });
  return found == datatypes.end() ? "" : found->sigmf;
}

std::filesystem::path sigmf_data_path(std::filesystem::path meta) {
  return meta.replace_extension(".sigmf-data");
}

sigmf_writer::sigmf_writer(const std::filesystem::path& meta_file, sigmf_meta meta, bool continues)
    : meta_file_(meta_file), meta_(std::move(meta)) {
  const auto* const found = std::find_if(datatypes.begin(), datatypes.end(),
                                         [&](const datatype& each) { return each.sigmf == meta_.datatype; });
  if (found == datatypes.end()) {
    throw sigmf_error("there is no datatype \"" + meta_.datatype + "\"");
  }
  sample_bytes_ = found->bytes * meta_.channels;
  const std::filesystem::path data = sigmf_data_path(meta_file_);
  const bool is_there = continues && std::filesystem::exists(meta_file_);
  data_ = file_descriptor(::open(data.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
  if (!data_) {
    throw sigmf_error(failure("can't create", data));
  }
  if (!lock_file(data_.number())) {
    throw sigmf_error("another sink or program writes it");
  }
  if (is_there) {
    take_over();
  } else {
    cut();
  }
  write_meta();
}

void sigmf_writer::take_over() {
  sigmf_meta before = read_sigmf(meta_file_);
  if (before.datatype != meta_.datatype || before.channels != meta_.channels ||
      before.sample_rate != meta_.sample_rate) {
    throw sigmf_error("it is a recording of " + before.datatype + ", " + std::to_string(before.channels) +
                      " channels, at " + std::to_string(before.sample_rate) +
                      " samples per second, and can't be continued with " + meta_.datatype + ", " +
                      std::to_string(meta_.channels) + ", " + std::to_string(meta_.sample_rate));
  }
  meta_ = std::move(before);
  const off_t end = ::lseek(data_.number(), 0, SEEK_END);
  samples_ = static_cast<std::uint64_t>(std::max<off_t>(end, 0)) / sample_bytes_;
  std::erase_if(meta_.captures, [this](const sigmf_capture& each) { return each.sample_start > samples_; });
  cut();
}

// To whole samples.
void sigmf_writer::cut() {
  const auto end = static_cast<off_t>(samples_ * sample_bytes_);
  if (::ftruncate(data_.number(), end) != 0 || ::lseek(data_.number(), end, SEEK_SET) < 0) {
    throw sigmf_error(failure("can't continue", sigmf_data_path(meta_file_)));
  }
}

sigmf_writer::~sigmf_writer() {
  try {
    close();
  } catch (const std::exception&) {  // what was written before is whole
  }
}

void sigmf_writer::begin(sigmf_capture capture) {
  capture.sample_start = samples_;
  // What could not be read again.
  if (capture.global_index.value_or(0) > largest_place) {
    capture.global_index.reset();
  }
  capture.time_ns = readable_time(capture.time_ns);
  if (!meta_.captures.empty() && meta_.captures.back().sample_start == samples_) {
    meta_.captures.back() = std::move(capture);  // nothing was in it
  } else {
    meta_.captures.push_back(std::move(capture));
  }
  // All of them are written each time.
  constexpr std::size_t many = 1024;
  if (meta_.captures.size() <= many || meta_.captures.size() % many == 0) {
    write_meta();
  }
}

void sigmf_writer::append(std::span<const std::byte> samples) {
  if (samples.size() % sample_bytes_ != 0) {
    throw sigmf_error("these are no whole samples");
  }
  if (!write_all(data_.number(), {reinterpret_cast<const char*>(samples.data()), samples.size()})) {
    const sigmf_error failed(failure("can't write to", sigmf_data_path(meta_file_)));
    cut();
    throw failed;
  }
  samples_ += samples.size() / sample_bytes_;
}

void sigmf_writer::describe(double sample_rate, std::optional<std::int64_t> time_ns) {
  meta_.sample_rate = sample_rate;
  if (time_ns && !meta_.captures.empty()) {
    meta_.captures.back().time_ns = readable_time(time_ns);
  }
  write_meta();
}

void sigmf_writer::close() {
  if (data_) {
    data_.close();
    write_meta();
  }
}

void sigmf_writer::write_meta() const {
  std::filesystem::path fresh = meta_file_;
  fresh += ".new";
  file_descriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file || !write_all(file.number(), print_sigmf(meta_)) || ::rename(fresh.c_str(), meta_file_.c_str()) != 0) {
    throw sigmf_error(failure("can't write", meta_file_));
  }
}

}  // namespace penstock
