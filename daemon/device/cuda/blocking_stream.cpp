#include "daemon/device/cuda/blocking_stream.hpp"

#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include <pthread.h>

namespace penstock {
namespace {

constexpr std::chrono::seconds patience_with_a_failed_device{5};

}  // namespace

blocking_stream::queue::queue(std::shared_ptr<cuda_context> device)
    : context(std::move(device)), markers(make_stream(*context, 0)), commands(capacity) {}

blocking_stream::blocking_stream(std::shared_ptr<cuda_context> context)
    : queue_(std::make_unique<queue>(std::move(context))) {
  try {
    thread_ = std::thread([served = queue_.get()] { served->serve(); });
  } catch (const std::system_error& error) {
    throw device_error(std::string("no thread for operations that block (") + error.what() +
                       "): raise the limit of threads");
  }
  ::pthread_setname_np(thread_.native_handle(), "blocking lane");
}

blocking_stream::~blocking_stream() {
  const std::uint64_t last = queue_->put.load(std::memory_order_relaxed);
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t done = queue_->done.load(std::memory_order_acquire); done != last;
       done = queue_->done.load(std::memory_order_acquire)) {
    if (!queue_->context->failure()) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    } else if (std::chrono::steady_clock::now() - begin < patience_with_a_failed_device) {
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    } else {
      thread_.detach();
      static_cast<void>(queue_.release());  // the thread still has it
      return;
    }
  }
  put(end{});
  thread_.join();
}

void blocking_stream::put(const command& next) noexcept {
  const std::uint64_t at = queue_->put.load(std::memory_order_relaxed);
  queue_->commands[at % capacity] = next;
  // Release: the thread that sees the count sees the command.
  queue_->put.store(at + 1, std::memory_order_release);
  queue_->put.notify_one();
}

fault blocking_stream::enqueue(const command& next) noexcept {
  if (fault failed = queue_->context->failure()) {
    return failed;
  }
  // One stays free for the end.
  if (queue_->put.load(std::memory_order_relaxed) - queue_->done.load(std::memory_order_acquire) >= capacity - 1) {
    return {"BLOCKING_STREAM_FULL"};
  }
  put(next);
  return {};
}

fault blocking_stream::copy_in(void* device, const void* pinned, std::size_t bytes) noexcept {
  return enqueue(copy{device, pinned, bytes});
}

fault blocking_stream::copy_out(void* pinned, const void* device, std::size_t bytes) noexcept {
  return enqueue(copy{pinned, device, bytes});
}

fault blocking_stream::launch(operation& work, const operation_arguments& arguments) noexcept {
  return enqueue(launched{&work, arguments});
}

fault blocking_stream::record(event& point) noexcept {
  auto& recorded = static_cast<cuda_event&>(point);
  recorded.mark_awaited();
  const fault failed = enqueue(&recorded);
  if (failed) {
    recorded.mark_arrived();
  }
  return failed;
}

fault blocking_stream::wait(const event& /*point*/) noexcept {
  return {"BLOCKING_STREAM_WAITS_FOR_NONE"};
}

fault blocking_stream::on_complete(completion_function function, void* context) noexcept {
  return enqueue(completion{function, context});
}

fault blocking_stream::synchronize() noexcept {
  const std::uint64_t last = queue_->put.load(std::memory_order_relaxed);
  for (std::uint64_t done = queue_->done.load(std::memory_order_acquire); done != last;
       done = queue_->done.load(std::memory_order_acquire)) {
    queue_->done.wait(done, std::memory_order_acquire);
  }
  const fault failed{queue_->failed.exchange(nullptr, std::memory_order_relaxed)};
  return failed ? failed : queue_->context->failure();
}

void blocking_stream::queue::serve() noexcept {
  for (std::uint64_t next = 0;; ++next) {
    while (put.load(std::memory_order_acquire) == next) {
      put.wait(next, std::memory_order_acquire);
    }
    const command& current = commands[next % capacity];
    if (std::holds_alternative<end>(current)) {
      return;
    }
    execute(current);
    done.store(next + 1, std::memory_order_release);
    done.notify_all();
  }
}

// After a fault the rest of its batch is left out, and its completion tells it.
void blocking_stream::queue::execute(const command& next) noexcept {
  fault met{failed.load(std::memory_order_relaxed)};
  if (const fault lost = context->failure()) {
    met = lost;
  }
  if (const auto* complete = std::get_if<completion>(&next)) {
    failed.store(nullptr, std::memory_order_relaxed);
    complete->function(complete->context, met);
    return;
  }
  if (auto* const* point = std::get_if<cuda_event*>(&next)) {
    if (!context->enter()) {
      static_cast<void>(context->leave(cudaEventRecord((*point)->get(), markers.get())));
      static_cast<void>(context->leave(cudaStreamSynchronize(markers.get())));
    }
    (*point)->mark_arrived();
    return;
  }
  if (met) {
    return;
  }
  if (const auto* moved = std::get_if<copy>(&next)) {
    // A client's memory may be the device's.
    met = context->enter();
    met = met ? met
              : context->leave(cudaMemcpyAsync(moved->to, moved->from, moved->bytes, cudaMemcpyDefault, markers.get()));
    met = met ? met : context->leave(cudaStreamSynchronize(markers.get()));
    if (met) {
      failed.store(met.name, std::memory_order_relaxed);
    }
  } else if (const auto* work = std::get_if<launched>(&next)) {
    met = context->enter();
    met = met ? met : work->work->run(nullptr, work->arguments);
    if (met) {
      // The operation has taken its own error; a sticky one still stands.
      static_cast<void>(context->leave(cudaPeekAtLastError()));
      failed.store(met.name, std::memory_order_relaxed);
    }
  }
}

}  // namespace penstock
