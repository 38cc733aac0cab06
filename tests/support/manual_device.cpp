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
  state query(fault& why) noexcept override {
    why.name = what_.load();
    return reached_.load();
  }
  double elapsed_us(const event& /*earlier*/) const noexcept override { return -1; }

  void pend() noexcept { reached_ = state::pending; }
  void reach(fault how) noexcept {
    what_ = how.name;
    reached_ = how ? state::failed : state::reached;
  }

 private:
  std::atomic<state> reached_{state::reached};
  std::atomic<const char*> what_{nullptr};
};

}  // namespace

class manual_stream : public stream {
 public:
  explicit manual_stream(manual_device& on) : on_(on) {}
  ~manual_stream() override {
    finish_all();
    std::erase(on_.streams_, this);
  }

  fault copy_in(void* device, const void* pinned, std::size_t bytes) noexcept override {
    return enqueue(manual_device::call::copy_in, [=] { std::memcpy(device, pinned, bytes); });
  }
  fault copy_out(void* pinned, const void* device, std::size_t bytes) noexcept override {
    return enqueue(manual_device::call::copy_out, [=] { std::memcpy(pinned, device, bytes); });
  }
  fault launch(operation& what, const operation_arguments& arguments) noexcept override {
    // By reference, as a device may: the arguments must live until the work is done.
    return enqueue(manual_device::call::launch, [&what, &arguments] { (void)what.run(nullptr, arguments); });
  }
  fault record(event& point) noexcept override {
    auto& marked = static_cast<manual_event&>(point);
    return enqueue_mark(manual_device::call::record, &marked, [&marked](fault how) { marked.reach(how); });
  }
  fault wait(const event& /*point*/) noexcept override { std::abort(); }
  fault on_complete(completion_function function, void* context) noexcept override {
    return enqueue_mark(manual_device::call::on_complete, nullptr, [=](fault how) { function(context, how); });
  }
  fault synchronize() noexcept override {
    finish_all();
    return on_.health();
  }

  [[nodiscard]] std::size_t marks() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(queue_.begin(), queue_.end(), [](const work& each) { return each.mark != nullptr; }));
  }
  void finish(fault how) {
    while (std::optional<work> next = take()) {
      if (next->mark) {
        next->mark(how);
        return;
      }
      if (!how) {
        next->run();
      }
    }
  }
  void finish_all() {
    while (!empty()) {
      finish(on_.health());
    }
  }

 private:
  struct work {
    std::function<void()> run;
    std::function<void(fault)> mark;
  };

  fault enqueue(manual_device::call what, std::function<void()> run) noexcept {
    if (const fault refused = on_.refusal(what)) {
      return refused;
    }
    return push({std::move(run), nullptr});
  }
  fault enqueue_mark(manual_device::call what, manual_event* marked, std::function<void(fault)> mark) noexcept {
    if (const fault refused = on_.refusal(what)) {
      return refused;
    }
    if (marked != nullptr) {
      marked->pend();
    }
    ++on_.marks_;
    return push({nullptr, std::move(mark)});
  }
  fault push(work what) noexcept {
    {
      const std::lock_guard lock(on_.mutex_);
      queue_.push_back(std::move(what));
    }
    on_.enqueued_.notify_all();
    if (!on_.held_) {
      finish_all();
    }
    return {};
  }
  std::optional<work> take() {
    const std::lock_guard lock(on_.mutex_);
    if (queue_.empty()) {
      return std::nullopt;
    }
    work next = std::move(queue_.front());
    queue_.pop_front();
    return next;
  }
  bool empty() {
    const std::lock_guard lock(on_.mutex_);
    return queue_.empty();
  }

  manual_device& on_;
  std::deque<work> queue_;
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

std::unique_ptr<event> manual_device::open_event(bool /*timed*/) {
  return std::make_unique<manual_event>();
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

void manual_device::finish(std::size_t stream, fault how) {
  streams_.at(stream)->finish(how ? how : health());
}

void manual_device::finish_all() {
  for (manual_stream* each : streams_) {
    each->finish_all();
  }
}

void manual_device::lose(const char* fault_name) {
  lost_ = fault_name;
  finish_all();
}

device_memory manual_device::allocate(std::size_t bytes, bool pinned) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  auto* const memory = static_cast<std::byte*>(::operator new(size, alignment));
  std::memset(memory, 0, size);
  ++allocations_;
  return {memory, {this, pinned}};
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
