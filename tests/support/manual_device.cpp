#include "tests/support/manual_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <new>
#include <string>

namespace penstock::testing {
namespace {

constexpr std::align_val_t alignment{256};

class manual_event : public event {
 public:
  /// `time`: the device's, for an event that is timed.
  explicit manual_event(const std::atomic<std::int64_t>* time_ns) : time_ns_(time_ns) {}

  state query(fault& why) noexcept override {
    if (!reached(recorded_)) {
      return state::pending;
    }
    why.name = what_.load();
    return why ? state::failed : state::reached;
  }
  double elapsed_us(const event& earlier) const noexcept override {
    const auto& start = static_cast<const manual_event&>(earlier);
    const bool known = timed() && start.timed() && reached(recorded_) && start.reached(start.recorded_);
    return known ? static_cast<double>(at_ns_ - start.at_ns_) / 1000.0 : -1;
  }

  [[nodiscard]] bool timed() const noexcept { return time_ns_ != nullptr; }

  /// Each record has a number, from 1.
  std::uint64_t pend() noexcept { return ++recorded_; }
  void reach(std::uint64_t record, fault failure) noexcept {
    at_ns_ = timed() ? time_ns_->load() : 0;
    what_ = failure.name;
    reached_ = record;
  }
  [[nodiscard]] std::uint64_t recorded() const noexcept { return recorded_; }
  [[nodiscard]] bool reached(std::uint64_t record) const noexcept { return reached_ >= record; }

 private:
  std::atomic<std::uint64_t> recorded_{0};
  std::atomic<std::uint64_t> reached_{0};
  std::atomic<const char*> what_{nullptr};
  const std::atomic<std::int64_t>* time_ns_;
  std::atomic<std::int64_t> at_ns_{0};
};

}  // namespace

class manual_stream : public stream {
 public:
  explicit manual_stream(manual_device& device) : on_(device) {}
  ~manual_stream() override {
    on_.finish_all();
    std::erase(on_.streams_, this);
  }

  fault copy_in(void* device, const void* pinned, std::size_t bytes) noexcept override {
    return enqueue(manual_device::call::copy_in, [=] { std::memcpy(device, pinned, bytes); });
  }
  fault copy_out(void* pinned, const void* device, std::size_t bytes) noexcept override {
    return enqueue(manual_device::call::copy_out, [=] { std::memcpy(pinned, device, bytes); });
  }
  fault launch(operation& operation, const operation_arguments& arguments) noexcept override {
    // By reference, as a device may: the arguments must live until the work is done.
    return enqueue(manual_device::call::launch, [&operation, &arguments] { (void)operation.run(nullptr, arguments); });
  }
  fault record(event& point) noexcept override {
    if (const fault refused = on_.refusal(manual_device::call::record)) {
      return refused;
    }
    auto& marked = static_cast<manual_event&>(point);
    auto reach = [&marked, record = marked.pend()](fault failure) { marked.reach(record, failure); };
    return marked.timed() ? push({nullptr, std::move(reach), nullptr, true}) : push_mark(std::move(reach));
  }
  fault wait(const event& point) noexcept override {
    if (const fault refused = on_.refusal(manual_device::call::wait)) {
      return refused;
    }
    const auto& until = static_cast<const manual_event&>(point);
    return push({nullptr, nullptr, [&until, record = until.recorded()] { return until.reached(record); }, false});
  }
  fault on_complete(completion_function function, void* context) noexcept override {
    if (const fault refused = on_.refusal(manual_device::call::on_complete)) {
      return refused;
    }
    return push_mark([=](fault failure) { function(context, failure); });
  }
  fault synchronize() noexcept override {
    on_.finish_all();
    return on_.health();
  }

  void run_inline(bool brief) noexcept override { inline_ = brief; }

  [[nodiscard]] std::size_t marks() const noexcept {
    return static_cast<std::size_t>(std::count_if(
        queue_.begin(), queue_.end(), [](const work& each) { return each.mark != nullptr && !each.passing; }));
  }
  // The following need the device's `running_`.
  bool finish(fault failure) {
    while (std::optional<work> next = take()) {
      if (next->mark) {
        next->mark(failure);
        if (!next->passing) {
          return true;
        }
      } else if (next->run && !failure) {
        next->run();
      }
    }
    return false;
  }

