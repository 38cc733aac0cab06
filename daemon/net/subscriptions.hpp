#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <zmq.hpp>

#include "base/memory_budget.hpp"
#include "daemon/net/admission.hpp"
#include "daemon/net/reply_cache.hpp"
#include "daemon/net/reply_memory.hpp"
#include "daemon/net/router_socket.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/clients.hpp"
#include "daemon/request/counters.hpp"
#include "daemon/request/request.hpp"
#include "daemon/request/sessions.hpp"
#include "daemon/request/wire_tensor.hpp"
#include "daemon/telemetry/report.hpp"
#include "proto/control.hpp"
#include "proto/message.hpp"

namespace penstock {

/// Whether the text matches the pattern: "*" stands for any letters, "?" for one byte. In O(text · pattern).
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text) noexcept;

/// Sends results, or requests as they are accepted, also to clients that subscribe to them. The bytes are copied once
/// for all subscribers. Each has a queue of its own, which is bounded and whose memory is granted before: what does not
/// fit is dropped and counted, and nobody else waits. Costs nothing where nobody subscribes. Thread: the shard.
class subscriptions {
 public:
  static constexpr std::size_t most_of_a_client = 16;
  /// What a queue has at least, and where the subscriber does not say.
  static constexpr std::size_t least_queue_bytes = 64 * 1024;
  static constexpr std::size_t usual_queue_bytes = std::size_t{16} << 20U;
  /// All queues together take at most this part of the daemon's memory, so that there is room for clients.
  static constexpr std::size_t share_of_memory = 4;

  struct parts {
    router_socket& socket;
    const client_table& clients;
    session_table& sessions;
    const served_pipelines& served;
    account& counters;
    memory_budget& memory;  ///< that queues are granted from
  };

  /// `queued` counts what is on its way, and must outlive the socket's context.
  subscriptions(const parts& all, memory_budget& queued, std::uint32_t most)
      : parts_(all), queued_(queued), memory_(queued), most_(most), most_bytes_(all.memory.limit() / share_of_memory) {}

  /// So many shards share what is for subscriptions. Call it before there are any.
  void set_shards(std::size_t shards) noexcept { most_bytes_ = parts_.memory.limit() / share_of_memory / shards; }
  /// How many there may be from now on. Those that there are stay.
  void set_most(std::uint32_t most) noexcept { most_ = most; }
  [[nodiscard]] bool wants_results() const noexcept { return all_.size() != to_requests_; }
  [[nodiscard]] bool wants_requests() const noexcept { return to_requests_ != 0; }

  /// Handles SUBSCRIBE. On admission `granted` is the body of SUBSCRIBED.
  [[nodiscard]] verdict subscribe(client_record& client, std::uint64_t id, const wire::subscribe& wanted,
                                  wire::subscribed& granted);
  /// Handles UNSUBSCRIBE; no effect if there is no such subscription.
  void unsubscribe(const client_record& client, std::uint64_t id) noexcept;
  /// Drops all of that client.
  void forget(const client_record& client) noexcept;

  /// Offers a result to all that subscribe to it, unless its account says that it is withheld. `outputs` is empty if
  /// the host can't read them.
  void publish(const request& done, std::span<const published_output> outputs);
  /// Offers a request that was accepted. `body` is its payload, unless that lies in shared memory.
  void publish_request(const request& accepted, std::span<const std::byte> body);
  /// Tries the queues of slow subscribers again. Returns whether anything went out.
  bool flush();
  /// True if nothing waits for a slow subscriber.
  [[nodiscard]] bool idle() const noexcept { return waiting_ == 0; }
  /// Tells subscribers of publishers that have ended. Call it about every second, and after a reload.
  void sweep();

  [[nodiscard]] subscription_figures figures() const noexcept { return {all_.size(), queued_.used()}; }
  /// Of that client: results that were sent to it, and that it lost.
  struct tally {
    std::uint64_t published = 0;
    std::uint64_t dropped = 0;
  };
  [[nodiscard]] tally of(const client_record& client) const noexcept;

