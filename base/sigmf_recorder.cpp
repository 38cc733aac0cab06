#include "base/sigmf_recorder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/utc_time.hpp"

namespace penstock {
namespace {

using json = nlohmann::json;

constexpr double second_ns = 1e9;
constexpr std::uint8_t counted = 2;  // qualities of time, as on the wire
constexpr std::uint8_t said = 3;
/// Times that are said may be off by so much, and are of the same clock still.
constexpr double jitter_ns = 1e6;

std::string datatype_of(const std::string& element) {
  const std::string_view found = sigmf_of_element(element);
  if (found.empty()) {
    throw sigmf_error("SigMF has no samples of \"" + element + "\"");
  }
  return std::string(found);
}

sigmf_meta meta_of(const sigmf_recorder::settings& wanted) {
  sigmf_meta meta;
  meta.datatype = datatype_of(wanted.element);
  std::uint64_t channels = 1;
  for (const std::int64_t extent : wanted.sample_shape) {
    channels *= static_cast<std::uint64_t>(extent);
    if (channels > 65536 || channels == 0) {
      throw sigmf_error("a sample has more than 65536 numbers");
    }
  }
  meta.channels = static_cast<std::uint32_t>(channels);
  if (wanted.step != 0) {
    meta.sample_rate = wanted.rate * static_cast<double>(wanted.indices) / static_cast<double>(wanted.step);
  }
  json global = {{"core:extensions", json::array({{{"name", "penstock"}, {"version", "1.0.0"}, {"optional", true}}})}};
  if (!wanted.recorder.empty()) {
    global["core:recorder"] = wanted.recorder;
  }
  if (!wanted.description.empty()) {
    global["core:description"] = wanted.description;
  }
  if (wanted.sample_shape.size() > 1) {
    global["penstock:sample_shape"] = wanted.sample_shape;
  }
  meta.more = global.dump();
  return meta;
}

/// The roundest number within what the times leave open.
double round_rate(double rate, double span_ns) {
  const double open = rate * 2.0 / span_ns;
  for (double unit = 1e6; unit >= 1; unit /= 10) {
    const double rounded = std::round(rate / unit) * unit;
    if (rounded > 0 && std::abs(rounded - rate) <= open) {
      return rounded;
    }
  }
  return rate;
}

/// What is further is no index: something else was taken for it.
bool is_place(std::int64_t index) noexcept {
  constexpr std::int64_t furthest = std::int64_t{1} << 60;
  return index <= furthest && index >= -furthest;
}

}  // namespace

sigmf_recorder::sigmf_recorder(const settings& wanted)
    : meta_file_(wanted.meta_file),
      step_(wanted.step),
      indices_(wanted.indices),
      rate_(wanted.rate),
      rate_is_given_(wanted.rate > 0),
      writer_(wanted.meta_file, meta_of(wanted)) {}

sigmf_recorder::~sigmf_recorder() {
  try {
    close();
  } catch (const std::exception&) {  // what was written before is whole
  }
}

void sigmf_recorder::append(const sigmf_block& given) {
  sigmf_block block = given;
  if (block.index && !is_place(*block.index)) {
    block.index.reset();
  }
  if (!is_place(block.time_index) || !later_by(block.time_ns, 0.0)) {
    block.time_quality = 0;
  }
  const std::uint64_t samples = block.bytes.size() / writer_.sample_bytes();
  const bool goes_on = follows(block);
  if (samples == 0) {
    if (!goes_on) {
      next_.reset();
    }
    return;
  }
  if (!goes_on) {
    begin(block);
  }
  learn_time(block);
  annotate(block, samples);
  writer_.append(block.bytes);
  const auto parts = static_cast<std::int64_t>(indices_);
  const place stands = goes_on ? place_of(block).value_or(place{}) : place{0, parts - 1};
  next_ = expected{.epoch = block.epoch};
  if (block.index && step_ != 0) {
    const std::int64_t behind = stands.least + static_cast<std::int64_t>(samples * step_);
    next_->index = *block.index + behind / parts;
    next_->behind = {behind % parts, behind % parts + stands.most - stands.least};
  }
}

std::optional<sigmf_recorder::place> sigmf_recorder::place_of(const sigmf_block& block) const {
  if (!next_->index || !block.index) {
    return std::nullopt;
  }
  const auto parts = static_cast<std::int64_t>(indices_);
  const std::int64_t further = *block.index - *next_->index;
  if (further < 0 || further > 1) {
    return std::nullopt;
  }
  const place stands{std::max<std::int64_t>(next_->behind.least - further * parts, 0),
                     std::min(next_->behind.most - further * parts, parts - 1)};
  return stands.least <= stands.most ? std::optional(stands) : std::nullopt;
}

bool sigmf_recorder::follows(const sigmf_block& block) const {
  if (!next_ || next_->epoch != block.epoch || block.lost_before != 0 || (block.lost_blocks != 0 && !next_->index)) {
    return false;
  }
  const bool is_next = step_ == 0 || (!next_->index && !block.index) || place_of(block);
  return is_next && !has_new_time(block);
}

bool sigmf_recorder::has_new_time(const sigmf_block& block) const {
  if (block.time_quality < said || !latest_ || rate_ == 0) {
    return false;
  }
  const double past_ns = static_cast<double>(block.time_index - latest_->index) / rate_ * second_ns;
  const double off_ns = std::abs(static_cast<double>(block.time_ns - latest_->time_ns) - past_ns);
  return off_ns > std::max(jitter_ns, 1.5 * second_ns / rate_);
}

void sigmf_recorder::begin(const sigmf_block& block) {
  sigmf_capture capture;
  if (block.index && step_ != 0 && *block.index >= 0) {
    const auto index = static_cast<std::uint64_t>(*block.index);
    capture.global_index = index / step_ * indices_ + index % step_ * indices_ / step_;
  }
  capture.time_ns = time_of(block);
  timeless_.reset();
  if (block.time_quality != 0 && !capture.time_ns) {
    timeless_ = block;
    timeless_->bytes = {};
  }
  if (block.epoch != 0) {
    capture.epoch = block.epoch;
  }
  const bool jumps = next_ && next_->epoch == block.epoch && next_->index && block.index;
  const std::uint64_t jump = jumps ? static_cast<std::uint64_t>(*block.index - *next_->index) : 0;
  const bool is_told = block.lost_before == jump || (indices_ > 1 && block.lost_before + 1 == jump);
  if (!is_told && block.lost_before != 0) {
    capture.lost_before = block.lost_before;
  }
  if (has_new_time(block) || (next_ && next_->epoch != block.epoch)) {
    anchor_.reset();
  }
  writer_.begin(std::move(capture));
  ++captures_;
}

std::optional<std::int64_t> sigmf_recorder::time_of(const sigmf_block& block) const {
  if (block.time_quality == 0) {
    return std::nullopt;
  }
  const std::int64_t before = block.index.value_or(block.time_index) - block.time_index;
  if (before == 0) {
    return block.time_ns;
  }
  if (rate_ == 0) {
    return std::nullopt;
  }
  return later_by(block.time_ns, static_cast<double>(before) / rate_);
}

void sigmf_recorder::learn_time(const sigmf_block& block) {
  if (block.time_quality < counted || !block.index) {
    return;
  }
  const time_point now{block.time_index, block.time_ns};
  if (!anchor_ || now.index <= anchor_->index) {
    anchor_ = latest_ = now;
    return;
  }
  latest_ = now;
  const std::int64_t span_ns = now.time_ns - anchor_->time_ns;
  if (rate_is_given_ || span_ns <= longest_ns_) {
    return;
  }
  const bool is_new = rate_ == 0;
  longest_ns_ = span_ns;
  const auto span = static_cast<double>(span_ns);
  rate_ = round_rate(static_cast<double>(now.index - anchor_->index) / span * second_ns, span);
  if (is_new && step_ != 0) {
    writer_.describe(sample_rate(), timeless_ ? time_of(*timeless_) : std::nullopt);
    timeless_.reset();
  }
}

void sigmf_recorder::annotate(const sigmf_block& block, std::uint64_t samples) {
  const std::uint64_t start = writer_.samples();
  if (block.lost_blocks != 0 && !block.index) {
    writer_.annotate(json{{"core:sample_start", start},
                          {"core:label", "lost"},
                          {"core:comment", std::to_string(block.lost_blocks) +
                                               " blocks, of this stream or of others, were lost before this sample"}}
                         .dump());
  }
  if (block.filled != 0) {
    add({"filled", start, samples, block.filled});
  }
  if (block.loss_suspected) {
    add({"loss suspected", start, samples, 0});
  }
  const auto ended = std::stable_partition(
      open_.begin(), open_.end(), [&](const remark& each) { return each.start + each.count == start + samples; });
  std::for_each(ended, open_.end(), [this](const remark& each) { write(each); });
  open_.erase(ended, open_.end());
}

void sigmf_recorder::add(remark next) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const remark& each) {
    return each.label == next.label && each.start + each.count == next.start;
  });
  if (found == open_.end()) {
    open_.push_back(std::move(next));
  } else {
    found->count += next.count;
    found->filled += next.filled;
  }
}

void sigmf_recorder::write(const remark& done) {
  json made = {{"core:sample_start", done.start}, {"core:sample_count", done.count}, {"core:label", done.label}};
  if (done.filled != 0) {
    made["core:comment"] = std::to_string(done.filled) + " of the samples sent are filled in, and not real";
  }
  writer_.annotate(made.dump());
}

void sigmf_recorder::close() {
  if (std::exchange(closed_, true)) {
    return;
  }
  for (const remark& each : std::exchange(open_, {})) {
    write(each);
  }
  if (rate_ > 0 && step_ != 0) {
    writer_.describe(sample_rate());
  }
  writer_.close();
}

}  // namespace penstock
