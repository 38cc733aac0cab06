#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/config/settings.hpp"
#include "daemon/exec/scheduler.hpp"
#include "daemon/net/message_reader.hpp"
#include "daemon/net/reply_sender.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/clients.hpp"
#include "daemon/request/request_tracker.hpp"
#include "daemon/request/sessions.hpp"
#include "daemon/request/tuning.hpp"
#include "proto/message.hpp"

namespace penstock {

/// Whether a message is admitted, and what its ERROR says if not. Allocates only for a refusal.
class verdict {
 public:
  verdict() = default;
  verdict(wire::status status, std::string reason)
      : code(status), reason_(std::make_shared<const std::string>(std::move(reason))) {}

  [[nodiscard]] bool admitted() const noexcept { return code == wire::status::ok; }
  [[nodiscard]] std::string_view reason() const noexcept { return reason_ ? std::string_view(*reason_) : ""; }

  wire::status code = wire::status::ok;

 private:
  std::shared_ptr<const std::string> reason_;  // of a refusal
};

// The checks of a message. They change nothing except their arguments, and trust nothing that a peer sent.

/// Decodes the header of any message, finds the body of a SUBMIT in one part, and checks the number and size of the
/// parts.
[[nodiscard]] verdict read_header(incoming& message, const client_settings& limits, wire::message_header& header);

/// Checks the tensor of a SUBMIT or SUBMIT_SHARED against its pipeline: number, dtype, shape, frames, and bytes if they
/// came with the message. Fills in `leading`, `bytes` and `account` of the submission.
[[nodiscard]] verdict check_submit(const incoming& message, const wire::message_header& header, const plan& pipeline,
                                   request_tracker::submission& submission);

/// Checks a SUBMIT against the session that its header names; `session` is nullptr if the client has no session of that
/// number. After SEQUENCE_GAP, put session_record::frames into the ERROR as its sequence.
[[nodiscard]] verdict check_session(const wire::message_header& header, const session_record* session,
                                    const plan& pipeline, std::int64_t leading);

/// Whether the client has credits for another request of that many bytes.
[[nodiscard]] verdict check_credits(const client_record& client, std::size_t bytes);

/// For a pipeline that keeps state: refuses the request if the client has as many abandoned requests (answered early,
/// but still to run in their sessions) as credits.
[[nodiscard]] verdict check_abandoned(const client_record& client);

/// Decides whether a SUBMIT or SUBMIT_SHARED becomes a request, is a repeat of one, or is refused. Thread: the shard.
class admission {
 public:
  enum class outcome : std::uint8_t {
    accepted,          ///< becomes a request
    refused,           ///< gets an ERROR
    repeat_in_flight,  ///< of a request in flight: ignored
    repeat_finished,   ///< of a request whose reply is kept: the reply is sent again
    repeat_held,       ///< of a request that ended with an ERROR, while its shared memory is still in use
  };
  struct decision {
    outcome result = outcome::refused;
    request_tracker::submission submission{};  ///< if it is accepted
    verdict refusal{};
    std::uint64_t sequence = 0;  ///< for the ERROR
  };

  admission(session_table& sessions, const served_pipelines& served, const tuning& numbers, reply_sender& replies,
            scheduler& scheduler)
      : sessions_(sessions), served_(served), numbers_(numbers), replies_(replies), scheduler_(scheduler) {}

  /// Decides about a SUBMIT or SUBMIT_SHARED whose header was read. A request in flight is never run a second time, and
  /// a repeat needs no credits. With `overflow = "drop-oldest"` this may end queued requests of the client.
  [[nodiscard]] decision decide(const incoming& message, const wire::message_header& header, client_record& client);
  /// Whether a request of that id ended with an ERROR and its shared memory is still in use.
  [[nodiscard]] static bool is_held(const client_record& client, std::uint64_t request_id) noexcept;

  /// From now on refuses every new request, HELLO, session and arena with this status.
  void close(wire::status status, std::string reason) { closed_ = {status, std::move(reason)}; }
  /// The refusal that `close` set; admitted before.
  [[nodiscard]] const verdict& closed() const noexcept { return closed_; }
  /// The refusal of a pipeline that is not served. `session`: the session that the message names, or 0.
  [[nodiscard]] verdict no_such_pipeline(std::uint32_t id, std::uint32_t session = 0) const;

 private:
  [[nodiscard]] verdict judge(const incoming& message, const wire::message_header& header, client_record& client,
                              decision& made);
  [[nodiscard]] verdict judge_session(const wire::message_header& header, const client_record& client,
                                      decision& made) const;
  [[nodiscard]] static verdict find_shared(const incoming& message, const wire::message_header& header,
                                           const client_record& client, request_tracker::submission& submission);
  [[nodiscard]] verdict make_room(client_record& client, const plan& pipeline, std::size_t bytes);

  session_table& sessions_;
  const served_pipelines& served_;
  const tuning& numbers_;
  reply_sender& replies_;
  scheduler& scheduler_;
  verdict closed_;
};

}  // namespace penstock
