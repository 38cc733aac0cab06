#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "daemon/exec/scheduler.hpp"
#include "daemon/net/admission.hpp"
#include "daemon/net/client_registry.hpp"
#include "daemon/net/control_queue.hpp"
#include "daemon/net/message_reader.hpp"
#include "daemon/net/reply_sender.hpp"
#include "daemon/net/subscriptions.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/clients.hpp"
#include "daemon/request/counters.hpp"
#include "daemon/request/request_tracker.hpp"
#include "daemon/request/sessions.hpp"
#include "daemon/request/tuning.hpp"
#include "daemon/shm/server.hpp"
#include "daemon/telemetry/timeline.hpp"

namespace penstock {

/// Handles the messages of a shard: reads each, has it checked, and does what it asks for. Requests are handled at
/// once. All other messages are charged to their connection, and wait if it is in debt (control_queue). Thread: the
/// shard.
class message_handler {
 public:
  struct parts {
    message_reader& reader;
    reply_sender& replies;
    client_registry& clients;
    session_table& sessions;
    request_tracker& tracker;
    scheduler& scheduling;
    account& counters;
    const served_pipelines& served;
    subscriptions& subscribers;
    tuning& numbers;
  };
  /// What a client can ask about the shard.
  struct reports {
    std::function<std::string()> status_json;                ///< the body of STATUS
    std::function<timeline_page(std::uint64_t)> trace_page;  ///< the body of TRACE from a cursor on
  };

  message_handler(const parts& all, reports answers, std::uint32_t shard)
      : parts_(all),
        reports_(std::move(answers)),
        shard_(shard),
        admission_(all.sessions, all.served, all.numbers, all.replies, all.scheduling) {}

  /// Clients may share memory from now on, if there is a server.
  void share_memory(shm_server* server) noexcept { shm_server_ = server; }
  /// Handles at most `most` messages, of which at most `most_control` are control messages or refusals. Returns how
  /// many it handled.
  std::size_t receive(time_point now, std::size_t most, std::size_t most_control = SIZE_MAX);
  /// Control messages and refusals so far.
  [[nodiscard]] std::uint64_t control_taken() const noexcept { return control_taken_; }
  /// Handles deferred control messages for a bounded time. `idle`: the shard has nothing else to do. Returns whether
  /// there were any.
  bool handle_deferred(bool idle);
  [[nodiscard]] std::size_t control_waiting() const noexcept { return control_.waiting(); }
  /// When a deferred message may be handled again.
  [[nodiscard]] time_point next_control() const noexcept { return control_.next_at(); }
  /// Refuses every SUBMIT, HELLO, OPEN and ATTACH from now on.
  void close(wire::status code, std::string reason) { admission_.close(code, std::move(reason)); }
  /// Call it about every second.
  void sweep(time_point now) { control_.sweep(now); }

 private:
  void handle(incoming& message, time_point now);
  void submit(incoming& message, const wire::message_header& header, client_record& client, time_point now);
  /// Handles or defers a control message or a refusal. `client`: nullptr if the sender is not a client.
  void handle_control(incoming& message, const wire::message_header& header, const client_record* client,
                      const verdict& judged);
  void defer(control_queue::account& payer, const incoming& message, const wire::message_header& header,
             const verdict& judged, time_point came);
  /// `came`: when the message came; it may have been deferred since.
  void answer(incoming& message, const wire::message_header& header, client_record* client, const verdict& judged,
              time_point came);
  void serve(incoming& message, const wire::message_header& header, client_record& client, time_point now,
             time_point came);
  void connect(const incoming& message, const wire::message_header& header, time_point now);
  void cancel(const incoming& message, const wire::message_header& header, client_record& client);
  void open_session(const incoming& message, const wire::message_header& header, const client_record& client,
                    time_point now);
  void close_session(const wire::message_header& header, const client_record& client);
  void set_values(const incoming& message, const wire::message_header& header, const client_record& client);
  void get_values(const incoming& message, const wire::message_header& header, const client_record& client);
  /// The client's session that the header names; nullptr and a refusal that is sent if there is none.
  [[nodiscard]] session_record* session_of(const incoming& message, const wire::message_header& header,
                                           const client_record& client);
  void subscribe(const incoming& message, const wire::message_header& header, client_record& client);
  void attach(const incoming& message, const wire::message_header& header, const client_record& client);
  void send_status(const incoming& message, const wire::message_header& header, const client_record& client,
                   time_point came);
  void send_trace(const incoming& message, const wire::message_header& header, const client_record& client);
  /// Answers a repeat or a CANCEL of a request that has ended, but whose shared memory is still in use.
  void answer_held(const wire::message_header& header, const client_record& client);
  [[nodiscard]] verdict unknown_client() const;
  void refuse(const incoming& message, const client_record* client, const wire::message_header& header,
              const verdict& refusal);

  parts parts_;
  reports reports_;
  std::uint32_t shard_;
  shm_server* shm_server_ = nullptr;
  admission admission_;
  control_queue control_;
  std::uint64_t control_taken_ = 0;
  std::string status_;      // the last STATUS
  time_point status_at_{};  // when it was made
};

}  // namespace penstock
