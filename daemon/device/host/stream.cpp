#include "daemon/device/host/stream.hpp"

#include <chrono>
#include <cstring>
#include <thread>

#include "daemon/device/host/workers.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace penstock {

host_event::host_event(const sticky_fault& health, std::atomic<std::int64_t>* stamp) noexcept
    : health_(health), stamp_(stamp) {}

bool host_event::reached() const noexcept {
  return point_.queue == nullptr || point_.queue->completed() >= point_.position;
}

event::state host_event::query(fault& why) noexcept {
  if (fault failed = health_.get()) {
    why = failed;
    return state::failed;
  }
  return reached() ? state::reached : state::pending;
}

double host_event::elapsed_us(const event& earlier) const noexcept {
  const auto& start = static_cast<const host_event&>(earlier);
  for (const host_event* each : {&start, this}) {
    if (each->stamp_ == nullptr || each->point_.queue == nullptr || !each->reached() || health_.get()) {
      return -1;
    }
  }
  const std::int64_t spent = stamp_->load(std::memory_order_acquire) - start.stamp_->load(std::memory_order_acquire);
  return static_cast<double>(spent) / 1000.0;
}

namespace {

/// While it lives, this thread takes denormal floating-point numbers for zero and makes none: arithmetic with them is
/// ten times as slow and more. The thread may be anybody's, so its own mode comes back.
class denormals_flushed {
 public:
#if defined(__x86_64__)
  denormals_flushed() noexcept : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | flush_to_zero | denormals_are_zero);
  }
  ~denormals_flushed() {
    _mm_setcsr(before_);
  }
#elif defined(__aarch64__)
  denormals_flushed() noexcept : before_(read()) {
    write(before_ | flush);
  }
  ~denormals_flushed() {
    write(before_);
  }
#else
  denormals_flushed() noexcept {}  // as the processor has it
#endif
  denormals_flushed(const denormals_flushed&) = delete;
  denormals_flushed& operator=(const denormals_flushed&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned flush_to_zero = 0x8000;
  static constexpr unsigned denormals_are_zero = 0x0040;
  unsigned before_;
#elif defined(__aarch64__)
  static constexpr std::uint64_t flush = std::uint64_t{1} << 24U;
  static std::uint64_t read() noexcept {
    std::uint64_t mode = 0;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void write(std::uint64_t mode) noexcept {
    asm volatile("msr fpcr, %0" : : "r"(mode));
  }
  std::uint64_t before_;
#endif
};

// After this many commands other queues of the same priority get a turn, even if no completion ended a batch.
constexpr int turn_commands = 32;

std::int64_t now_ns() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

host_queue::host_queue(host_workers& workers, stream_priority priority)
    : workers_(workers), priority_(priority), commands_(capacity) {}

fault host_queue::put(const host_command& command) noexcept {
  if (fault failed = workers_.health().get()) {
    return failed;
  }
  if (put_ - completed_.load(std::memory_order_acquire) >= capacity) {
    return {"HOST_STREAM_FULL"};
  }
  commands_[put_ % capacity] = command;
  if (++put_ - published_ == unpublished_limit) {
    publish();
  }
  return {};
}

std::uint64_t host_queue::publish() noexcept {
  const std::uint64_t fresh = put_ - published_;
  published_ = put_;
  // Release: the runner that sees the count sees the commands.
  if (fresh != 0 && pending_.fetch_add(fresh, std::memory_order_acq_rel) == 0) {
    if (inline_) {
      run(runner::caller);
    } else {
      workers_.schedule(*this);
    }
  }
  return put_;
}

void host_queue::run(runner thread) noexcept {
  for (int ran = 1;; ++ran) {
    const std::uint64_t position = completed_.load(std::memory_order_relaxed);
    const host_command& command = commands_[position % capacity];
    const auto* wait = std::get_if<host_wait>(&command);
    if (wait != nullptr && must_park(*wait)) {
      return;  // another worker may have the queue by now
    }
    execute(command);
    const bool batch_ends = std::holds_alternative<host_callback>(command);
    // Sequentially consistent with the watchers' own order (say so, then look): one of the two sees the other.
    completed_.store(position + 1, std::memory_order_seq_cst);
    if (watched_.load(std::memory_order_seq_cst) <= position + 1) {
      workers_.release(*this);
    }
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      return;
    }
    if (thread == runner::worker && workers_.others_first(priority_, batch_ends || ran % turn_commands == 0)) {
      workers_.schedule(*this);
      return;
    }
  }
}

bool host_queue::must_park(const host_wait& until) noexcept {
  if (until.queue->completed() >= until.position || workers_.health().get()) {
    return false;
  }
  return workers_.park(*this, until);
}

void host_queue::execute(const host_command& command) noexcept {
  const fault failed = workers_.health().get();
  if (const auto* callback = std::get_if<host_callback>(&command)) {
    callback->function(callback->context, failed);
  } else if (failed) {
    return;
  } else if (const auto* copy = std::get_if<host_copy>(&command)) {
    std::memcpy(copy->to, copy->from, copy->bytes);
  } else if (const auto* launch = std::get_if<host_launch>(&command)) {
    const denormals_flushed mode;
    if (fault met = launch->work->run(nullptr, launch->arguments)) {
      workers_.fail(met);
    }
  } else if (const auto* stamp = std::get_if<host_stamp>(&command)) {
    stamp->at->store(now_ns(), std::memory_order_release);
  }
}

host_stream::host_stream(host_workers& workers, host_queue& queue, std::atomic<bool>& taken) noexcept
    : workers_(workers), queue_(queue), taken_(taken) {
  queue_.run_inline(false);
}

host_stream::~host_stream() {
  workers_.await(queue_, queue_.publish());
  taken_.store(false, std::memory_order_release);
}

fault host_stream::copy_in(void* device, const void* pinned, std::size_t bytes) noexcept {
  return queue_.put(host_copy{device, pinned, bytes});
}

fault host_stream::copy_out(void* pinned, const void* device, std::size_t bytes) noexcept {
  return queue_.put(host_copy{pinned, device, bytes});
}

fault host_stream::launch(operation& work, const operation_arguments& arguments) noexcept {
  return queue_.put(host_launch{&work, arguments});
}

fault host_stream::flush() noexcept {
  queue_.publish();
  return workers_.health().get();
}

fault host_stream::record(event& point) noexcept {
  auto& moved = static_cast<host_event&>(point);
  if (moved.stamp() != nullptr) {
    if (fault refused = queue_.put(host_stamp{moved.stamp()})) {
      return refused;
    }
  } else if (fault failed = workers_.health().get()) {
    return failed;
  }
  moved.move_to({&queue_, queue_.publish()});
  return {};
}

fault host_stream::wait(const event& point) noexcept {
  const host_wait& until = static_cast<const host_event&>(point).point();
  if (until.queue == nullptr) {
    return workers_.health().get();
  }
  return queue_.put(until);
}

fault host_stream::on_complete(completion_function function, void* context) noexcept {
  if (fault refused = queue_.put(host_callback{function, context})) {
    return refused;
  }
  queue_.publish();
  return {};
}

fault host_stream::synchronize() noexcept {
  workers_.await(queue_, queue_.publish());
  while (!queue_.idle()) {
    std::this_thread::yield();  // its worker has yet to see that there is nothing left
  }
  return workers_.health().get();
}

}  // namespace penstock
