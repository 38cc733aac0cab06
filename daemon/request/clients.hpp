#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/memory_budget.hpp"
#include "daemon/request/request.hpp"

namespace penstock {

enum class arena_memory : std::uint8_t;

/// The requests in flight of one client, by id. Open addressing; load factor at most 0.5, sized to the in-flight
/// high-water mark so that the tables of many clients stay in a processor's cache. Memory for all credits is reserved.
/// Thread: the shard.
class request_index {
 public:
  explicit request_index(std::size_t most);
  /// Makes room for so many, if that is more than before. Allocates.
  void reserve(std::size_t most);

  [[nodiscard]] request* find(std::uint64_t id) const noexcept;
  /// Any of them, or nullptr.
  [[nodiscard]] request* any() const noexcept;
  void insert(request& request) noexcept;
  void erase(const request& request) noexcept;

 private:
  static constexpr std::size_t least_places = 32;

  [[nodiscard]] std::size_t place_of(std::uint64_t id) const noexcept;
  [[nodiscard]] request*& at(std::size_t place) noexcept { return tables_[mask_ + 1 + place]; }
  [[nodiscard]] request* at(std::size_t place) const noexcept { return tables_[mask_ + 1 + place]; }
  void put(request& request) noexcept;
  void grow() noexcept;

  // A table for each power of two; the one of n places begins at n. All but the one in use are empty.
  std::vector<request*> tables_;
  std::size_t size_ = 0;
  std::size_t mask_ = least_places - 1;
};

/// One client, from its HELLO until it leaves or is forgotten. It uses one connection at a time, and resumes its place
/// over another one with a token that only it knows. Thread: the shard.
class client_record {
 public:
  client_record(std::uint32_t place, std::string_view routing_id, std::uint32_t credit_requests,
                std::uint64_t client_number = 0)
      : index(place),
        number(client_number),
        identity(routing_id),
        in_flight(credit_requests),
        granted_requests(credit_requests) {}

  /// Call it when the client is told of these credits. If they are fewer than before, the earlier ones hold until
  /// `settle` applies the new ones, because requests may be under way.
  void grant(std::uint32_t credit_requests, std::size_t credit_bytes, time_point now);
  /// The arena that it shares under that number, or nullptr.
  [[nodiscard]] client_arena* arena(std::uint32_t arena_number) const noexcept;
  [[nodiscard]] std::size_t shared_bytes(arena_memory kind) const noexcept;
  /// The client may no longer name that arena. Returns whether it could.
  bool leave_arena(std::uint32_t arena_number) noexcept;
  void leave_arenas() noexcept;
  /// Applies fewer credits once the client has known them long enough and has nothing in flight.
  void settle(time_point now) noexcept;

  /// Its place in the table; reply_sender keeps its queue and its cache under it.
  const std::uint32_t index;
  const std::uint64_t number;  ///< unique among all clients of this shard, ever
  std::string identity;        ///< routing id of its connection; "" if another client took that over
  std::string token;           ///< secret that resumes its place, hexadecimal; "" once it has left
  std::string user;            ///< public key of its connection, "" without keys; the token is valid only with it
  request_index in_flight;     ///< accepted and not answered
  std::uint32_t granted_requests = 0;    ///< credits that hold
  std::size_t granted_bytes = SIZE_MAX;  ///< credits that hold
  std::uint32_t requests = 0;            ///< credits in use
  std::size_t bytes = 0;                 ///< credits in use
  /// Requests that ended while queued, but still have to update their session's state.
  std::uint32_t abandoned_requests = 0;
  std::size_t abandoned_bytes = 0;
  /// Requests that refer to it: in flight, or answered early and still on the device.
  std::uint32_t references = 0;
  std::string name;                    ///< from its HELLO
  std::size_t inline_bytes = 0;        ///< largest RESULT that it takes in one part; 0: none
  std::uint32_t subscriptions = 0;     ///< that it has
  std::vector<client_arena*> arenas;   ///< that it may name; it holds a reference to each
  std::optional<memory_grant> memory;  ///< of the daemon's budget, for its credits; set with the first grant
  std::uint64_t results = 0;           ///< sent to it
  std::uint64_t latest = 0;            ///< greatest id of an accepted request
  time_point last_heard;
  time_point probed_at;           ///< when its connection was last checked
  time_point lost_since = never;  ///< since when it has had no connection
  std::uint32_t incarnation = 0;  ///< changes with each GOODBYE; unique among clients
  /// While the replies of a batch are put in order: its last request so far.
  request* last_of_batch = nullptr;
  /// Ids of shared requests that have ended and whose memory is still in use.
  std::vector<std::uint64_t> held;
  bool within_process = false;      ///< a source of this process: it takes none of max_clients' places
  bool gone = false;                ///< it has left or can't be reached; nothing is sent to it
  std::uint32_t told_requests = 0;  ///< credits that it was last told; may be fewer than those that hold
  std::size_t told_bytes = 0;
  time_point settles_at = never;  ///< when `settle` may apply them
  std::uint32_t shard = 0;        ///< that it was told to use
  bool elsewhere = false;         ///< it was told to use another shard, and has sent no request here
};

/// The clients of a shard. Thread: the shard.
class client_table {
 public:
  client_table(std::uint32_t max_clients, std::uint32_t credit_requests)
      : max_clients_(max_clients), credit_requests_(credit_requests) {}