 private:
  struct work {
    std::function<void()> run;
    std::function<void(fault)> mark;
    std::function<bool()> goes_on;  // of a wait
    bool passing = false;           // a timed event: no mark to `finish`
  };

  fault enqueue(manual_device::call what, std::function<void()> run) noexcept {
    if (const fault refused = on_.refusal(what)) {
      return refused;
    }
    return push({std::move(run), nullptr, nullptr, false});
  }
  fault push_mark(std::function<void(fault)> mark) noexcept {
    ++on_.marks_;
    return push({nullptr, std::move(mark), nullptr, false});
  }
  fault push(work item) noexcept {
    {
      const std::lock_guard lock(on_.mutex_);
      queue_.push_back(std::move(item));
    }
    on_.enqueued_.notify_all();
    if (!on_.held_) {
      on_.finish_all();
    } else if (inline_) {
      const std::lock_guard lock(on_.running_);
      while (finish(on_.health())) {
      }
    }
    return {};
  }
  std::optional<work> take() {
    const std::lock_guard lock(on_.mutex_);
    if (queue_.empty() || (queue_.front().goes_on && !on_.health() && !queue_.front().goes_on())) {
      return std::nullopt;
    }
    work next = std::move(queue_.front());
    queue_.pop_front();
    return next;
  }

  manual_device& on_;
  std::deque<work> queue_;
  bool inline_ = false;
};

manual_device::~manual_device() {
  if (allocations_ != 0) {
    std::fputs("manual_device: memory was not given back\n", stderr);
    std::abort();
  }
}

std::unique_ptr<stream> manual_device::open_stream(stream_priority /*priority*/) {
  auto made = std::make_unique<manual_stream>(*this);
  streams_.push_back(made.get());
  return made;
}

std::unique_ptr<event> manual_device::open_event(bool timed) {
  return std::make_unique<manual_event>(timed ? &time_ns_ : nullptr);
}

std::unique_ptr<operation> manual_device::compile(std::string_view name, const operation_request& /*request*/) {
  throw device_error("no operator '" + std::string(name) + "' here");
}

void manual_device::let_run() {
  held_ = false;
  finish_all();
}

std::size_t manual_device::pending(std::size_t stream) const {
  const std::lock_guard lock(mutex_);
  return streams_.at(stream)->marks();
}

std::size_t manual_device::pending() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const manual_stream* each : streams_) {
    count += each->marks();
  }
  return count;
}

bool manual_device::wait_for_pending(std::size_t count, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return enqueued_.wait_for(lock, patience, [&] {
    std::size_t waiting = 0;
    for (const manual_stream* each : streams_) {
      waiting += each->marks();
    }
    return waiting >= count;
  });
}

bool manual_device::finish(std::size_t stream, fault failure) {
  const std::lock_guard lock(running_);
  return streams_.at(stream)->finish(failure ? failure : health());
}

// In turn, until each is empty: one may wait for another.
void manual_device::finish_all() {
  const std::lock_guard lock(running_);
  for (bool progress = true; progress;) {
    progress = false;
    for (manual_stream* each : streams_) {
      while (each->finish(health())) {
        progress = true;
      }
    }
  }
}

void manual_device::lose(const char* fault_name) {
  lost_ = fault_name;
  finish_all();
}

std::byte* manual_device::take_device(std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  auto* const memory = static_cast<std::byte*>(::operator new(size, alignment));
  std::memset(memory, 0, size);
  ++allocations_;
  return memory;
}

void manual_device::free_pinned(std::byte* memory) noexcept {
  free_device(memory);
}

void manual_device::free_device(std::byte* memory) noexcept {
  ::operator delete(memory, alignment);
  --allocations_;
}

fault manual_device::refusal(call what) noexcept {
  if (const fault lost = health()) {
    return lost;
  }
  return {refused_[static_cast<std::size_t>(what)].exchange(nullptr)};
}

}  // namespace penstock::testing