 private:
  // A session of a plan, or a client's requests of no session to it.
  struct publisher_key {
    std::uint32_t plan_place = 0;
    std::uint32_t session = 0;
    std::uint32_t incarnation = 0;  // of its client, without a session

    bool operator==(const publisher_key&) const = default;
  };
  struct key_hash {
    [[nodiscard]] std::size_t operator()(const publisher_key& key) const noexcept {
      return std::hash<std::uint64_t>{}((std::uint64_t{key.plan_place} << 32U) ^
                                        (std::uint64_t{key.session} * 0x9E3779B97F4A7C15U) ^ key.incarnation);
    }
  };
  struct known_publisher {
    bool wanted = false;
    bool told = false;  // PUBLISHER was sent
    std::uint32_t number = 0;
    std::vector<std::uint16_t> outputs;  // of the plan, that are sent; of a request 0, its input
  };
  struct message {
    reply_parts parts;
    bool is_result = false;
  };
  struct subscription {
    subscription(client_record& owner, std::uint64_t request_id, const wire::subscribe& asked, memory_grant&& granted,
                 reply_memory& memory)
        : client(owner), id(request_id), wanted(asked), grant(std::move(granted)), queue(memory) {}

    client_record& client;
    std::uint64_t id;
    wire::subscribe wanted;
    memory_grant grant;
    reply_memory::of_client queue;  // what it holds, here and in ZeroMQ
    std::deque<message> waiting{};
    std::uint64_t sequence = 0;  // of the next result that matches
    std::uint32_t publishers_told = 0;
    bool unreachable = false;  // until it subscribes again
    std::uint64_t published = 0;
    std::uint64_t dropped = 0;
    std::unordered_map<publisher_key, known_publisher, key_hash> publishers{};
  };

  [[nodiscard]] subscription* find(const client_record& client, std::uint64_t id) const noexcept;
  [[nodiscard]] verdict check(const wire::subscribe& wanted) const;
  [[nodiscard]] const plan* served(std::string_view name) const noexcept;
  [[nodiscard]] std::size_t queue_for(const wire::subscribe& wanted) const noexcept;
  [[nodiscard]] static publisher_key key_of(const request& done) noexcept;
  [[nodiscard]] static known_publisher& publisher_of(subscription& each, const request& done);
  [[nodiscard]] bool alive(const publisher_key& key) const noexcept;
  void publish(const request& done, std::span<const published_output> outputs, bool requests);
  void offer(subscription& each, known_publisher& source, const request& done, std::uint64_t sequence,
             std::span<const published_output> outputs);
  /// Fills `composed_`, as compose_result.
  void compose_publisher(subscription& each, const wire::publisher& body);
  void compose_result(subscription& each, const known_publisher& source, const request& done, std::uint64_t sequence,
                      std::span<const published_output> outputs, std::size_t bytes);
  [[nodiscard]] zmq::message_t shared_copy(std::size_t output, std::span<const std::byte> bytes);
  /// Sends `composed_`, or queues it; false if the client has no connection.
  bool send(subscription& each);
  [[nodiscard]] router_socket::sending try_send(subscription& each, message& next);
  void lose(subscription& each) noexcept;
  void drop(subscription& ended) noexcept;

  parts parts_;
  memory_budget& queued_;
  reply_memory memory_;
  std::uint32_t most_;
  std::size_t most_bytes_;         // of all queues
  std::size_t granted_bytes_ = 0;  // to all queues
  std::vector<std::unique_ptr<subscription>> all_;
  std::size_t to_requests_ = 0;           // of them
  std::size_t waiting_ = 0;               // subscriptions whose `waiting` is not empty
  std::vector<published_output> inputs_;  // of the request that is being published
  std::vector<zmq::message_t> copies_;    // of the result's outputs, made when the first subscriber needs them
  message composed_;
};

}  // namespace penstock
