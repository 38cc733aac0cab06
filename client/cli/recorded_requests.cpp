#include "client/cli/recorded_requests.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <poll.h>

namespace penstock::cli {
namespace {

using std::chrono::steady_clock;

}  // namespace

recorded_requests::recorded_requests(std::filesystem::path meta_file, const pipeline_info& pipeline,
                                     const settings& wanted, stop_event& stop)
    : meta_file_(std::move(meta_file)),
      settings_(wanted),
      stop_(stop),
      frame_(pipeline.input.shape.empty() ? 1 : static_cast<std::uint64_t>(pipeline.input.shape.front())),
      variable_(pipeline.input.variable) {
  try {
    take_segments(read_sigmf(meta_file_), pipeline);
  } catch (const sigmf_error& error) {
    throw input_error(meta_file_.string() + ": " + error.what());
  }
  if (settings_.pace > 0 && rate_ == 0) {
    throw input_error(meta_file_.string() + " does not say its sample rate: say --rate, or --pace free");
  }
  owed_ = current().lost_before;
}

void recorded_requests::take_segments(const sigmf_meta& meta, const pipeline_info& pipeline) {
  const tensor_info& input = pipeline.input;
  if (input.axis != 0) {
    throw input_error("pipeline '" + pipeline.name + "' takes " + input.text() + " with time along axis " +
                      std::to_string(input.axis) + ", and a recording is sent sample after sample");
  }
  const bool is_pair = input.dtype != "c64" && input.element.starts_with('c');
  const std::size_t row = input.frame_bytes(1);
  if (element_of_sigmf(meta.datatype) != input.element ||
      input.item_bytes() * (is_pair ? 2 : 1) * meta.channels != row) {
    throw input_error(meta_file_.string() + " holds " + meta.datatype + " in " + std::to_string(meta.channels) +
                      (meta.channels == 1 ? " channel" : " channels") + ", and pipeline '" + pipeline.name +
                      "' takes " + input.text());
  }
  sample_bytes_ = row;
  rate_ = settings_.rate > 0 ? settings_.rate : meta.sample_rate;
  const std::filesystem::path data = sigmf_data_path(meta_file_);
  data_.open(data, std::ios::binary);
  std::error_code failed;
  const std::uint64_t total = std::filesystem::file_size(data, failed) / sample_bytes_;
  if (!data_ || failed) {
    throw input_error("can't read " + data.string());
  }
  const std::vector<sigmf_capture> captures = complete_captures(meta);
  for (std::size_t at = 0; at < captures.size(); ++at) {
    const sigmf_capture& each = captures[at];
    const std::uint64_t end = at + 1 < captures.size() ? captures[at + 1].sample_start : total;
    if (std::min(end, total) > each.sample_start) {
      segments_.push_back({.begin = each.sample_start,
                           .end = std::min(end, total),
                           .index = static_cast<std::int64_t>(*each.global_index),
                           .time_ns = each.time_ns,
                           .epoch = static_cast<std::uint32_t>(*each.epoch),
                           .lost_before = *each.lost_before});
    }
  }
  if (segments_.empty()) {
    throw input_error(meta_file_.string() + " holds no samples");
  }
  figures_.captures = segments_.size();
  sample_ = segments_.front().begin;
}

std::uint64_t recorded_requests::bytes() const noexcept {
  return (segments_.back().end - segments_.front().begin) * sample_bytes_;
}

sample_numbers recorded_requests::first() const noexcept {
  const segment& begin = segments_.front();
  return {begin.index, rate_ > 0 ? begin.time_ns : std::nullopt, rate_};
}

std::optional<stream_request> recorded_requests::next() {
  if (at_ == segments_.size()) {
    return std::nullopt;
  }
  began_ = began_.value_or(steady_clock::now());
  stream_request request;
  request.account = account_of_next();
  const std::uint64_t most = frame_ * settings_.frames_per_request;
  const std::uint64_t left = current().end - sample_;
  std::uint64_t length = std::min(most, left);
  request.frames = static_cast<std::uint32_t>(std::max<std::uint64_t>(length / frame_, 1));
  length = length > frame_ ? request.frames * frame_ : length;
  request.bytes.reserve(std::max(length, frame_) * sample_bytes_);
  read_samples(request.bytes, length);
  if (length < frame_) {
    if (variable_) {
      request.leading = static_cast<std::int64_t>(length);
    } else {
      fill_up(request, frame_);
    }
  }
  return wait_for(due_) ? std::optional(std::move(request)) : std::nullopt;
}

sample_account recorded_requests::account_of_next() const {
  const segment& now = current();
  const auto past = static_cast<std::int64_t>(sample_ - now.begin);
  auto account = sample_account::at(now.index + past, now.epoch);
  account.lost_before = owed_;
  if (begins_ && epoch_begins_) {
    account.flags |= sample_account::epoch_begins;
  }
  if (now.time_ns && (past == 0 || rate_ > 0)) {
    account.time_ns = sample_numbers{now.index, now.time_ns, rate_ > 0 ? rate_ : 1}.time_of(account.index);
    account.quality = past == 0 ? time_quality::source : time_quality::estimated;
  }
  return account;
}

/// Goes on to the next segment at the end of one.
void recorded_requests::read_samples(std::vector<std::byte>& into, std::uint64_t count) {
  const std::size_t before = into.size();
  into.resize(before + count * sample_bytes_);
  data_.seekg(static_cast<std::streamoff>(sample_ * sample_bytes_));
  data_.read(reinterpret_cast<char*>(into.data() + before), static_cast<std::streamsize>(count * sample_bytes_));
  if (!data_) {
    throw input_error("can't read " + sigmf_data_path(meta_file_).string());
  }
  figures_.lost += std::exchange(owed_, 0);
  figures_.samples += count;
  position_ += count;
  due_ = position_;
  begins_ = false;
  sample_ += count;
  if (sample_ == current().end && ++at_ < segments_.size()) {
    const segment& last = segments_[at_ - 1];
    owed_ = current().lost_before;
    begins_ = true;
    epoch_begins_ = current().epoch != last.epoch;
    sample_ = current().begin;
    const std::int64_t expected = last.index + static_cast<std::int64_t>(last.end - last.begin);
    if (!epoch_begins_ && current().index > expected) {
      position_ += static_cast<std::uint64_t>(current().index - expected);
    }
  }
}

void recorded_requests::fill(stream_request& request, std::uint64_t count) {
  request.bytes.resize(request.bytes.size() + count * sample_bytes_);
  request.account->filled += static_cast<std::uint32_t>(count);
  request.account->flags |= sample_account::has_filled;
  figures_.filled += count;
}

/// A frame of which the capture has ended.
void recorded_requests::fill_up(stream_request& request, std::uint64_t wanted) {
  std::uint64_t missing = wanted - request.bytes.size() / sample_bytes_;
  while (missing > 0) {
    const std::int64_t expected = request.account->index + static_cast<std::int64_t>(wanted - missing);
    const bool goes_on = at_ < segments_.size() && !epoch_begins_ && current().index >= expected;
    const std::uint64_t gap = goes_on ? static_cast<std::uint64_t>(current().index - expected) : missing;
    const std::uint64_t filled = std::min(gap, missing);
    fill(request, filled);
    owed_ -= goes_on ? std::min(owed_, filled) : 0;
    missing -= filled;
    if (missing > 0) {
      const std::uint64_t count = std::min(missing, current().end - sample_);
      read_samples(request.bytes, count);
      missing -= count;
    }
  }
}

/// By a clock that does not add up what single waits are late. False at a stop.
bool recorded_requests::wait_for(std::uint64_t position) const {
  if (settings_.pace == 0) {
    return !stop_.requested();
  }
  constexpr double most_seconds = 1e9;
  const double seconds = std::min(static_cast<double>(position) / (rate_ * settings_.pace), most_seconds);
  const auto due = *began_ + std::chrono::nanoseconds{std::llround(seconds * 1e9)};
  for (auto now = steady_clock::now(); now < due && !stop_.requested(); now = steady_clock::now()) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(due - now).count();
    const timespec pause{left / 1'000'000'000, left % 1'000'000'000};
    pollfd stopped{stop_.descriptor(), POLLIN, 0};
    (void)::ppoll(&stopped, 1, &pause, nullptr);
  }
  return !stop_.requested();
}

}  // namespace penstock::cli
