#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "daemon/egress/recent_replies.hpp"
#include "daemon/egress/reply_memory.hpp"
#include "daemon/egress/session_replies.hpp"
#include "daemon/request/account.hpp"
#include "daemon/request/client_table.hpp"
#include "daemon/request/reply_port.hpp"
#include "daemon/request/result_extent.hpp"
#include "daemon/ring/ring.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/socket/message_store.hpp"
#include "daemon/socket/router_socket.hpp"
#include "proto/message.hpp"

namespace penstock {

/// Sends replies, in order for each client, never blocking. A client that does not read gets a bounded queue and a
/// bounded share of the daemon's memory; what does not fit is dropped and counted, nobody else's. Thread: the shard.
class egress : public reply_port {
 public:
  /// From this size an output is sent from the pinned memory itself, below it is copied; whatever was written over its
  /// payload is sent in the message of that.
  static constexpr std::size_t lend_bytes = 64 * 1024;

  /// `received`: the payloads, of which those that were written over are results. `memory`: what replies are taken
  /// from; it outlives the socket's context.
  egress(router_socket& to, const ring& slots, message_store& received, const client_settings& limits,
         account& counters, memory_budget& memory);

  void result(const request& of, slot& from) override;
  void error(const request& of, wire::status code, const wire::error_body& why) override;
  void released(const request& of) override;

  /// An ERROR for a message that was not accepted; `to` may be unknown to the client table.
  void refuse(std::string_view identity, const client_record* to, const wire::message_header& about, wire::status code,
              const wire::error_body& why);
  /// WELCOME, PONG, STATUS and their like: a header and, unless it is empty, a JSON body. False when it was dropped.
  bool control(std::string_view identity, const client_record* to, const wire::message_header& header,
               std::string_view body);
  /// Whether the client still has a connection: sends it a PONG that it did not ask for, where nothing waits for it.
  [[nodiscard]] bool reaches(const client_record& client);
  /// Sends the finished reply of that request again; false when it is not kept (any more).
  [[nodiscard]] bool repeat(const client_record& to, std::uint64_t request_id);

  /// Whether `repeat` would send something.
  [[nodiscard]] bool kept(const client_record& of, std::uint64_t request_id);

  /// From here on these limits hold; a cache that there is keeps its size.
  void adopt(const client_settings& limits) { limits_ = limits; }
  /// Tries the queues of slow clients again. Returns whether anything went out.
  bool flush();
  /// Drops what the client's queue and cache hold; what had not gone out counts as undeliverable.
  void forget(const client_record& client) noexcept;
  [[nodiscard]] bool idle() const noexcept { return waiting_.empty(); }
  /// Replies to that client that did not fit into its queue.
  [[nodiscard]] std::uint64_t dropped(const client_record& of) const noexcept {
    return of.index < boxes_.size() && boxes_[of.index] ? boxes_[of.index]->dropped : 0;
  }

 private:
  struct outbox {
    outbox(const client_record& whose, reply_memory& from, session_replies kept)
        : client(whose), memory(from), of_sessions(std::move(kept)) {}

    const client_record& client;
    reply_memory::of_client memory;
    session_replies of_sessions;
    std::deque<reply_parts> waiting{};
    std::size_t waiting_bytes = 0;
    std::uint64_t dropped = 0;
  };
  enum class attempt { sent, full, unreachable };

  void keep(const request& of);
  /// Fills `parts_`.
  void find_kept(const client_record& of, std::uint64_t request_id);
  /// Fills `extents_`. The bytes of all outputs together.
  [[nodiscard]] std::size_t measure(const request& of);
  [[nodiscard]] static std::byte* output_of(const request& of, const slot& from, std::size_t output);
  void append_output(const request& of, slot& from, std::size_t output, std::size_t bytes);
  /// A part with these bytes, counted as the client's where it is large enough and there is one.
  [[nodiscard]] static zmq::message_t part(std::span<const std::byte> bytes, outbox* of);
  /// Fills `parts_`; false, and counted as dropped, when the client may hold no more.
  [[nodiscard]] bool compose(const wire::message_header& header, std::string_view body, const client_record* to);
  [[nodiscard]] bool has_room(const client_record& client, std::size_t bytes);
  void count_dropped(outbox* of) noexcept;
  bool deliver(std::string_view identity, const client_record* to);
  [[nodiscard]] attempt try_send(std::string_view identity, reply_parts& parts);
  [[nodiscard]] outbox& box_of(const client_record& client);

  router_socket& to_;
  const ring& ring_;
  message_store& received_;
  client_settings limits_;
  account& counters_;
  reply_memory memory_;
  recent_replies recent_;
  reply_parts parts_;                           // of the reply that is being made
  std::vector<result_extent> extents_;          // of its outputs
  std::vector<std::unique_ptr<outbox>> boxes_;  // by client_record::index
  std::vector<std::uint32_t> waiting_;          // clients whose queue is not empty
};

}  // namespace penstock
