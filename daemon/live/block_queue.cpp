#include "daemon/live/block_queue.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

namespace penstock::live {
namespace {

constexpr std::align_val_t alignment{64};
constexpr std::size_t least_blocks = 4;
// Beyond the queue's: to fill a gap with while all others wait behind it.
constexpr std::size_t spare_blocks = 1;

}  // namespace

block_pool::~block_pool() {
  for (std::byte* const each : made_) {
    ::operator delete(header_of(each), alignment);
  }
}

block_pool::header* block_pool::header_of(std::byte* memory) noexcept {
  return reinterpret_cast<header*>(memory - sizeof(header));
}

std::byte* block_pool::take(std::size_t most) {
  if (free_.empty()) {
    (void)collect();
  }
  if (in_use() >= most) {
    return nullptr;
  }
  if (free_.empty()) {
    made_.reserve(made_.size() + 1);
    free_.reserve(made_.size() + 1);  // giving back never allocates
    void* const memory = ::operator new(sizeof(header) + block_bytes_, alignment);
    made_.push_back(reinterpret_cast<std::byte*>(new (memory) header) + sizeof(header));
    return made_.back();
  }
  std::byte* const taken = free_.back();
  free_.pop_back();
  return taken;
}

void block_pool::give_back(std::byte* memory) noexcept {
  free_.push_back(memory);
}

void block_pool::return_from_afar(std::byte* memory) noexcept {
  header* const own = header_of(memory);
  own->next = returned_.load(std::memory_order_relaxed);
  while (!returned_.compare_exchange_weak(own->next, own, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

bool block_pool::collect() noexcept {
  header* each = returned_.exchange(nullptr, std::memory_order_acquire);
  const bool any = each != nullptr;
  while (each != nullptr) {
    header* const next = each->next;
    free_.push_back(reinterpret_cast<std::byte*>(each) + sizeof(header));
    each = next;
  }
  return any;
}

block_queue::block_queue(const block_plan& plan, std::shared_ptr<block_pool> pool, sample_counts& counts,
                         source_events& events, std::function<bool()> wait)
    : plan_(plan),
      pool_(std::move(pool)),
      counts_(counts),
      events_(events),
      wait_(std::move(wait)),
      // Each stream may have a block that is not full.
      most_(std::max(least_blocks, plan.queue / plan.block_bytes()) + plan.streams) {}

block_queue::~block_queue() {
  for (const sample_block& each : blocks_) {
    pool_->give_back(each.bytes);
  }
}

std::byte* block_queue::take() {
  for (;;) {
    if (std::byte* const memory = pool_->take(most_)) {
      return memory;
    }
    if (plan_.overrun == overrun_policy::drop_oldest && !blocks_.empty()) {
      drop_front();
    } else if (plan_.overrun != overrun_policy::block || !wait_()) {
      return nullptr;
    }
  }
}

bool block_queue::full() noexcept {
  return blocks_.size() >= most_ || (pool_->in_use() >= most_ && !pool_->collect());
}

void block_queue::put(const sample_block& block) {
  blocks_.push_back(block);
}

block_queue::dropped& block_queue::dropped_of(stream_number stream) {
  if (stream >= dropped_.size()) {
    dropped_.resize(stream + 1);
    more_epochs_.resize(stream + 1, 0);
  }
  return dropped_[stream];
}

const sample_block* block_queue::front() {
  return blocks_.empty() || !settle_front() ? nullptr : &blocks_.front();
}

void block_queue::pop_delivered() {
  const std::size_t real = blocks_.front().real();
  counts_.waiting -= real;
  counts_.delivered += real;
  blocks_.pop_front();
  settled_ = false;
}

void block_queue::drop_front() {
  const sample_block block = blocks_.front();
  blocks_.pop_front();
  dropped& gap = dropped_of(block.stream);
  if (gap.samples == 0 || settled_ || (block.account.flags & wire::sample_flag::epoch_begins) != 0) {
    gap.index = block.account.index;
    gap.time_ns = block.account.time_ns;
    gap.quality = block.account.quality;
  }
  if (gap.samples == 0) {
    ++events_.gaps;
  }
  gap.samples += block.samples;
  gap.lost_before += block.account.lost_before;
  gap.flags |= static_cast<std::uint8_t>(block.account.flags &
                                         (wire::sample_flag::epoch_begins | wire::sample_flag::loss_suspected));
  settled_ = false;
  events_.filled -= block.account.filled;
  counts_.waiting -= block.real();
  counts_.overrun += block.real();
  pool_->give_back(block.bytes);
}

void block_queue::begin_epoch() {
  sample_block& block = blocks_.front();
  if ((block.account.flags & wire::sample_flag::epoch_begins) == 0) {
    block.account.flags |= wire::sample_flag::epoch_begins;
    ++block.account.epoch;
    ++more_epochs_[block.stream];
    ++events_.epochs;
  }
}

// Treats what was dropped in front of the first block. False: it is to be filled, and there is no memory for it.
bool block_queue::settle_front() {
  if (settled_) {
    return true;
  }
  sample_block& block = blocks_.front();
  dropped& gap = dropped_of(block.stream);
  const bool begins = ((block.account.flags | gap.flags) & wire::sample_flag::epoch_begins) != 0;
  gap_policy policy = plan_.gap.policy;
  if (fills(policy) && gap.samples > plan_.max_fill) {
    policy = plan_.gap.beyond;
  }
  if (gap.samples != 0 && !begins && fills(policy)) {
    std::byte* const memory = pool_->take(most_ + spare_blocks);
    if (memory == nullptr) {
      return false;
    }
    const std::size_t taken = static_cast<std::size_t>(std::min<std::uint64_t>(gap.samples, plan_.block));
    plan_.fill(memory, taken);
    sample_block filling{.stream = block.stream, .bytes = memory, .samples = taken, .account = {}};
    filling.account.index = gap.index;
    filling.account.time_ns = gap.time_ns;
    filling.account.quality = gap.quality;
    filling.account.epoch = block.account.epoch + more_epochs_[block.stream];
    filling.account.filled = static_cast<std::uint32_t>(taken);
    filling.account.lost_before = std::exchange(gap.lost_before, 0);
    filling.account.flags =
        static_cast<std::uint8_t>(std::exchange(gap.flags, std::uint8_t{0}) | wire::sample_flag::filled |
                                  (block.account.flags & wire::sample_flag::index_known));
    if (plan_.gap.discard) {
      filling.account.flags |= wire::sample_flag::withheld;
    }
    events_.filled += taken;
    gap.samples -= taken;
    gap.index += static_cast<std::int64_t>(taken);
    if (plan_.rate > 0) {
      gap.time_ns += std::llround(static_cast<double>(taken) / plan_.rate * 1e9);
    } else {
      gap.quality = time_quality::none;
    }
    blocks_.push_front(filling);
    settled_ = true;
    return true;
  }
  block.account.epoch += more_epochs_[block.stream];
  block.account.lost_before += gap.lost_before + gap.samples;
  block.account.flags |= gap.flags;
  const bool anew = gap.samples != 0 && !begins && policy == gap_policy::new_epoch;
  gap = {};
  settled_ = true;
  if (anew) {
    begin_epoch();
  }
  return true;
}

}  // namespace penstock::live
