#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_budget.hpp"
#include "daemon/config/client_memory.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/exec/scheduler.hpp"
#include "daemon/net/admission.hpp"
#include "daemon/net/message_reader.hpp"
#include "daemon/net/reply_sender.hpp"
#include "daemon/net/shard_directory.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/clients.hpp"
#include "daemon/request/counters.hpp"
#include "daemon/request/sessions.hpp"
#include "daemon/shm/server.hpp"
#include "proto/control.hpp"

namespace penstock {

/// Decides who is a client of this shard, and for how long: HELLO, resumption by token, credits, GOODBYE, and the
/// places of clients that are silent or have no connection. If all places are taken, a client without a connection
/// loses its place; one for which nothing is kept comes first. Thread: the shard.
class client_registry {
 public:
  struct parts {
    client_table& clients;
    session_table& sessions;
    scheduler& scheduling;
    reply_sender& replies;
    account& counters;
    const served_pipelines& served;
    memory_budget& memory;
  };
  /// How the daemon introduces itself in WELCOME.
  struct introduction {
    std::string server;    ///< "penstockd 0.1.0"
    std::string instance;  ///< another one at each start
    std::uint32_t shard = 0;
    std::string device{};  ///< device_facts::exporter of its device
  };

  /// Throws configuration_error if WELCOME has no room for all pipelines.
  client_registry(const parts& all, const client_settings& limits, introduction self);

  /// From now on WELCOME lists all shards and recommends one, and clients may share memory if there is a server. Throws
  /// as the constructor.
  void join(shard_directory& directory, const shm_server* server);
  [[nodiscard]] const client_settings& limits() const noexcept { return limits_; }
  /// Device memory that a client may share; 0: none.
  [[nodiscard]] std::size_t device_bytes() const noexcept { return device_bytes_; }
  /// The bodies of WELCOME for these pipelines and limits, one for each shard that it may recommend. Throws as the
  /// constructor.
  [[nodiscard]] std::vector<std::string> welcomes_of(const served_pipelines& served,
                                                     const client_settings& limits) const;
  /// Applies other limits and WELCOMEs, and sends a WELCOME to every client.
  void adopt(const client_settings& limits, std::vector<std::string> welcomes, time_point now);

  /// The client whose message has just come; nullptr if the sender is not a client, or has said GOODBYE.
  [[nodiscard]] client_record* heard(std::string_view identity, time_point now) noexcept {
    client_record* const client = parts_.clients.find(identity);
    if (client == nullptr) {
      return nullptr;
    }
    client->last_heard = now;
    client->lost_since = never;
    return client->gone ? nullptr : client;
  }
  /// The same for a message that came earlier; does not count as a sign of life.
  [[nodiscard]] client_record* find(std::string_view identity) const noexcept {
    client_record* const client = parts_.clients.find(identity);
    return client == nullptr || client->gone ? nullptr : client;
  }
  /// Handles HELLO: gives the client its earlier place or a new one, grants credits and sends WELCOME. `user`: the
  /// public key of its connection. A refusal says that there is no room.
  [[nodiscard]] verdict connect(const incoming& message, const wire::hello& hello, const std::string& user,
                                std::uint64_t request_id, time_point now);
  /// Counts the client among this shard's clients, because it sends requests here.
  void settle(client_record& client);
  /// Handles GOODBYE: ends the client's requests, sessions and arenas.
  void leave(client_record& client);
  /// Opens a session, or finds the open one of that name. nullptr if there is no place, or the client has as many as it
  /// may.
  [[nodiscard]] session_record* open_session(const client_record& client, const plan& pipeline, std::string_view name,
                                             time_point now);
  /// Lets the client that ordered the arena use it; false if the client has left.
  [[nodiscard]] bool admit_arena(const arena_order& order, client_arena& arena);
  /// No client may name that arena any more.
  void evict_arena(std::uint32_t number);

  /// Sends GOODBYE to every client; each answers by leaving. False if there was no client.
  [[nodiscard]] bool say_goodbye();
  /// Whether every client has left.
  [[nodiscard]] bool empty() const noexcept;
  /// Whether a client was lately refused because all places for clients, or for sessions, were taken.
  [[nodiscard]] bool short_of_clients() const noexcept { return client_places_.is_short; }
  [[nodiscard]] bool short_of_sessions() const noexcept { return session_places_.is_short; }
  /// Call it about every second: forgets clients that have left, lost their connection or are silent, and closes idle
  /// sessions.
  void sweep(time_point now);

 private:
  // A kind of place that can run short.
  struct places {
    const char* name;
    bool is_short = false;
    time_point refused_at{};
  };

  [[nodiscard]] client_record* resume(std::string_view identity, const std::string& token, const std::string& user);
  [[nodiscard]] client_record* admit(const incoming& message, const std::string& token, const std::string& user,
                                     time_point now);
  [[nodiscard]] bool grant(client_record& client, time_point now);
  [[nodiscard]] client_needs needs() const;
  void send_welcome(const client_record& client, std::uint64_t request_id, bool resumed);
  void depart(client_record& client);
  void forget_gone(time_point now);
  /// Checks the connections of clients that were neither heard nor probed for `silence`.
  void probe(std::chrono::nanoseconds silence, time_point now);
  /// Probes all clients, unless that was done just now.
  void probe_all(time_point now);
  void end_grace(time_point now);
  void lose(client_record& client);
  /// Frees the place of a client without a connection; false if there is none. `kept_too`: also if something is kept
  /// for it.
  [[nodiscard]] bool free_client_place(time_point now, bool kept_too);
  [[nodiscard]] bool keeps_something(const client_record& client) const;
  /// Frees the sessions of a client without a connection; false if there is none.
  [[nodiscard]] bool free_session_place(time_point now);
  void note_refusal(places& kind, time_point now) const;
  void note_room(places& kind, bool room, time_point now) const;

  parts parts_;
  client_settings limits_;
  introduction self_;
  shard_directory* directory_ = nullptr;
  std::size_t shared_bytes_ = 0;       // that a client may share
  std::size_t device_bytes_ = 0;       // the same of the device's memory
  std::vector<std::string> welcomes_;  // by the shard that they recommend
  time_point probed_all_at_{};
  places client_places_{"clients"};
  places session_places_{"sessions"};
};

}  // namespace penstock
