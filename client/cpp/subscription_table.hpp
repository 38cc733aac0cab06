#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <penstock/client_options.hpp>

#include "client/cpp/command_queue.hpp"
#include "client/cpp/dealer_socket.hpp"
#include "client/cpp/feed.hpp"
#include "client/cpp/handshake.hpp"
#include "client/cpp/session_table.hpp"

namespace penstock::link {

/// This client's subscriptions: makes them, makes them again when the connection was lost or the daemon restarted, and
/// hands on what comes. Thread: the connection's.
class subscription_table {
 public:
  /// All references must outlive this.
  subscription_table(const client_options& options, dealer_socket& socket, handshake& handshake,
                     atomic_counters& counters)
      : options_(options), socket_(socket), handshake_(handshake), counters_(counters) {}

  void open(subscription_opening&& opening, time_point now);
  void close(std::uint64_t id);
  /// After WELCOME. `anew`: the daemon has lost the subscriptions.
  void subscribe_again(bool anew, time_point now);
  /// Repeats SUBSCRIBE. `last_heard`: arrival of the last message.
  void tend(time_point now, time_point last_heard);
  /// When `tend` has to be called; `never` without subscriptions.
  [[nodiscard]] time_point next_due() const;

  void handle_subscribed(const wire::message_header& header, const std::vector<zmq::message_t>& parts);
  void handle_publisher(const wire::message_header& header, const std::vector<zmq::message_t>& parts);
  void handle_published(const wire::message_header& header, std::vector<zmq::message_t>& parts);
  /// False when no subscription has that id; `error` is then unchanged.
  [[nodiscard]] bool handle_error(std::uint64_t id, request_error& error);
  void end_all(const request_error& error);

 private:
  struct entry {
    std::shared_ptr<link::feed> feed;
    std::optional<std::promise<std::uint64_t>> granted;  // until the first SUBSCRIBED
    time_point deadline = never;                         // of that
    bool asks = true;                                    // SUBSCRIBED has not come
    std::chrono::nanoseconds patience{};
    time_point due = never;  // another SUBSCRIBE, or a look at the connection
  };

  void send(std::uint64_t id, entry& each, time_point now);
  void send_unsubscribe(std::uint64_t id);
  [[nodiscard]] entry* find(std::uint64_t id, time_point now);

  const client_options& options_;
  dealer_socket& socket_;
  handshake& handshake_;
  atomic_counters& counters_;
  std::map<std::uint64_t, entry> entries_;
  time_point unsubscribed_at_ = time_point::min();
};

}  // namespace penstock::link
