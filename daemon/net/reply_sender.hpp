#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "daemon/batch/slot_ring.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/net/reply_cache.hpp"
#include "daemon/net/reply_memory.hpp"
#include "daemon/net/router_socket.hpp"
#include "daemon/request/clients.hpp"
#include "daemon/request/counters.hpp"
#include "daemon/request/payload_store.hpp"
#include "daemon/request/request_tracker.hpp"
#include "daemon/request/wire_tensor.hpp"
#include "proto/message.hpp"

namespace penstock {

class subscriptions;

/// Sends replies, in order for each client; never blocks. A client that does not read has a bounded queue and a bounded
/// share of memory. Replies beyond these bounds are dropped and counted; other clients are not affected.
/// Thread: the shard.
class reply_sender : public reply_port {
 public:
  /// Outputs of at least this size are sent from pinned memory, without a copy, unless slots are scarce or the reply is
  /// kept. A result that was written over its payload is sent in that message, whatever its size.
  static constexpr std::size_t lend_bytes = 64 * 1024;

  /// `payloads`: holds the messages of rewritten payloads. `memory`: the budget of replies; it must outlive the
  /// socket's context.
  reply_sender(router_socket& socket, const slot_ring& slots, payload_store& payloads, const client_settings& limits,
               account& counters, memory_budget& memory);

  /// Results go to subscribers too from now on.
  void publish_to(subscriptions& subscribers) noexcept { subscriptions_ = &subscribers; }

  void result(const request& done, slot& slot) override;
  void error(const request& ended, wire::status code, const wire::error_body& why) override;
  void released(const request& ended) override;

  /// Sends an ERROR for a message that was not accepted. `client`: nullptr if the sender is not a known client.
  void refuse(std::string_view identity, const client_record* client, const wire::message_header& about,
              wire::status code, const wire::error_body& why);
  /// Sends a control message, such as WELCOME, PONG or STATUS: a header and, unless it is empty, a JSON body. False if
  /// it was dropped.
  bool control(std::string_view identity, const client_record* client, const wire::message_header& header,
               std::string_view body);
  /// Whether the client still has a connection. If nothing waits for it, this sends it a PONG to find out.
  [[nodiscard]] bool reaches(const client_record& client);
  /// Sends the kept reply of that request again; false if there is none.
  [[nodiscard]] bool repeat(const client_record& client, std::uint64_t request_id);
  /// Whether `repeat` would send something.
  [[nodiscard]] bool kept(const client_record& client, std::uint64_t request_id);

  /// Applies new limits. Existing caches keep their size.
  void adopt(const client_settings& limits) { limits_ = limits; }
  /// Tries the queues of slow clients again. Returns whether anything went out.
  bool flush();
  /// Drops the client's queue, cache and subscriptions. Queued replies count as undeliverable.
  void forget(const client_record& client) noexcept;
  [[nodiscard]] bool idle() const noexcept { return waiting_.empty(); }
  /// Replies to that client that did not fit into its queue.
  [[nodiscard]] std::uint64_t dropped(const client_record& client) const noexcept {
    return client.index < boxes_.size() && boxes_[client.index] ? boxes_[client.index]->dropped : 0;
  }

 private:
  struct outbox {
    outbox(const client_record& owner, reply_memory& replies, session_replies kept)
        : client(owner), memory(replies), of_sessions(std::move(kept)) {}

    const client_record& client;
    reply_memory::of_client memory;
    session_replies of_sessions;
    std::deque<reply_parts> waiting{};
    std::size_t waiting_bytes = 0;
    std::uint64_t dropped = 0;
  };
  using attempt = router_socket::sending;

  void answer(const request& done, slot& slot);
  void publish(const request& done, const slot& slot);
  void keep(const request& request);
  /// Fills `parts_`.
  void find_kept(const client_record& client, std::uint64_t request_id);
  /// Fills `extents_`. Returns the bytes of all outputs.
  [[nodiscard]] std::size_t measure(const request& request);
  [[nodiscard]] static std::byte* output_of(const request& request, const slot& slot, std::size_t output);
  void append_output(const request& request, slot& slot, std::size_t output, std::size_t bytes);
  /// A part with a copy of these bytes. It counts as the client's if there is one and the part is large enough.
  [[nodiscard]] static zmq::message_t part(std::span<const std::byte> bytes, outbox* box);
  /// Fills `parts_`. False, and counted as dropped, if the client may hold no more.
  [[nodiscard]] bool compose(const wire::message_header& header, std::string_view body, const client_record* client);
  [[nodiscard]] bool has_room(const client_record& client, std::size_t bytes);
  void count_dropped(outbox* box) noexcept;
  bool deliver(std::string_view identity, const client_record* client);
  [[nodiscard]] attempt try_send(std::string_view identity, reply_parts& parts);
  [[nodiscard]] outbox& box_of(const client_record& client);

  router_socket& socket_;
  const slot_ring& ring_;
  payload_store& payloads_;
  client_settings limits_;
  account& counters_;
  reply_memory memory_;
  recent_replies recent_;
  reply_parts parts_;                        // of the reply that is being composed
  std::vector<result_extent> extents_;       // of its outputs
  std::vector<published_output> published_;  // the same, for subscribers
  subscriptions* subscriptions_ = nullptr;
  std::vector<std::unique_ptr<outbox>> boxes_;  // by client_record::index
  std::vector<std::uint32_t> waiting_;          // clients whose queue is not empty
};

}  // namespace penstock
