#include "daemon/live/block_assembler.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/utc_time.hpp"
#include "kernels/element_values.hpp"

namespace penstock::live {
namespace {

constexpr std::size_t most_gaps = 256;
// A gap of more samples than these is no gap, but another clock.
constexpr std::int64_t longest_gap = std::int64_t{1} << 40;
// Samples that come so far behind are not late: the sender began anew.
constexpr std::int64_t least_fall = std::int64_t{1} << 17;
// Without a rate there is no time to fill: so many blocks.
constexpr std::uint64_t blocks_without_rate = 16;

/// A sample of NaN.
std::vector<std::byte> nan_sample(element_type type, std::size_t bytes) {
  const std::size_t values = bytes / size_of(type) * (is_complex(type) ? 2 : 1);
  const std::vector<double> nans(values, std::numeric_limits<double>::quiet_NaN());
  std::vector<std::byte> made(bytes);
  writer_of(is_complex(type) ? element_type::f32 : type)(nans.data(), made.data(), 1, values);
  return made;
}

}  // namespace

void block_plan::fill(std::byte* to, std::size_t samples) const noexcept {
  if (missing.empty()) {
    std::memset(to, 0, samples * sample_bytes);
    return;
  }
  for (std::size_t each = 0; each < samples; ++each) {
    std::memcpy(to + each * sample_bytes, missing.data(), sample_bytes);
  }
}

block_plan plan_of(const source_declaration& source, double rate) {
  block_plan plan{.sample_bytes = source.sample_bytes,
                  .block = static_cast<std::size_t>(source.block),
                  .frame = source.input.variable ? 0 : static_cast<std::size_t>(source.input.shape.front()),
                  .rate = rate,
                  .gap = source.gap,
                  .overrun = source.overrun,
                  .queue = source.queue,
                  .streams = source.is_live() ? source.max_streams : 1,
                  .max_fill = 0,
                  .missing = {}};
  const double seconds = std::chrono::duration<double>(source.gap.max_fill).count();
  plan.max_fill = rate > 0                          ? static_cast<std::uint64_t>(std::llround(rate * seconds))
                  : source.gap.max_fill.count() > 0 ? blocks_without_rate * plan.block
                                                    : 0;
  if (source.gap.policy == gap_policy::nan) {
    plan.missing = nan_sample(source.dtype, source.sample_bytes);
  }
  return plan;
}

void block_assembler::loss(loss_kind kind, std::uint64_t samples) noexcept {
  samples = std::min(samples, static_cast<std::uint64_t>(longest_gap));
  (kind == loss_kind::kernel ? lost_kernel_ : lost_network_) += samples;
}

void block_assembler::suspect() noexcept {
  ++events_.suspected;
  (block_.bytes != nullptr ? block_.account.flags : flags_) |= wire::sample_flag::loss_suspected;
}

std::span<std::byte> block_assembler::room() {
  if (!begun_ || epoch_pending_ || written_ != position_ || lost_kernel_ + lost_network_ != 0 || !open_block()) {
    return {};
  }
  return {block_.bytes + block_.samples * plan_.sample_bytes, (plan_.block - block_.samples) * plan_.sample_bytes};
}

void block_assembler::samples(const sample_run& run, time_point now) {
  const std::size_t count = run.bytes.size() / plan_.sample_bytes;
  if (count == 0) {
    return;
  }
  watch_rate(count, now);
  std::size_t skipped = 0;
  std::int64_t start = 0;
  if (!resume(run, skipped, start)) {
    return;
  }
  const std::size_t fresh = count - skipped;
  note_time(run, start, skipped);
  counts_.expected += fresh;
  position_ = start + static_cast<std::int64_t>(fresh);
  if (start != written_) {
    close_hole(start);
  }
  if (start != written_) {  // there is no memory for it
    counts_.overrun += fresh;
    return;
  }
  if (run.restored) {
    events_.restored += fresh;
    (block_.bytes != nullptr ? block_.account.flags : flags_) |= wire::sample_flag::restored;
  }
  append(run.bytes.data() + skipped * plan_.sample_bytes, fresh);
}

// Finds where the run stands, and counts what is missing before it. False when nothing of it is new.
bool block_assembler::resume(const sample_run& run, std::size_t& skipped, std::int64_t& start) {
  const auto count = static_cast<std::int64_t>(run.bytes.size() / plan_.sample_bytes);
  std::optional<std::int64_t> at = run.at;
  if (at && (*at > furthest_index || *at < -furthest_index)) {
    at.reset();
    suspect();
  }
  if (begun_ && at && !epoch_pending_) {
    const std::int64_t fall = std::max(least_fall, static_cast<std::int64_t>(plan_.rate));
    if (*at > position_ + longest_gap || *at + fall < position_) {
      epoch_pending_ = true;
    }
  }
  if (!begun_ || epoch_pending_) {
    const std::uint64_t lost = lost_network_ + lost_kernel_;
    counts_.expected += lost;
    counts_.network += lost_network_;
    counts_.kernel += lost_kernel_;
    events_.gaps += lost != 0 ? 1 : 0;
    lost_before_ += lost;
    lost_network_ = lost_kernel_ = 0;
    if (begun_) {
      flush();
      ++epoch_;
      ++events_.epochs;
    }
    begin_epoch(at.value_or(0));
    index_known_ = at.has_value();
    gaps_.clear();
    anchor_quality_ = time_quality::none;
    rate_ = {};
    start = position_;
    return true;
  }
  index_known_ = index_known_ || at.has_value();
  if (at && *at < position_) {
    const std::int64_t old = std::min(count, position_ - *at);
    count_late(*at, *at + old);
    skipped = static_cast<std::size_t>(old);
    if (old == count) {
      return false;
    }
    start = position_;
    return true;
  }
  start = at ? *at : position_ + static_cast<std::int64_t>(lost_network_ + lost_kernel_);
  if (start != position_) {
    count_gap(start, at.has_value());
  }
  return true;
}

void block_assembler::begin_epoch(std::int64_t index) {
  drop_empty();
  begun_ = true;
  epoch_pending_ = false;
  position_ = written_ = index;
  flags_ |= wire::sample_flag::epoch_begins;
}

void block_assembler::count_gap(std::int64_t start, bool placed) {
  const auto length = static_cast<std::uint64_t>(start - position_);
  const std::uint64_t kernel = std::min(length, lost_kernel_);
  lost_kernel_ -= kernel;
  // What was said of the network is told by the place, where there is one.
  lost_network_ = placed ? 0 : lost_network_ - std::min(lost_network_, length - kernel);
  ++events_.gaps;
  counts_.expected += length;
  counts_.kernel += kernel;
  counts_.network += length - kernel;
  if (placed) {
    if (gaps_.size() == most_gaps) {
      gaps_.pop_front();
    }
    gaps_.push_back({position_, start, length - kernel, kernel});
  }
}

// What fills a gap that was given up is late; everything else has been here.
void block_assembler::count_late(std::int64_t begin, std::int64_t end) {
  auto duplicates = static_cast<std::uint64_t>(end - begin);
  for (std::size_t index = 0; index < gaps_.size(); ++index) {
    gap& each = gaps_[index];
    const std::int64_t from = std::max(begin, each.begin);
    const std::int64_t to = std::min(end, each.end);
    if (from >= to) {
      continue;
    }
    const auto found = static_cast<std::uint64_t>(to - from);
    const std::uint64_t network = std::min(found, each.network);
    const std::uint64_t kernel = found - network;
    counts_.late += found;
    counts_.network -= network;
    counts_.kernel -= kernel;
    duplicates -= found;
    const gap behind{to, each.end, each.network - network, each.kernel - kernel};
    const bool has_front = from > each.begin;
    if (has_front) {
      // What is left stays with the front part as far as that has places.
      const auto places = static_cast<std::uint64_t>(from - each.begin);
      each.end = from;
      each.network = std::min(behind.network, places);
      each.kernel = places - each.network;
    }
    gap rest = behind;
    if (has_front) {
      rest.network -= each.network;
      rest.kernel -= each.kernel;
    }
    if (rest.begin < rest.end && has_front) {
      gaps_.insert(gaps_.begin() + static_cast<std::ptrdiff_t>(index) + 1, rest);
      ++index;
    } else if (rest.begin < rest.end) {
      each = rest;
    } else if (!has_front) {
      gaps_.erase(gaps_.begin() + static_cast<std::ptrdiff_t>(index));
      --index;
    }
  }
  events_.duplicates += duplicates;
}

// Brings the block up to `start`, as far as there is memory.
void block_assembler::close_hole(std::int64_t start) {
  const auto hole = static_cast<std::uint64_t>(start - written_);
  gap_policy policy = plan_.gap.policy;
  if (fills(policy)) {
    if (hole <= plan_.max_fill) {
      fill(hole);
      return;
    }
    policy = plan_.gap.beyond;
  }
  if (policy == gap_policy::splice) {
    if (!open_block()) {
      return;
    }
    block_.account.lost_before += hole;
    if (block_.samples == 0) {
      block_.account.index = start;
      stamp(block_.account);
    }
    written_ = start;
    return;
  }
  flush();
  drop_empty();
  ++epoch_;
  ++events_.epochs;
  flags_ |= wire::sample_flag::epoch_begins;
  lost_before_ += hole;
  written_ = start;
}

// A block that was opened, and in which nothing was written: the next one begins somewhere else.
void block_assembler::drop_empty() {
  if (block_.bytes == nullptr) {
    return;
  }
  store_.give_back(block_.bytes);
  lost_before_ += block_.account.lost_before;
  flags_ |= static_cast<std::uint8_t>(block_.account.flags & ~wire::sample_flag::index_known);
  block_ = {};
}

bool block_assembler::open_block() {
  if (block_.bytes != nullptr) {
    return true;
  }
  std::byte* const memory = store_.take();
  if (memory == nullptr) {
    return false;
  }
  block_ = {};
  block_.stream = stream_;
  block_.bytes = memory;
  block_.account.index = written_;
  block_.account.epoch = epoch_;
  block_.account.lost_before = std::exchange(lost_before_, 0);
  block_.account.flags =
      static_cast<std::uint8_t>(std::exchange(flags_, std::uint8_t{0}) | wire::sample_flag::index_known);
  stamp(block_.account);
  return true;
}

void block_assembler::append(const std::byte* bytes, std::size_t samples) {
  while (samples > 0) {
    if (!open_block()) {
      counts_.overrun += samples;
      return;
    }
    const std::size_t taken = std::min(samples, plan_.block - block_.samples);
    std::byte* const target = block_.bytes + block_.samples * plan_.sample_bytes;
    if (target != bytes) {
      std::memcpy(target, bytes, taken * plan_.sample_bytes);
    }
    if (block_.samples == 0) {
      stamp(block_.account);
    }
    block_.samples += taken;
    counts_.waiting += taken;
    written_ += static_cast<std::int64_t>(taken);
    bytes += taken * plan_.sample_bytes;
    samples -= taken;
    if (block_.samples == plan_.block) {
      end_block();
    }
  }
}

void block_assembler::fill(std::uint64_t samples) {
  while (samples > 0 && open_block()) {
    const std::size_t taken = static_cast<std::size_t>(std::min<std::uint64_t>(samples, plan_.block - block_.samples));
    plan_.fill(block_.bytes + block_.samples * plan_.sample_bytes, taken);
    block_.samples += taken;
    block_.account.filled += static_cast<std::uint32_t>(taken);
    events_.filled += taken;
    written_ += static_cast<std::int64_t>(taken);
    samples -= taken;
    if (block_.samples == plan_.block) {
      end_block();
    }
  }
}

void block_assembler::end_block() {
  if (block_.account.filled != 0) {
    block_.account.flags |= wire::sample_flag::filled;
    if (plan_.gap.discard) {
      block_.account.flags |= wire::sample_flag::withheld;
    }
  }
  const sample_block done = std::exchange(block_, sample_block{});
  store_.put(done);
}

void block_assembler::flush() {
  if (block_.bytes == nullptr || block_.samples == 0) {
    return;
  }
  if (plan_.frame != 0 && block_.samples % plan_.frame != 0) {
    const std::size_t missing = plan_.frame - block_.samples % plan_.frame;
    plan_.fill(block_.bytes + block_.samples * plan_.sample_bytes, missing);
    block_.samples += missing;
    block_.account.filled += static_cast<std::uint32_t>(missing);
    events_.filled += missing;
  }
  end_block();
}

void block_assembler::drop_open() noexcept {
  if (block_.bytes == nullptr) {
    return;
  }
  counts_.waiting -= block_.real();
  counts_.overrun += block_.real();
  store_.give_back(block_.bytes);
  block_ = {};
}

// The last time that was said is the best: clocks drift.
void block_assembler::note_time(const sample_run& run, std::int64_t start, std::size_t skipped) noexcept {
  if (run.quality == time_quality::none || (skipped != 0 && plan_.rate == 0)) {
    return;
  }
  const double behind = skipped != 0 ? static_cast<double>(skipped) / plan_.rate : 0.0;
  if (const auto time_ns = later_by(run.time_ns, behind)) {
    anchor_index_ = start;
    anchor_ns_ = *time_ns;
    anchor_quality_ = run.quality;
  }
}

void block_assembler::stamp(block_account& account) const noexcept {
  account.time_ns = 0;
  account.quality = time_quality::none;
  const std::int64_t distance = account.index - anchor_index_;
  if (anchor_quality_ == time_quality::none || (distance != 0 && plan_.rate == 0)) {
    return;
  }
  const auto time_ns = later_by(anchor_ns_, distance != 0 ? static_cast<double>(distance) / plan_.rate : 0.0);
  if (time_ns) {
    account.time_ns = *time_ns;
    const bool is_estimate = distance != 0 && anchor_quality_ == time_quality::arrival;
    account.quality = is_estimate ? time_quality::estimated : anchor_quality_;
  }
}

// Of a stream without indices. Each second the run that came earliest, by the rate, is compared with that of the second
// before: what it is later by did not come, or comes no more.
void block_assembler::watch_rate(std::size_t samples, time_point now) noexcept {
  constexpr std::chrono::seconds window{1};
  constexpr double jitter_s = 0.05;
  if (plan_.rate == 0 || index_known_) {
    return;
  }
  if (!rate_.runs) {
    rate_ = {.runs = true, .began = now, .window_end = now + window, .samples = samples, .least = 0, .before = {}};
    return;
  }
  rate_.samples += samples;
  const double behind =
      std::chrono::duration<double>(now - rate_.began).count() * plan_.rate - static_cast<double>(rate_.samples);
  if (now < rate_.window_end) {
    rate_.least = std::min(rate_.least, behind);
    return;
  }
  if (rate_.before && rate_.least - *rate_.before > jitter_s * plan_.rate) {
    suspect();
  }
  rate_.before = rate_.least;
  rate_.least = behind;
  rate_.window_end = now + window;
}

}  // namespace penstock::live
