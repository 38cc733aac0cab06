#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/egress/egress.hpp"
#include "daemon/ingress/admission.hpp"
#include "daemon/ingress/control_queue.hpp"
#include "daemon/ingress/ingress.hpp"
#include "daemon/request/account.hpp"
#include "daemon/request/client_table.hpp"
#include "daemon/request/ledger.hpp"
#include "daemon/request/session_table.hpp"
#include "daemon/settings/client_memory.hpp"
#include "daemon/shard/dispatcher.hpp"
#include "daemon/shard/served_pipelines.hpp"
#include "daemon/shard/shard_directory.hpp"
#include "daemon/shared_memory/arena_keeper.hpp"
#include "daemon/timeline/timeline_page.hpp"

namespace penstock {

/// Where messages arrive: it reads them, knows the clients, admits requests or refuses them. Thread: the shard.
class reception {
 public:
  struct parts {
    ingress& in;
    egress& out;
    client_table& clients;
    session_table& sessions;
    ledger& book;
    dispatcher& path;
    account& counters;
    const served_pipelines& served;
    memory_budget& memory;
  };
  /// What the daemon says of itself.
  struct introduction {
    std::string server;                                      ///< "penstockd 0.1.0"
    std::string instance;                                    ///< another one at each start
    std::function<std::string()> status_json;                ///< the body of STATUS
    std::function<timeline_page(std::uint64_t)> trace_page;  ///< what TRACE says from a cursor on
    std::uint32_t shard = 0;
  };

  /// Throws configuration_error when there are more pipelines than a WELCOME can describe.
  reception(parts with, const client_settings& limits, introduction self);

  /// From here on WELCOME tells of all shards, and which one a new client should use; and clients may share memory,
  /// where there is somebody who keeps it. Throws as the constructor does.
  void join(shard_directory& among, arena_keeper* keeper);
  /// Gives an arena's use to the client that ordered it; false when it has left.
  [[nodiscard]] bool admit_arena(const arena_order& by, client_arena& what);
  /// No client may name that arena any more.
  void evict_arena(std::uint32_t number);
  /// Handles at most `most` messages, and `most_control` that are no requests. Returns how many there were.
  std::size_t receive(time_point now, std::size_t most, std::size_t most_control = SIZE_MAX);
  /// Of the messages that came, how many were no requests by now, or were refused.
  [[nodiscard]] std::uint64_t control_taken() const noexcept { return control_taken_; }
  /// Handles control messages that had to wait, for a bounded time; `idle`: the shard has nothing else to do. Returns
  /// whether there were any.
  bool work_off(bool idle);
  [[nodiscard]] std::size_t control_waiting() const noexcept { return control_.waiting(); }
  /// When there is something to work off again.
  [[nodiscard]] time_point next_control() const noexcept { return control_.next_at(); }
  /// What WELCOME says, by the shard that it recommends, with these pipelines and limits. Throws as the constructor
  /// does.
  [[nodiscard]] std::vector<std::string> welcomes_of(const served_pipelines& served,
                                                     const client_settings& limits) const;
  /// From here on these limits hold and WELCOME says this; every client is told at once.
  void adopt(const client_settings& limits, std::vector<std::string> welcomes, time_point now);
  /// From here on every SUBMIT and HELLO is refused with this.
  void close(wire::status code, std::string reason);
  /// Tells every client that the daemon goes, which each of them answers by leaving. False when there was none to tell.
  [[nodiscard]] bool say_goodbye();
  /// Whether every client has left.
  [[nodiscard]] bool alone() const noexcept;
  /// Whether a client was lately turned away because every place for clients, or for sessions, was taken.
  [[nodiscard]] bool short_of_clients() const noexcept { return client_places_.is_short; }
  [[nodiscard]] bool short_of_sessions() const noexcept { return session_places_.is_short; }
  /// Forgets clients that have left or have long been silent, and sessions that have long been idle.
  void sweep(time_point now);

