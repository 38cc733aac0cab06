#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/ingress/ingress.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/client_table.hpp"
#include "daemon/request/session_table.hpp"
#include "daemon/settings/settings.hpp"
#include "proto/message.hpp"

namespace penstock {

/// Whether a message may go on, and if not, what its ERROR says. Asks for memory only where it may not.
class verdict {
 public:
  verdict() = default;
  verdict(wire::status why, std::string reason)
      : code(why), reason_(std::make_shared<const std::string>(std::move(reason))) {}

  [[nodiscard]] bool admitted() const noexcept { return code == wire::status::ok; }
  [[nodiscard]] std::string_view reason() const noexcept { return reason_ ? std::string_view(*reason_) : ""; }

  wire::status code = wire::status::ok;

 private:
  std::shared_ptr<const std::string> reason_;  // of a refusal
};

/// Reads a message's header, finds the body of a SUBMIT that is one part, and checks what every message must have. What
/// a peer sent is never trusted.
[[nodiscard]] verdict read_header(incoming& message, const client_settings& limits, wire::message_header& header);

/// What a SUBMIT or SUBMIT_SHARED has.
struct submitted {
  std::int64_t leading = 0;  ///< the leading dimension of its frames
  std::size_t bytes = 0;     ///< of the payload
};

/// Checks a SUBMIT or SUBMIT_SHARED against its pipeline: one tensor, its dtype, its shape, its frames, and its bytes,
/// where they came with the message.
[[nodiscard]] verdict check_submit(const incoming& message, const wire::message_header& header, const plan& pipeline,
                                   submitted& what);

/// Finds what a SUBMIT_SHARED says of its memory: the client's arena, the payload and the outputs inside it, which have
/// room. `session` is the one that it is of, if any. The place was read once, into memory of our own.
[[nodiscard]] verdict find_place(const client_record& from, const wire::shared_place& place, const plan& pipeline,
                                 const session_record* session, const submitted& what, std::uint32_t frames,
                                 shared_frames& into);

/// Checks a SUBMIT against the session that its header names; `session` is the client's of that number, nullptr when
/// there is none. For SEQUENCE_GAP the ERROR carries session_record::frames.
[[nodiscard]] verdict check_session(const wire::message_header& header, const session_record* session,
                                    const plan& pipeline, std::int64_t leading);

/// Whether the client has credits for another request of that many bytes.
[[nodiscard]] verdict check_credits(const client_record& client, std::size_t bytes);

/// Whether a pipeline that keeps state takes another request of the client: not while as many as its credits, ended
/// early, still have to go through their sessions.
[[nodiscard]] verdict check_abandoned(const client_record& client);

}  // namespace penstock
