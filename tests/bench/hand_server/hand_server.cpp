#include "tests/bench/hand_server/hand_server.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.hpp>

#include "proto/message.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t streams = 8;

// Requests are answered in the order in which they came: each waits on the stream after its predecessor's.
class server {
 public:
  server(const std::string& endpoint, hand_way how, std::size_t bytes)
      : spins_(how == hand_way::polled || how == hand_way::mapped), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    for (place& each : places_) {
      each.work = make_hand_work(how, bytes, wake_);
      if (each.work == nullptr) {
        throw std::runtime_error("this build has no CUDA");
      }
    }
    socket_.set(zmq::sockopt::router_mandatory, 1);
    socket_.bind(endpoint);
  }

  [[noreturn]] void serve() {
    for (;;) {
      const bool answered = answer();
      const bool took = last_ - first_ < streams && take();
      if (!answered && !took && !(spins_ && last_ > first_)) {
        wait();
      }
    }
  }

 private:
  struct place {
    std::unique_ptr<hand_work> work;
    zmq::message_t client;
    zmq::message_t head;
    bool inlined = false;  // its frames lie behind its headers
    std::size_t bytes = 0;
  };

  bool take() {
    place& into = places_[last_ % streams];
    if (!socket_.recv(into.client, zmq::recv_flags::dontwait)) {
      return false;
    }
    (void)socket_.recv(into.head);
    into.inlined = !into.head.more();
    if (into.inlined) {
      const std::span part{static_cast<const std::byte*>(into.head.data()), into.head.size()};
      start(into, part.subspan(std::min(part.size(), wire::part_bytes(1))));
    } else {
      zmq::message_t payload;
      (void)socket_.recv(payload);
      start(into, {static_cast<const std::byte*>(payload.data()), payload.size()});
    }
    ++last_;
    return true;
  }

  static void start(place& in, std::span<const std::byte> payload) {
    in.bytes = payload.size();
    std::memcpy(in.work->input(), payload.data(), payload.size());
    in.work->start(payload.size());
  }

  bool answer() {
    bool any = false;
    for (; first_ < last_ && places_[first_ % streams].work->done(); ++first_) {
      place& from = places_[first_ % streams];
      (void)socket_.send(from.client, zmq::send_flags::sndmore);
      if (from.inlined) {  // the result takes its frames' place
        std::memcpy(static_cast<std::byte*>(from.head.data()) + wire::part_bytes(1), from.work->output(), from.bytes);
        (void)socket_.send(from.head, zmq::send_flags::none);
      } else {
        (void)socket_.send(from.head, zmq::send_flags::sndmore);
        (void)socket_.send(zmq::buffer(from.work->output(), from.bytes), zmq::send_flags::none);
      }
      any = true;
    }
    return any;
  }

  // With every stream taken only a callback is of interest.
  void wait() {
    std::array<zmq::pollitem_t, 2> items{{{nullptr, wake_, ZMQ_POLLIN, 0}, {socket_.handle(), 0, ZMQ_POLLIN, 0}}};
    zmq::poll(items.data(), last_ - first_ < streams ? 2 : 1, std::chrono::milliseconds{-1});
    std::uint64_t count = 0;
    (void)!::read(wake_, &count, sizeof count);
  }

  bool spins_;
  int wake_;
  std::array<place, streams> places_;
  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::router};
  std::uint64_t first_ = 0;  // requests answered
  std::uint64_t last_ = 0;   // requests taken
};

}  // namespace

hand_server::hand_server(std::string endpoint, hand_way how, std::size_t bytes)
    : endpoint_(std::move(endpoint)), process_([this, how, bytes] { server(endpoint_, how, bytes).serve(); }) {}

}  // namespace penstock::bench