 private:
  [[nodiscard]] static wire::message_header answer_to(const wire::message_header& question,
                                                      wire::message_type type) noexcept;
  void handle(incoming& message, time_point now);
  /// What is no request of a client, or one that is refused: it is paid for with time, and waits where its client owes.
  void take_control(const incoming& message, const wire::message_header& header, const client_record* from,
                    const verdict& judged);
  void park(control_queue::account& payer, const incoming& message, const wire::message_header& header,
            const verdict& judged, time_point came);
  void perform(const incoming& message, const wire::message_header& header, client_record* from, const verdict& judged,
               time_point came);
  void send_status(const incoming& message, const wire::message_header& header, const client_record& to,
                   time_point came);
  /// `came`: when the message did, which may have waited.
  void serve(const incoming& message, const wire::message_header& header, client_record& from, time_point now,
             time_point came);
  void welcome(const incoming& message, const wire::message_header& header, time_point now);
  /// The client that says HELLO, if it has a place: the one of its connection, or the one whose token it shows, which
  /// speaks over this connection from now on.
  [[nodiscard]] client_record* resume(const incoming& message, const wire::hello& said);
  /// A place for a client that has none; nullptr when there is no room.
  [[nodiscard]] client_record* admit(const incoming& message, const wire::hello& said, time_point now);
  void submit(const incoming& message, const wire::message_header& header, client_record& from, time_point now);
  /// It uses this shard from here on, and counts among its clients.
  void settle_here(client_record& client);
  /// It does not any more; nothing is sent to it.
  void depart(client_record& client);
  void let_go(client_record& leaving);
  [[nodiscard]] std::string user_of(const incoming& message) const;
  /// Forgets those that have left, or have long been silent, and to whom nothing refers any more.
  void forget_gone(time_point now);

  // Places of clients whose connection has ended: reception_places.cpp.
  struct places {
    const char* what;
    bool is_short = false;
    time_point refused_at{};
  };
  /// Looks whether clients that were not heard for `silence`, nor looked at, still have a connection.
  void probe(std::chrono::nanoseconds silence, time_point now);
  /// Looks at all of them, unless that was done just now.
  void probe_all(time_point now);
  /// Takes the places of those without one whose grace is over.
  void end_grace(time_point now);
  /// Takes a client's place because it has no connection.
  void lose(client_record& client);
  /// Takes the place of a client without a connection; false when there is none that can be had at once. `kept_too`:
  /// also of one that has something to come back for.
  [[nodiscard]] bool free_client_place(time_point now, bool kept_too);
  [[nodiscard]] bool keeps_something(const client_record& client) const;
  /// Takes the sessions of a client without a connection; false when there is none.
  [[nodiscard]] bool free_session_place(time_point now);
  void note_refusal(places& which, time_point now) const;
  void note_room(places& which, bool room, time_point now) const;
  void send_trace(const incoming& message, const wire::message_header& header, const client_record& to);
  void open_session(const incoming& message, const wire::message_header& header, const client_record& from,
                    time_point now);
  void close_session(const wire::message_header& header, const client_record& from);
  /// WELCOME for that client, with the credits that it was granted.
  [[nodiscard]] std::string welcome_for(const client_record& client, bool resumed) const;
  /// Grants a client credits, in bytes, out of the daemon's memory. False when there is none left for it.
  [[nodiscard]] bool grant(client_record& client, time_point now);
  [[nodiscard]] client_needs needs() const;
  void attach(const incoming& message, const wire::message_header& header, const client_record& from);
  [[nodiscard]] verdict admit(const incoming& message, const wire::message_header& header, client_record& from,
                              ledger::admitted& what);
  /// Whether it is one that came before; then it is answered, where its reply is kept.
  [[nodiscard]] bool take_repeat(const incoming& message, const wire::message_header& header,
                                 const client_record& from);
  /// Answers a repeat of a request that has ended, whose reply is no longer kept and whose memory is still in use.
  [[nodiscard]] bool answer_held(const wire::message_header& header, const client_record& from);
  [[nodiscard]] static verdict find_shared(const incoming& message, const wire::message_header& header,
                                           const client_record& from, const submitted& given, ledger::admitted& what);
  [[nodiscard]] verdict unknown_client() const;
  [[nodiscard]] verdict no_such_pipeline(std::uint32_t id, std::uint32_t session = 0) const;
  [[nodiscard]] verdict make_room(client_record& from, const plan& pipeline, std::size_t bytes);
  void cancel(const incoming& message, const wire::message_header& header, client_record& from);
  void refuse(const incoming& message, const client_record* from, const wire::message_header& header,
              const verdict& why);

  parts with_;
  client_settings limits_;
  introduction self_;
  shard_directory* among_ = nullptr;
  arena_keeper* keeper_ = nullptr;
  control_queue control_;
  std::uint64_t control_taken_ = 0;
  std::string status_;                 // the last STATUS
  time_point status_at_{};             // what had happened by then is in it
  std::vector<std::string> welcomes_;  // by the shard that they recommend
  verdict closed_;
  time_point probed_all_at_{};
  places client_places_{"clients"};
  places session_places_{"sessions"};
};

}  // namespace penstock
