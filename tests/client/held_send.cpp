#include "tests/client/held_send.hpp"

#include <atomic>
#include <span>

#include <dlfcn.h>
#include <zmq.h>

namespace penstock::test {
namespace {

constexpr wire::message_type none{};

std::atomic<wire::message_type> held{none};  // writer: the test; readers: all threads that send

wire::message_type type_of(zmq_msg_t* message) {
  wire::message_header header;
  const std::span bytes{static_cast<const std::byte*>(zmq_msg_data(message)), zmq_msg_size(message)};
  return wire::decode(bytes, header) == wire::decode_error::none ? header.type : none;
}

}  // namespace

held_send::held_send(wire::message_type type) noexcept {
  held = type;
}

void held_send::let_go() noexcept {
  held = none;
  held.notify_all();
}

}  // namespace penstock::test

/// Stands before libzmq's, which it calls.
extern "C" __attribute__((visibility("default"))) int zmq_msg_send(zmq_msg_t* message, void* socket, int flags) {
  using penstock::test::held;
  using penstock::test::none;
  static const auto libzmqs = reinterpret_cast<int (*)(zmq_msg_t*, void*, int)>(dlsym(RTLD_NEXT, "zmq_msg_send"));
  const auto type = held.load() == none ? none : penstock::test::type_of(message);
  const int sent = libzmqs(message, socket, flags);
  if (sent >= 0 && type != none) {
    held.wait(type);
  }
  return sent;
}
