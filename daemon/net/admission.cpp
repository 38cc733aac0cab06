#include "daemon/net/admission.hpp"

#include <algorithm>

#include "daemon/request/wire_tensor.hpp"
#include "daemon/shm/segment.hpp"
#include "proto/control.hpp"

namespace penstock {
namespace {

using wire::status;

verdict refuse(status code, std::string reason) {
  return {code, std::move(reason)};
}

std::string text_of(const wire::tensor_header& tensor) {
  std::string text = "[";
  for (const std::int64_t extent : tensor.extents()) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

// The shape that a pipeline takes. If it is variable, the second dimension is a range.
std::string text_of(const wire::tensor_header& tensor, bool variable) {
  const std::string text = text_of(tensor);
  const std::size_t second = text.find(' ');
  return variable && second != text.npos ? text.substr(0, second) + " 1 to" + text.substr(second) : text;
}

std::string counted_frames(std::uint32_t frames) {
  return std::to_string(frames) + (frames == 1 ? " frame" : " frames");
}

std::string text_of(wire::data_type type) {
  const char* const kinds[] = {"int", "uint", "float", "code 3", "code 4", "complex"};
  return (type.code < std::size(kinds) ? kinds[type.code] : "code " + std::to_string(type.code)) +
         std::to_string(type.bits);
}

status status_of(wire::decode_error error) noexcept {
  switch (error) {
    case wire::decode_error::none:
      return status::ok;
    case wire::decode_error::unsupported_version:
      return status::unsupported_version;
    case wire::decode_error::bad_tensor:
      return status::wrong_shape;
    case wire::decode_error::too_many_tensors:
      return status::too_large;
    default:
      return status::malformed;
  }
}

// The length of the frames of "max N": as the first tensor has it, if it may be that.
std::int64_t leading_of(const wire::tensor_header& first, const tensor_spec& spec) noexcept {
  const bool says =
      spec.variable && first.dimensions >= 2 && first.shape[1] >= 1 && first.shape[1] <= spec.shape.front();
  return says ? first.shape[1] : spec.shape.front();
}

verdict check_shape(const wire::tensor_header& tensor, const wire::message_header& header, const plan& pipeline,
                    std::size_t input, std::int64_t leading) {
  const tensor_spec& spec = pipeline.buffers[input].spec;
  const auto takes = [&] {
    return "pipeline '" + pipeline.declaration.name + "' takes " + spec.text() +
           (pipeline.inputs == 1 ? "" : " as '" + pipeline.buffers[input].name + "'");
  };
  const wire::tensor_header expected = wire_header(spec, header.frames, leading);
  if (tensor.type != expected.type) {
    return refuse(status::wrong_dtype,
                  takes() + ", which travels as " + text_of(expected.type) + "; the tensor is " + text_of(tensor.type));
  }
  if (tensor.dimensions != expected.dimensions || tensor.shape != expected.shape) {
    // Of further inputs the length is that of the first.
    const bool any_length = spec.variable && input == 0;
    const std::int64_t shown = any_length ? spec.shape.front() : leading;
    return refuse(status::wrong_shape, takes() + ": for " + counted_frames(header.frames) + " the tensor's shape is " +
                                           text_of(wire_header(spec, header.frames, shown), any_length) + ", not " +
                                           text_of(tensor));
  }
  return {};
}

verdict check_parts(const incoming& message, const wire::message_header& header, const plan& pipeline) {
  const bool inlined = header.type == wire::message_type::submit && message.parts == 1;
  const std::size_t parts = header.type == wire::message_type::submit ? 1 + pipeline.inputs : 2;
  if (pipeline.inputs != 1 && (header.tensors != pipeline.inputs || (message.parts != parts && !inlined))) {
    std::string names;
    for (std::size_t input = 0; input < pipeline.inputs; ++input) {
      names += (input == 0 ? "" : ", ") + pipeline.buffers[input].name;
    }
    return refuse(status::malformed,
                  "pipeline '" + pipeline.declaration.name + "' takes " + std::to_string(pipeline.inputs) +
                      " tensors (" + names + ") in " + std::to_string(parts) + " parts; this message announces " +
                      std::to_string(header.tensors) + " tensors in " + std::to_string(message.parts) + " parts");
  }
  if (pipeline.inputs == 1 && (header.tensors != 1 || (message.parts != 2 && !inlined))) {
    const char* const right =
        header.type == wire::message_type::submit
            ? "a SUBMIT has one tensor and so two parts, or one with the payload behind its headers"
            : "a SUBMIT_SHARED has one tensor, and two parts";
    return refuse(status::malformed, std::string(right) + "; this one announces " + std::to_string(header.tensors) +
                                         " tensors in " + std::to_string(message.parts) + " parts");
  }
  if (inlined && message.body.size() > wire::max_inline_bytes) {
    return refuse(status::too_large, "behind the headers of part 0 lie " + std::to_string(message.body.size()) +
                                         " bytes; a payload of more than " + std::to_string(wire::max_inline_bytes) +
                                         " has a part of its own");
  }
  return {};
}

// The tensors after the first, of a pipeline with several inputs.
verdict check_further(const incoming& message, const wire::message_header& header, const plan& pipeline,
                      request_tracker::submission& submission) {
  for (std::size_t input = 1; input < pipeline.inputs; ++input) {
    wire::tensor_header tensor;
    if (const wire::decode_error error = wire::decode_tensor(message.head, header, input, tensor);
        error != wire::decode_error::none) {
      return refuse(status_of(error), std::string(wire::text_of(error)));
    }
    if (verdict wrong = check_shape(tensor, header, pipeline, input, submission.leading); !wrong.admitted()) {
      return wrong;
    }
    submission.bytes += tensor.bytes;
    if (!message.more.empty() && message.more[input - 1].size() != tensor.bytes) {
      return refuse(status::wrong_shape, "the header of tensor '" + pipeline.buffers[input].name + "' says " +
                                             std::to_string(tensor.bytes) + " bytes, its payload has " +
                                             std::to_string(message.more[input - 1].size()));
    }
  }
  return {};
}

}  // namespace

verdict read_header(incoming& message, const client_settings& limits, wire::message_header& header) {
  const wire::decode_error error = wire::decode(message.head, header);
  if (error != wire::decode_error::none) {
    std::string reason(wire::text_of(error));
    if (error == wire::decode_error::unsupported_version) {
      // A range, so that the text stays right when there are two.
      const std::string only = std::to_string(wire::major_version);
      reason += "; this daemon speaks versions " + only + " to " + only;
    }
    return refuse(status_of(error), std::move(reason));
  }
  if (message.parts > 1 + std::max<std::size_t>(header.tensors, 1)) {
    return refuse(status::malformed, "the message has " + std::to_string(message.parts) +
                                         " parts; its header announces " + std::to_string(header.tensors) + " tensors");
  }
  if (header.type == wire::message_type::submit && message.parts == 1) {
    message.body = wire::inline_payloads(message.head, header);
    message.bytes = message.body.size();
  }
  const bool data = header.type == wire::message_type::submit || header.type == wire::message_type::submit_shared;
  const std::size_t most = data ? limits.max_request_bytes : wire::max_body_bytes_of(header.type);
  if (message.bytes > most) {
    return refuse(status::too_large, "the message has " + std::to_string(message.bytes) +
                                         " bytes of payload; at most " + std::to_string(most) + " are taken");
  }
  return {};
}

verdict check_submit(const incoming& message, const wire::message_header& header, const plan& pipeline,
                     request_tracker::submission& submission) {
  if (verdict wrong = check_parts(message, header, pipeline); !wrong.admitted()) {
    return wrong;
  }
  wire::tensor_header tensor;
  if (const wire::decode_error error = wire::decode_tensor(message.head, header, 0, tensor);
      error != wire::decode_error::none) {
    return refuse(status_of(error), std::string(wire::text_of(error)));
  }
  submission.leading = leading_of(tensor, pipeline.input());
  if (header.frames == 0) {
    return refuse(status::wrong_shape, "a request has at least one frame");
  }
  if (header.frames > pipeline.max_frames) {
    return refuse(status::too_large, "the request has " + std::to_string(header.frames) + " frames; pipeline '" +
                                         pipeline.declaration.name + "' takes at most " +
                                         std::to_string(pipeline.max_frames) + " in one request");
  }
  if (verdict wrong = check_shape(tensor, header, pipeline, 0, submission.leading); !wrong.admitted()) {
    return wrong;
  }
  submission.bytes = tensor.bytes;
  if (pipeline.inputs != 1) {
    if (verdict wrong = check_further(message, header, pipeline, submission); !wrong.admitted()) {
      return wrong;
    }
  }
  if (wire::sample_account account; wire::decode_account(message.head, header, account)) {
    submission.account = account;
  }
  const std::size_t first = message.parts == 1 ? submission.bytes : tensor.bytes;
  if (header.type == wire::message_type::submit && message.body.size() != first) {
    return refuse(status::wrong_shape, "the tensor's header says " + std::to_string(first) +
                                           " bytes, its payload has " + std::to_string(message.body.size()));
  }
  return {};
}

verdict check_session(const wire::message_header& header, const session_record* session, const plan& pipeline,
                      std::int64_t leading) {
  const std::string& name = pipeline.declaration.name;
  if (header.session == 0) {
    return pipeline.keeps_state()
               ? refuse(status::session_required,
                        "pipeline '" + name + "' keeps state: open a session and submit its frames in order")
               : verdict{};
  }
  if (session == nullptr) {
    return refuse(status::session_lost, "there is no session " + std::to_string(header.session) +
                                            ": it was closed, idle too long, or of an earlier daemon");
  }
  if (session->pipeline != &pipeline) {
    return refuse(status::malformed, "session " + std::to_string(header.session) + " is one of pipeline '" +
                                         session->pipeline->declaration.name + "', not '" + name + "'");
  }
  if (header.frames > 1 && leading % pipeline.period != 0) {
    const std::string allowed = pipeline.period <= pipeline.input().shape.front()
                                    ? "need a length that is a multiple of " + std::to_string(pipeline.period) +
                                          ", not " + std::to_string(leading)
                                    : "are never sent together";
    return refuse(status::wrong_shape, "several frames of a session in one request to pipeline '" + name + "' " +
                                           allowed + "; send one longer frame instead");
  }
  if (header.sequence > session->frames) {
    return refuse(status::sequence_gap, "frames " + std::to_string(session->frames) + " to " +
                                            std::to_string(header.sequence - 1) + " of the session are missing");
  }
  if (header.sequence < session->frames) {
    return refuse(status::reply_gone, "frame " + std::to_string(header.sequence) +
                                          " of the session was taken before, and its reply is no longer kept");
  }
  return {};
}

verdict check_credits(const client_record& client, std::size_t bytes) {
  if (client.requests >= client.granted_requests) {
    return refuse(status::no_credit,
                  "all " + std::to_string(client.granted_requests) + " requests that were granted are in flight");
  }
  if (bytes > client.granted_bytes - std::min(client.bytes, client.granted_bytes)) {
    return refuse(status::no_credit, "with this request more than the " + std::to_string(client.granted_bytes) +
                                         " bytes that were granted would be in flight");
  }
  return {};
}

verdict check_abandoned(const client_record& client) {
  if (client.abandoned_requests >= client.granted_requests || client.abandoned_bytes > client.granted_bytes) {
    return refuse(status::no_credit, std::to_string(client.abandoned_requests) +
                                         " requests that expired or were cancelled still go through their sessions");
  }
  return {};
}

admission::decision admission::decide(const incoming& message, const wire::message_header& header,
                                      client_record& client) {
  decision made;
  made.sequence = header.sequence;
  // Ids count up as a rule, and one greater than any before is no repeat.
  if (header.request_id <= client.latest) {
    if (client.in_flight.find(header.request_id) != nullptr) {
      made.result = outcome::repeat_in_flight;
      return made;
    }
    if (replies_.kept(client, header.request_id)) {
      made.result = outcome::repeat_finished;
      return made;
    }
    if (is_held(client, header.request_id)) {
      made.result = outcome::repeat_held;
      return made;
    }
  }
  made.refusal = judge(message, header, client, made);
  made.result = made.refusal.admitted() ? outcome::accepted : outcome::refused;
  return made;
}

bool admission::is_held(const client_record& client, std::uint64_t request_id) noexcept {
  return std::find(client.held.begin(), client.held.end(), request_id) != client.held.end();
}

verdict admission::no_such_pipeline(std::uint32_t id, std::uint32_t session) const {
  const std::string removed = served_.why_removed(id);
  if (!removed.empty() && session != 0) {
    return {status::session_lost, "session " + std::to_string(session) + " is lost: " + removed};
  }
  return {status::unknown_pipeline, (removed.empty() ? "there is no pipeline " + std::to_string(id) : removed) +
                                        "; WELCOME lists " + std::to_string(served_.in_order.size())};
}

verdict admission::judge(const incoming& message, const wire::message_header& header, client_record& client,
                         decision& made) {
  if (!closed_.admitted()) {
    return closed_;
  }
  request_tracker::submission& submission = made.submission;
  submission.pipeline = served_.find(header.pipeline);
  if (submission.pipeline == nullptr) {
    return no_such_pipeline(header.pipeline, header.session);
  }
  const plan& pipeline = *submission.pipeline;
  const bool shared = header.type == wire::message_type::submit_shared;
  if (verdict wrong = check_submit(message, header, pipeline, submission); !wrong.admitted()) {
    return wrong;
  }
  if (verdict wrong = judge_session(header, client, made); !wrong.admitted()) {
    return wrong;
  }
  if (shared) {
    if (verdict wrong = find_shared(message, header, client, submission); !wrong.admitted()) {
      return wrong;
    }
  }
  if (pipeline.keeps_state()) {
    if (verdict wrong = check_abandoned(client); !wrong.admitted()) {
      return wrong;
    }
  }
  if (pipeline.is_tuned()) {
    submission.numbers = submission.session != nullptr ? submission.session->numbers : numbers_.of(pipeline);
  }
  return make_room(client, pipeline, shared ? 0 : submission.bytes);
}

verdict admission::judge_session(const wire::message_header& header, const client_record& client,
                                 decision& made) const {
  request_tracker::submission& submission = made.submission;
  submission.session = header.session != 0 ? sessions_.find(header.session, client) : nullptr;
  verdict judged = check_session(header, submission.session, *submission.pipeline, submission.leading);
  if (judged.code == status::session_lost) {
    if (const std::string why = sessions_.why_lost(header.session, client); !why.empty()) {
      judged = {status::session_lost, "session " + std::to_string(header.session) + " is lost: " + why};
    }
  } else if (judged.code == status::sequence_gap) {
    made.sequence = submission.session->frames;
  }
  return judged;
}

// Finds the input and the outputs of a SUBMIT_SHARED in the client's memory. The place was copied when it was received,
// so the client can't change it after the check.
verdict admission::find_shared(const incoming& message, const wire::message_header& header, const client_record& client,
                               request_tracker::submission& submission) {
  wire::shared_place place;
  if (!wire::decode(message.body, place)) {
    return refuse(status::malformed, "the place of a SUBMIT_SHARED has " + std::to_string(wire::shared_place_bytes) +
                                         " bytes; this one has " + std::to_string(message.body.size()));
  }
  // In a session the sequence tells whether it has run.
  if (place.repeat && submission.session == nullptr) {
    return refuse(status::unknown_repeat, "a request of this id is neither in flight nor kept; it was not run again");
  }
  client_arena* const arena = client.arena(place.arena);
  if (arena == nullptr) {
    return refuse(status::unknown_arena, "this client shares no memory of number " + std::to_string(place.arena));
  }
  if (place.input % wire::place_alignment != 0 || place.output % wire::place_alignment != 0) {
    return refuse(status::bad_place, "input and output begin at multiples of " + std::to_string(wire::place_alignment) +
                                         " in shared memory");
  }
  std::uint64_t taken = submission.bytes;
  if (submission.pipeline->inputs != 1) {
    taken = 0;
    for (std::size_t input = 0; input < submission.pipeline->inputs; ++input) {
      taken = wire::room_for(taken) + submission.pipeline->buffers[input].pitch(submission.leading) * header.frames;
    }
  }
  if (!arena->contains(place.input, taken) || !arena->contains(place.output, place.output_bytes)) {
    return refuse(status::bad_place, "the place is not inside the " + std::to_string(arena->bytes()) +
                                         " bytes that are shared under number " + std::to_string(place.arena));
  }
  const plan& pipeline = *submission.pipeline;
  const std::int64_t before = submission.session != nullptr ? submission.session->steps : 0;
  std::uint64_t needed = 0;
  for (std::size_t output = 0; output < pipeline.outputs.size(); ++output) {
    needed = wire::room_for(needed) +
             extent_of(pipeline.output_buffer(output), before, submission.leading, header.frames).bytes;
  }
  if (place.output_bytes < needed) {
    return refuse(status::bad_place, "the outputs take " + std::to_string(needed) + " bytes; the place has " +
                                         std::to_string(place.output_bytes));
  }
  submission.shared = {
      .arena = arena, .input = arena->at(place.input), .output = arena->at(place.output), .held = false};
  return {};
}

// With drop-oldest, a request beyond the credits replaces the client's oldest ones that still wait.
verdict admission::make_room(client_record& client, const plan& pipeline, std::size_t bytes) {
  verdict judged = check_credits(client, bytes);
  if (pipeline.declaration.overflow != overflow_policy::drop_oldest || bytes > client.granted_bytes) {
    return judged;
  }
  while (!judged.admitted()) {
    request* const oldest = scheduler_.oldest_queued(client, pipeline);
    if (oldest == nullptr) {
      break;
    }
    scheduler_.end(*oldest, status::overflow, "dropped for a newer request of the same client");
    judged = check_credits(client, bytes);
  }
  return judged;
}

}  // namespace penstock
