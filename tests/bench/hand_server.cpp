#include "tests/bench/hand_server.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.hpp>

#include "proto/message.hpp"

namespace penstock::bench {
namespace {

class inline_request final : public hand_request {
 public:
  explicit inline_request(std::size_t bytes)
      : values_((bytes + sizeof(float) - 1) / sizeof(float)), results_(values_) {}

  std::byte* input() noexcept override { return reinterpret_cast<std::byte*>(values_.data()); }
  const std::byte* output() const noexcept override { return reinterpret_cast<const std::byte*>(results_.data()); }
  void start(std::size_t bytes) override {
    const std::size_t count = bytes / sizeof(float);
    for (std::size_t at = 0; at < count; ++at) {
      results_[at] = 2.0F * values_[at] + 1.0F;
    }
  }
  bool done() override { return true; }

 private:
  std::vector<float> values_;
  std::vector<float> results_;
};

std::unique_ptr<hand_request> make_request(hand_completion completion, std::size_t bytes, int wake_fd_fd) {
  if (completion == hand_completion::inline_host) {
    return std::make_unique<inline_request>(bytes);
  }
  return make_cuda_hand_request(completion, bytes, wake_fd_fd);
}

constexpr std::size_t streams = 8;

// Answers in order of arrival; each request uses the stream after that of its predecessor.
class server {
 public:
  server(const std::string& endpoint, hand_completion completion, std::size_t bytes)
      : polls_(completion == hand_completion::polled || completion == hand_completion::mapped),
        wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    for (place& each : places_) {
      each.request = make_request(completion, bytes, wake_fd_);
      if (each.request == nullptr) {
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
      if (!answered && !took && !(polls_ && last_ > first_)) {
        wait();
      }
    }
  }

 private:
  struct place {
    std::unique_ptr<hand_request> request;
    zmq::message_t client;
    zmq::message_t head;
    bool is_inline = false;  // the frames lie behind the headers
    std::size_t bytes = 0;
  };

  bool take() {
    place& slot = places_[last_ % streams];
    if (!socket_.recv(slot.client, zmq::recv_flags::dontwait)) {
      return false;
    }
    (void)socket_.recv(slot.head);
    slot.is_inline = !slot.head.more();
    if (slot.is_inline) {
      const std::span part{static_cast<const std::byte*>(slot.head.data()), slot.head.size()};
      start(slot, part.subspan(std::min(part.size(), wire::part_bytes(1))));
    } else {
      zmq::message_t payload;
      (void)socket_.recv(payload);
      start(slot, {static_cast<const std::byte*>(payload.data()), payload.size()});
    }
    ++last_;
    return true;
  }

  static void start(place& slot, std::span<const std::byte> payload) {
    slot.bytes = payload.size();
    std::memcpy(slot.request->input(), payload.data(), payload.size());
    slot.request->start(payload.size());
  }

  bool answer() {
    bool any = false;
    for (; first_ < last_ && places_[first_ % streams].request->done(); ++first_) {
      place& slot = places_[first_ % streams];
      (void)socket_.send(slot.client, zmq::send_flags::sndmore);
      if (slot.is_inline) {  // the result replaces the frames
        std::memcpy(static_cast<std::byte*>(slot.head.data()) + wire::part_bytes(1), slot.request->output(),
                    slot.bytes);
        (void)socket_.send(slot.head, zmq::send_flags::none);
      } else {
        (void)socket_.send(slot.head, zmq::send_flags::sndmore);
        (void)socket_.send(zmq::buffer(slot.request->output(), slot.bytes), zmq::send_flags::none);
      }
      any = true;
    }
    return any;
  }

  // While every stream is busy, wait only for a callback.
  void wait() {
    std::array<zmq::pollitem_t, 2> items{{{nullptr, wake_fd_, ZMQ_POLLIN, 0}, {socket_.handle(), 0, ZMQ_POLLIN, 0}}};
    zmq::poll(items.data(), last_ - first_ < streams ? 2 : 1, std::chrono::milliseconds{-1});
    std::uint64_t count = 0;
    (void)!::read(wake_fd_, &count, sizeof count);
  }

  bool polls_;
  int wake_fd_;
  std::array<place, streams> places_;
  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::router};
  std::uint64_t first_ = 0;  // requests answered
  std::uint64_t last_ = 0;   // requests taken
};

}  // namespace

#ifndef PENSTOCK_BENCH_CUDA
std::unique_ptr<hand_request> make_cuda_hand_request(hand_completion /*completion*/, std::size_t /*bytes*/,
                                                     int /*wake_fd*/) {
  return nullptr;
}
#endif

hand_server::hand_server(std::string endpoint, hand_completion completion, std::size_t bytes)
    : endpoint_(std::move(endpoint)),
      process_([this, completion, bytes] { server(endpoint_, completion, bytes).serve(); }) {}

}  // namespace penstock::bench
