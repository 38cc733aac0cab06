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

#include "daemon/memory/memory_budget.hpp"
#include "daemon/request/request.hpp"

namespace penstock {

/// Request ids in flight for one client. Open addressing over at least twice as many places: as few as the most that
/// were ever in flight can do with, so that those of many clients stay in a processor's cache. Memory for as many as
/// its credits is there from the start. Thread: the shard.
class request_index {
 public:
  explicit request_index(std::size_t most);
  /// Room for so many, if it is more than there was. Allocates.
  void reserve(std::size_t most);

  [[nodiscard]] request* find(std::uint64_t id) const noexcept;
  /// Any one of them, nullptr when there is none.
  [[nodiscard]] request* any() const noexcept;
  void insert(request& what) noexcept;
  void erase(const request& what) noexcept;

 private:
  static constexpr std::size_t least_places = 32;

  [[nodiscard]] std::size_t place_of(std::uint64_t id) const noexcept;
  [[nodiscard]] request*& at(std::size_t place) noexcept { return tables_[mask_ + 1 + place]; }
  [[nodiscard]] request* at(std::size_t place) const noexcept { return tables_[mask_ + 1 + place]; }
  void put(request& what) noexcept;
  void grow() noexcept;

  // A table of n places for each power of two, the one of n lying from n on. All but the one in use are empty.
  std::vector<request*> tables_;
  std::size_t size_ = 0;
  std::size_t mask_ = least_places - 1;
};

/// One client, from its HELLO until it leaves or is forgotten. It speaks over one connection at a time, and takes its
/// place along to another with the token that only it knows. Thread: the shard.
class client_record {
 public:
  client_record(std::uint32_t place, std::string_view routing_id, std::uint32_t credit_requests,
                std::uint64_t which = 0)
      : index(place),
        number(which),
        identity(routing_id),
        in_flight(credit_requests),
        granted_requests(credit_requests) {}

  /// It is told of so many credits now. What an earlier word allowed stays allowed for a while (`settle`): what it has
  /// sent by then is under way.
  void grant(std::uint32_t credit_requests, std::size_t credit_bytes, time_point now);
  /// The memory that it shares under that number, nullptr when it shares none.
  [[nodiscard]] client_arena* arena(std::uint32_t arena_number) const noexcept;
  [[nodiscard]] std::size_t arena_bytes() const noexcept;
  /// It may name that one no longer. Whether it could.
  bool leave_arena(std::uint32_t arena_number) noexcept;
  void leave_arenas() noexcept;
  /// Fewer credits hold from now on, if it has long been told of them and has nothing in flight.
  void settle(time_point now) noexcept;

  /// Its place in the table; egress keeps its queue and its cache under it.
  const std::uint32_t index;
  const std::uint64_t number;  ///< of all clients of this shard, never given twice
  std::string identity;        ///< routing id of the connection that it speaks over; "" when another client has that
  std::string token;           ///< what it shows to have its place again, hexadecimal; "" once it has left. A secret
  std::string user;            ///< whose key it came with, "" without keys: the token is good with that one alone
  request_index in_flight;     ///< accepted and not answered
  std::uint32_t granted_requests = 0;    ///< credits that hold
  std::size_t granted_bytes = SIZE_MAX;  ///< credits that hold
  std::uint32_t requests = 0;            ///< credits in use
  std::size_t bytes = 0;                 ///< credits in use
  /// Requests that ended while they were queued, and are still to go through their session's state or on their way.
  std::uint32_t abandoned_requests = 0;
  std::size_t abandoned_bytes = 0;
  /// Requests that still refer to it: in flight, or answered early and still with the device.
  std::uint32_t references = 0;
  std::string name;                    ///< as it said in its HELLO
  std::size_t inline_bytes = 0;        ///< of a RESULT that it takes in one part; 0: of none
  std::vector<client_arena*> arenas;   ///< that it may name; each has a use for it
  std::optional<memory_grant> memory;  ///< of the daemon's budget, for its credits; once it has been granted any
  std::uint64_t results = 0;           ///< that were made for it
  std::uint64_t latest = 0;            ///< the greatest id of a request that was accepted
  time_point last_heard;
  time_point probed_at;           ///< when it was last seen whether there is still a connection
  time_point lost_since = never;  ///< from when on there was none
  std::uint32_t incarnation = 0;  ///< another one after each GOODBYE, and when it was forgotten; no client has it too
  /// While a batch is brought into the order of its replies: the last of its requests so far.
  request* last_of_batch = nullptr;
  /// Requests in shared memory that have ended and whose memory is still in use.
  std::vector<std::uint64_t> held;
  bool gone = false;                ///< it left, or can't be reached: nothing is sent to it any more
  std::uint32_t told_requests = 0;  ///< credits that it was told of last, which may be fewer than hold for now
  std::size_t told_bytes = 0;
  time_point settles_at = never;  ///< from when on those hold
  std::uint32_t shard = 0;        ///< that it was told to use
  bool elsewhere = false;         ///< it was told to use another one, and has sent no request here
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
  /// Whose connection has that routing id.
  [[nodiscard]] client_record* find(std::string_view identity) const noexcept;
  /// The client that was given that token, if it came with the same key. What it takes tells nothing of tokens.
  [[nodiscard]] client_record* find_token(std::string_view token, std::string_view user) const noexcept;
  [[nodiscard]] client_record* find_incarnation(std::uint32_t incarnation) const noexcept;
  /// The client of that routing id, made when there is none yet, with a token; nullptr when there is no room for
  /// another.
  [[nodiscard]] client_record* admit(std::string_view identity, time_point now);
  /// From now on the client speaks over the connection of that routing id, and whoever did so is nobody's any more.
  void move(client_record& client, std::string_view identity);
  /// Its token is good for nothing any more.
  void revoke(client_record& client) noexcept;
  /// For a client that leaves: whoever comes next over its connection is another one.
  [[nodiscard]] std::uint32_t next_incarnation() noexcept { return next_incarnation_++; }
  /// Forgets a client to which nothing refers any more.
  void forget(client_record& client) noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Calls `with(client)` for each, in no order.
  template <typename Function>
  void for_each(Function&& with) {
    for (const std::unique_ptr<client_record>& each : records_) {
      if (each != nullptr) {
        with(*each);
      }
    }
  }
  template <typename Function>
  void for_each(Function&& with) const {
    for (const std::unique_ptr<client_record>& each : records_) {
      if (each != nullptr) {
        with(std::as_const(*each));
      }
    }
  }
  /// Of the clients without a connection the one that may be missed most easily: first those for which nothing is kept,
  /// then who has been without one for longest; nullptr when there is none. `keeps`: whether something is kept for a
  /// client.
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
  /// A client that has been without a connection since `limit` or before; nullptr when there is none.
  [[nodiscard]] client_record* lost_by(time_point limit) const noexcept;
  /// A client to which nothing refers any more and that has left, uses another shard or has been silent since before
  /// `limit`; nullptr when there is none.
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
  std::uint64_t next_number_ = 1;
  std::uint32_t next_incarnation_ = 0;
  text_map by_identity_;
  text_map by_token_;  // by the first half of it; the second is compared
};

}  // namespace penstock
