#include "proto/status.hpp"

#include <algorithm>
#include <array>

namespace penstock::wire {
namespace {

constexpr std::array table{
    status_entry{status::ok, "OK", "The request has its result."},
    status_entry{status::rejected, "REJECTED", "The request was refused, for no more specific reason."},
    status_entry{status::malformed, "MALFORMED", "The message can't be read: magic, lengths, counts or body."},
    status_entry{status::unsupported_version, "UNSUPPORTED_VERSION", "The message has another major version."},
    status_entry{status::unsupported_type, "UNSUPPORTED_TYPE",
                 "There is no such message type, or a client may not send it."},
    status_entry{status::hello_required, "HELLO_REQUIRED",
                 "The daemon does not know this client (any more): send HELLO, then the message again."},
    status_entry{status::unknown_pipeline, "UNKNOWN_PIPELINE", "No pipeline has that number."},
    status_entry{status::wrong_dtype, "WRONG_DTYPE", "The tensor's data type is not the pipeline's."},
    status_entry{status::wrong_shape, "WRONG_SHAPE", "The tensor's shape is not the pipeline's, or not its size."},
    status_entry{status::too_large, "TOO_LARGE", "More frames, parts or bytes than one request may have."},
    status_entry{status::no_credit, "NO_CREDIT", "More requests or bytes in flight than were granted."},
    status_entry{status::overflow, "OVERFLOW", "Accepted, then dropped for a newer request."},
    status_entry{status::too_many_clients, "TOO_MANY_CLIENTS",
                 "The daemon has as many clients as it takes. A place may be free soon: HELLO can be sent again."},
    status_entry{status::session_required, "SESSION_REQUIRED",
                 "The pipeline keeps state: its frames must belong to a session."},
    status_entry{status::sequence_gap, "SEQUENCE_GAP",
                 "Frames of the session are missing before these; the header's sequence is the expected one."},
    status_entry{status::reply_gone, "REPLY_GONE",
                 "A repeat of session frames whose reply is no longer kept; they are not run twice."},
    status_entry{status::too_many_sessions, "TOO_MANY_SESSIONS", "Every place for a session is taken."},
    status_entry{status::unknown_arena, "UNKNOWN_ARENA",
                 "This client shares no such memory with the daemon (any more)."},
    status_entry{status::bad_place, "BAD_PLACE",
                 "The place is not inside the shared memory, not at a multiple of 64, or too small."},
    status_entry{status::unknown_repeat, "UNKNOWN_REPEAT",
                 "A repeat of a request in shared memory that is neither in flight nor kept; it was not run."},
    status_entry{status::unknown_value, "UNKNOWN_VALUE",
                 "The pipeline has no such stage, or the stage no such number."},
    status_entry{status::not_tunable, "NOT_TUNABLE", "The pipeline does not let this number change."},
    status_entry{status::out_of_range, "OUT_OF_RANGE", "The stage does not take this value."},
    status_entry{status::expired, "EXPIRED", "The request's timeout ran out; the body names the step."},
    status_entry{status::cancelled, "CANCELLED", "The client cancelled the request; the body names the step."},
    status_entry{status::failed, "FAILED", "The device or an operator failed; the body names the error and the stage."},
    status_entry{status::device_failed, "DEVICE_FAILED", "The device is lost; the daemon restarts."},
    status_entry{status::shutdown, "SHUTDOWN", "The daemon is stopping."},
    status_entry{status::session_lost, "SESSION_LOST",
                 "The daemon does not hold this session (any more): open another and begin anew."},
};

}  // namespace

std::span<const status_entry> status_table() noexcept {
  return table;
}

std::string_view name_of(status code) noexcept {
  const auto* const found = std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.code == code; });
  return found != table.end() ? found->name : name_of(kind_of(code));
}

std::string_view name_of(status_kind kind) noexcept {
  constexpr std::array<std::string_view, status_kinds> names{"OK",     "REJECTED", "EXPIRED",     "CANCELLED",
                                                             "FAILED", "SHUTDOWN", "SESSION_LOST"};
  const auto index = static_cast<std::size_t>(kind);
  return index < names.size() ? names[index] : std::string_view{"UNKNOWN"};
}

}  // namespace penstock::wire