  void set_limits(std::uint32_t max_clients, std::uint32_t credit_requests) noexcept {
    max_clients_ = max_clients;
    credit_requests_ = credit_requests;
  }
  /// The client whose connection has that routing id, or nullptr.
  [[nodiscard]] client_record* find(std::string_view identity) const noexcept;
  /// The client with that token and the same key, or nullptr. The time that this takes reveals nothing about tokens.
  [[nodiscard]] client_record* find_token(std::string_view token, std::string_view user) const noexcept;
  [[nodiscard]] client_record* find_incarnation(std::uint32_t incarnation) const noexcept;
  /// The client of that routing id, made if there is none yet, with a token. nullptr if all places are taken; one of
  /// this process takes none of them.
  [[nodiscard]] client_record* admit(std::string_view identity, time_point now, bool within_process = false);
  /// Moves the client to the connection of that routing id. The client that had it loses its connection.
  void move(client_record& client, std::string_view identity);
  /// Makes its token invalid.
  void revoke(client_record& client) noexcept;
  /// A new incarnation for a client that leaves, so that the next client over its connection has another.
  [[nodiscard]] std::uint32_t next_incarnation() noexcept { return next_incarnation_++; }
  /// Removes a client to which nothing refers.
  void forget(client_record& client) noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Of max_clients' places.
  [[nodiscard]] std::size_t places_taken() const noexcept { return size_ - within_process_; }
  [[nodiscard]] bool full() const noexcept { return places_taken() >= max_clients_; }
  /// Calls `function(client)` for each, in no order.
  template <typename Function>
  void for_each(Function&& function) {
    for (const std::unique_ptr<client_record>& each : records_) {
      if (each != nullptr) {
        function(*each);
      }
    }
  }
  template <typename Function>
  void for_each(Function&& function) const {
    for (const std::unique_ptr<client_record>& each : records_) {
      if (each != nullptr) {
        function(std::as_const(*each));
      }
    }
  }
  /// The client without a connection that is removed first, or nullptr: of those for which nothing is kept
  /// (`keeps(client)` is false), or else of all, the one that lost its connection first.
  template <typename Predicate>
  [[nodiscard]] client_record* most_lost(Predicate&& keeps) const {
    client_record* found = nullptr;
    bool found_keeps = false;
    for (const std::unique_ptr<client_record>& each : records_) {
      if (each == nullptr || each->gone || each->lost_since == never) {
        continue;
      }
      const bool kept = keeps(std::as_const(*each));
      if (found == nullptr || std::pair(kept, each->lost_since) < std::pair(found_keeps, found->lost_since)) {
        found = each.get();
        found_keeps = kept;
      }
    }
    return found;
  }
  /// A client that has had no connection since `limit` or before, or nullptr.
  [[nodiscard]] client_record* lost_by(time_point limit) const noexcept;
  /// A client that has left, uses another shard, or has been silent since before `limit`, and to which nothing refers;
  /// or nullptr.
  [[nodiscard]] client_record* forgettable(time_point limit) const noexcept;

 private:
  struct text_hash {
    using is_transparent = void;
    [[nodiscard]] std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  std::uint32_t max_clients_;
  std::uint32_t credit_requests_;
  using text_map = std::unordered_map<std::string, client_record*, text_hash, std::equal_to<>>;

  void give_token(client_record& client);
  void detach(const client_record& client) noexcept;

  std::vector<std::uint32_t> free_places_;
  std::vector<std::unique_ptr<client_record>> records_;  // by their place
  std::size_t size_ = 0;
  std::size_t within_process_ = 0;  // of them
  std::uint64_t next_number_ = 1;
  std::uint32_t next_incarnation_ = 0;
  text_map by_identity_;
  text_map by_token_;  // by the first half of the token; the second is compared
};

}  // namespace penstock
