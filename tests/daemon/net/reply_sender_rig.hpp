#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <poll.h>

#include "daemon/net/reply_sender.hpp"
#include "tests/support/hand_made_plan.hpp"
#include "tests/support/manual_device.hpp"

namespace penstock::testing {

[[nodiscard]] inline wire::message_header pong_header(std::uint64_t request_id) {
  wire::message_header pong;
  pong.type = wire::message_type::pong;
  pong.request_id = request_id;
  return pong;
}

/// ReplySender over a real ROUTER socket, with slots to send from and DEALERs that read, or don't.
class reply_sender_rig {
 public:
  static constexpr std::size_t small_frame = 16;
  static constexpr std::size_t large_frame = reply_sender::lend_bytes;

  /// What a dealer got: the header and the other parts.
  struct message {
    wire::message_header header;
    wire::tensor_header tensor;  ///< the first, of a RESULT
    std::string behind;          ///< what lies behind the tensor headers
    std::optional<wire::sample_account> account{};
    std::vector<std::int64_t> indices{};  ///< of the outputs, behind the account
    std::vector<std::string> parts;
  };

  explicit reply_sender_rig(const client_settings& limits = {}, std::size_t slots_made = 8)
      : slots(device, slots_made, size_for(plans), false, completed, signal),
        out(router, slots, received, limits, counters, memory) {}

  /// A client that is connected, known to the router and to the client table.
  client_record& connect(const std::string& name, int receive_high_water = 1000) {
    zmq::socket_t dealer(context_, zmq::socket_type::dealer);
    dealer.set(zmq::sockopt::linger, 0);
    dealer.set(zmq::sockopt::rcvhwm, receive_high_water);
    dealer.set(zmq::sockopt::rcvbuf, 65536);
    dealer.set(zmq::sockopt::routing_id, name);
    dealer.set(zmq::sockopt::rcvtimeo, 20000);
    dealer.connect(router.endpoints().front());
    (void)dealer.send(zmq::str_buffer("here I am"));
    dealers_[name] = std::move(dealer);
    zmq::message_t part;
    do {
      (void)router.get().recv(part);
    } while (part.more());
    return *clients.admit(name, time_point{});
  }
  void vanish(const std::string& name) { dealers_.erase(name); }

  /// A request as it is when its batch is done.
  request made(client_record& client, std::uint64_t id, std::uint32_t pipeline = 0) {
    request asked;
    asked.client = &client;
    asked.pipeline = &plans.at(pipeline);
    asked.id = id;
    asked.frames = 1;
    asked.leading = asked.pipeline->input().shape.front();
    return asked;
  }
  /// Sends a result whose first output is all `fill`, from a slot of its own, and gives up the batch's reference.
  void result(client_record& client, std::uint64_t id, std::uint32_t pipeline = 0, char fill = 'x') {
    slots.collect();
    slot* const from = slots.claim();
    if (from == nullptr) {
      throw std::runtime_error("every slot is lent");
    }
    std::memset(from->pinned_output.get(), fill, pipeline == 0 ? small_frame : large_frame);
    out.result(made(client, id, pipeline), *from);
    slot_ring::drop(*from);
    slots.collect();
  }
  [[nodiscard]] message receive(const std::string& name) {
    zmq::socket_t& dealer = dealers_.at(name);
    message got;
    zmq::message_t part;
    do {
      if (!dealer.recv(part)) {
        throw std::runtime_error("nothing came");
      }
      got.parts.push_back(part.to_string());
    } while (part.more());
    const std::string head = got.parts.front();
    if (wire::decode(std::as_bytes(std::span(head)), got.header) != wire::decode_error::none) {
      throw std::runtime_error("no header");
    }
    if (got.header.tensors > 0) {
      (void)wire::decode_tensor(std::as_bytes(std::span(head)), got.header, 0, got.tensor);
    }
    const auto bytes = std::as_bytes(std::span(head));
    if (wire::sample_account account; wire::decode_account(bytes, got.header, account)) {
      got.account = account;
    }
    std::int64_t index = 0;
    while (wire::decode_output_index(bytes, got.header, got.indices.size(), index)) {
      got.indices.push_back(index);
    }
    got.behind = head.substr(got.header.header_len + got.header.tensors * wire::tensor_header_bytes);
    got.parts.erase(got.parts.begin());
    return got;
  }
  /// Whether the dealer gets anything at all before an answer to something that is sent to it now.
  [[nodiscard]] bool has_nothing(client_record& client) {
    out.control(client.identity, &client, pong_header(4242), "");
    return receive(client.identity).header.request_id == 4242;
  }
  /// Blocks, as the shard does, until that many slots are free; false when they don't come back.
  [[nodiscard]] bool wait_for_free(std::size_t count) {
    for (;;) {
      slots.collect();
      if (slots.free() >= count) {
        return true;
      }
      signal.prepare();
      pollfd descriptor{signal.descriptor(), POLLIN, 0};
      const bool woken = slots.has_returned() || ::poll(&descriptor, 1, 20000) == 1;
      signal.awake();
      if (!woken) {
        return false;
      }
    }
  }
  /// Waits for what ZeroMQ has to tell: a client that reads again, or has gone.
  void wait_for_router() {
    pollfd descriptor{router.descriptor(), POLLIN, 0};
    if (!router.readable()) {
      (void)::poll(&descriptor, 1, 10);
    }
  }

  manual_device device;
  std::vector<plan> plans = hand_made_plans({{.shape = {small_frame}, .max_frames = 4},
                                             {.shape = {large_frame}, .max_frames = 4},
                                             {.shape = {large_frame}, .max_frames = 4, .rewrites_input = true}});
  memory_budget memory{std::size_t{1} << 30U};
  wake_event signal;
  completion_queue completed{signal};
  slot_ring slots;
  router_socket router{{{"tcp://127.0.0.1:*"}, std::size_t{1} << 20U}};
  payload_store received;
  account counters;
  client_table clients{16, 16};
  reply_sender out;

 private:
  zmq::context_t context_;
  std::map<std::string, zmq::socket_t> dealers_;
};

}  // namespace penstock::testing
