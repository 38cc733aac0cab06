#include "daemon/device/host_stream.hpp"

#include <thread>

#include "daemon/device/host_event.hpp"

namespace penstock {

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

fault host_stream::launch(operation& what, const operation_arguments& arguments) noexcept {
  return queue_.put(host_launch{&what, arguments});
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
  if (until.on == nullptr) {
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
