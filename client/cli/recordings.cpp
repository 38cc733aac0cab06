#include "client/cli/recordings.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/quantity.hpp"

namespace penstock::cli {
namespace {

constexpr const char* ending = ".sigmf-meta";

/// A source gives a session of its later epochs the epoch's number: "radio/2".
std::string name_of(const published& item) {
  std::string name = item.session.empty() ? item.client : item.session;
  if (item.outputs.account() && item.outputs.account()->epoch != 0) {
    const std::string epoch = "/" + std::to_string(item.outputs.account()->epoch);
    if (name.size() > epoch.size() && name.ends_with(epoch)) {
      name.resize(name.size() - epoch.size());
    }
  }
  return name;
}

/// For a file: letters, digits and a few signs; others become "_".
std::string file_name_of(std::string name) {
  const auto is_plain = [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') || (each >= '0' && each <= '9') ||
           each == '-' || each == '_' || each == '.' || static_cast<unsigned char>(each) >= 0x80;
  };
  std::replace_if(
      name.begin(), name.end(), [&](char each) { return !is_plain(each); }, '_');
  if (name.empty() || name.front() == '.') {
    name.insert(name.begin(), '_');
  }
  return name;
}

std::string counted(std::uint64_t count, const char* what) {
  return count_text(static_cast<double>(count)) + " " + what + (count == 1 ? "" : "s");
}

bool is_spectrum(const tensor_info& info) {
  return info.op == "power_spectrum" || info.op == "histogram";
}

}  // namespace

recordings::recordings(settings wanted, const pipeline_info& pipeline) : settings_(std::move(wanted)) {
  if (settings_.requests) {
    tracks_.push_back(track_of(pipeline.input, pipeline));
    tracks_.back().info.name = "input";
  } else {
    for (const tensor_info& each : pipeline.outputs) {
      if (settings_.outputs.empty() ||
          std::find(settings_.outputs.begin(), settings_.outputs.end(), each.name) != settings_.outputs.end()) {
        tracks_.push_back(track_of(each, pipeline));
      }
    }
  }
  for (const track& each : tracks_) {
    if (sigmf_of_element(each.info.element).empty()) {
      throw std::runtime_error("SigMF has no " + each.info.element + ", which " + each.info.name + " of pipeline '" +
                               pipeline.name + "' is: choose other outputs with --output, or convert it in a stage");
    }
  }
  if (settings_.to.extension() != ending) {
    std::filesystem::create_directories(settings_.to);
  } else if (tracks_.size() > 1) {
    throw std::runtime_error("one recording holds one output, and pipeline '" + pipeline.name + "' has " +
                             std::to_string(tracks_.size()) + ": choose one with --output, or name a folder");
  } else if (!settings_.replace && std::filesystem::exists(settings_.to)) {
    throw std::runtime_error(settings_.to.string() + " is there already: --force replaces it");
  }
}

recordings::track recordings::track_of(const tensor_info& info, const pipeline_info& pipeline) {
  track made{info, info.shape};
  const bool is_pair = info.dtype != "c64" && info.element.starts_with('c');
  if (is_pair && !made.sample_shape.empty()) {
    made.sample_shape.pop_back();
  }
  const tensor_info& input = pipeline.input;
  const bool as_long =
      !info.shape.empty() && !input.shape.empty() && input.axis == 0 && info.shape.front() == input.shape.front();
  const bool in_time = info.variable || info.steps > 1 || info.indices > 1 || (as_long && !is_spectrum(info));
  if (in_time && !made.sample_shape.empty()) {
    made.sample_shape.erase(made.sample_shape.begin());
    made.step = std::max<std::uint64_t>(info.steps, 1);
    made.indices = info.indices;
  } else {
    made.frames_are_samples = true;
    made.step = input.variable || input.shape.empty() ? 0 : static_cast<std::uint64_t>(input.samples());
  }
  return made;
}

bool recordings::take(const published& item, std::size_t subscription) {
  std::uint64_t bytes = 0;
  for (const tensor_view& each : item.outputs.outputs()) {
    bytes += each.bytes.size();
  }
  if (bytes > settings_.max_bytes - std::min(bytes_, settings_.max_bytes)) {
    bytes_ = settings_.max_bytes;
    return false;
  }
  if (item.restarted) {
    forget(subscription);
  }
  lost_by_[subscription] += item.lost;
  lost_ += item.lost;
  const publisher from{subscription, item.publisher};
  for (const tensor_view& tensor : item.outputs.outputs()) {
    for (const track& each : tracks_) {
      if (each.info.name == tensor.name) {
        append(item, each, tensor, from);
      }
    }
  }
  bytes_ += bytes;
  ++items_;
  return true;
}

void recordings::append(const published& item, const track& output, const tensor_view& tensor, publisher from) {
  const std::size_t skipped = output.frames_are_samples ? 1 : 2;
  const auto shape = tensor.shape();
  const std::size_t own = output.frames_are_samples ? 0 : 1;
  const bool fits = tensor.dtype == output.info.dtype && shape.size() == output.info.shape.size() + 1 &&
                    std::equal(shape.begin() + static_cast<std::ptrdiff_t>(skipped), shape.end(),
                               output.info.shape.begin() + static_cast<std::ptrdiff_t>(own));
  if (!fits) {
    throw std::runtime_error("the pipeline was changed: " + output.info.name + " is no longer " + output.info.text());
  }
  recording* const to = recording_of(item, output, from);
  if (to == nullptr) {
    ++left_out_;
    return;
  }
  sigmf_block block;
  block.bytes = tensor.bytes;
  block.lost_blocks = lost_by_[from.first] - to->lost_seen;
  to->lost_seen = lost_by_[from.first];
  if (const auto& account = item.outputs.account()) {
    if (account->knows_index()) {
      block.index = tensor.index;
      block.time_index = account->index;
    }
    block.time_ns = account->time_ns;
    block.time_quality = static_cast<std::uint8_t>(account->quality);
    block.epoch = account->epoch;
    block.lost_before = account->lost_before;
    block.filled = account->filled;
    block.loss_suspected = (account->flags & sample_account::loss_suspected) != 0;
  }
  to->file->append(block);
}

recordings::recording* recordings::recording_of(const published& item, const track& output, publisher from) {
  recording*& known = by_publisher_[{from, output.info.name}];
  if (known != nullptr && known->from == from) {
    return known;
  }
  const std::string name = name_of(item);
  // A publisher that comes back after another of its name has two at once: then it has a recording of its own.
  recording*& latest = by_name_[{name + '\n' + item.client, output.info.name}];
  const bool takes_over = latest != nullptr && known == nullptr;
  if (takes_over) {
    latest->from = from;
    latest->file->interrupt();
  } else if (settings_.to.extension() == ending && !all_.empty()) {
    return nullptr;
  } else {
    latest = &begin(item, output, from, name);
  }
  known = latest;
  return known;
}

recordings::recording& recordings::begin(const published& item, const track& output, publisher from,
                                         const std::string& name) {
  sigmf_recorder::settings wanted;
  wanted.meta_file = settings_.to;
  if (settings_.to.extension() != ending) {
    const std::string stem = file_name_of(name) + "." + file_name_of(output.info.name);
    wanted.meta_file = settings_.to / (stem + ending);
    for (int number = 2; std::filesystem::exists(wanted.meta_file); ++number) {
      wanted.meta_file = settings_.to / (stem + "-" + std::to_string(number) + ending);
    }
  }
  wanted.element = output.info.element;
  wanted.sample_shape = output.sample_shape;
  wanted.step = output.step;
  wanted.indices = output.indices;
  wanted.rate = settings_.rate;
  wanted.recorder = settings_.recorder;
  wanted.description = (settings_.requests ? "sent to" : output.info.name + " of") + (" pipeline " + item.pipeline) +
                       (item.session.empty() ? "" : ", session " + item.session) + ", client " + item.client;
  auto& made = all_.emplace_back(std::make_unique<recording>());
  made->from = from;
  made->is_even = output.step != 0;
  made->lost_seen = lost_by_[from.first] - item.lost;
  made->file = std::make_unique<sigmf_recorder>(wanted);
  return *made;
}

// The daemon gives its publishers other numbers now, and nobody knows what was lost.
void recordings::forget(std::size_t subscription) {
  std::erase_if(by_publisher_, [&](const auto& each) { return each.first.first.first == subscription; });
  for (const auto& each : all_) {
    if (each->from.first == subscription) {
      each->file->interrupt();
      each->from = {};
    }
  }
}

void recordings::close() {
  for (const auto& each : all_) {
    each->file->close();
  }
}

std::vector<std::string> recordings::summary() const {
  std::vector<std::string> lines;
  for (const auto& each : all_) {
    lines.push_back(each->file->meta_file().string() + "  " + counted(each->file->samples(), "sample") + " in " +
                    counted(each->file->captures(), "capture"));
  }
  return lines;
}

std::vector<std::string> recordings::without_rate() const {
  std::vector<std::string> lines;
  for (const auto& each : all_) {
    if (each->file->sample_rate() == 0) {
      lines.push_back(each->file->meta_file().string() + " has no sample rate: " +
                      (each->is_even ? "no times came with the samples; --rate says it"
                                     : "a sample is a frame, and frames may have any length"));
    }
  }
  return lines;
}

}  // namespace penstock::cli
