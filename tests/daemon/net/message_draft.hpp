#pragma once

#include <optional>
#include <span>
#include <string>

#include "daemon/net/admission.hpp"

namespace penstock::testing {

/// A SUBMIT of two frames for a pipeline of u8[max 16], right unless a row changes it, and what it costs to be wrong.
struct message_draft {
  wire::message_header header;
  wire::tensor_header tensor;
  std::string payload = std::string(32, 'x');
  std::size_t parts = 2;
  std::size_t extra_bytes = 0;  // of further parts
  std::size_t head_bytes = wire::part_bytes(1);
  bool break_magic = false;
  std::optional<wire::sample_account> account{};

  message_draft() {
    header.type = wire::message_type::submit;
    header.request_id = 5;
    header.tensors = 1;
    header.frames = 2;
    tensor.type = wire::uint8_type;
    tensor.dimensions = 2;
    tensor.shape = {2, 16};
    tensor.bytes = 32;
  }
};

/// Judges as message handler does: the header first, then the SUBMIT. The head lies at an odd address, as it may.
struct judgement {
  verdict said;
  wire::message_header header;
  request_tracker::submission what;
};
inline judgement judge(const message_draft& draft, const plan& pipeline, const client_settings& limits = {}) {
  wire::message_header header = draft.header;
  const std::size_t account_bytes = draft.account ? wire::sample_account_bytes : 0;
  header.header_len = static_cast<std::uint16_t>(header.header_len + account_bytes);
  std::string head(wire::part_bytes(1) + account_bytes + 1, '\0');
  wire::encode(header, std::as_writable_bytes(std::span(head)).subspan(1));
  if (draft.account) {
    wire::encode(*draft.account, std::as_writable_bytes(std::span(head)).subspan(1 + wire::header_bytes));
  }
  const std::size_t tensor_at = 1 + wire::header_bytes + account_bytes;
  wire::encode(draft.tensor, std::as_writable_bytes(std::span(head)).subspan(tensor_at));
  if (draft.break_magic) {
    head[1] = 'Q';
  }
  head.resize(1 + draft.head_bytes + account_bytes, '\0');
  incoming message;
  message.parts = draft.parts;
  if (draft.parts == 1) {
    head += draft.payload;
  } else {
    message.body = std::as_bytes(std::span(draft.payload));
    message.bytes = draft.payload.size() + draft.extra_bytes;
  }
  message.head = std::as_bytes(std::span(head)).subspan(1);
  judgement made;
  made.said = read_header(message, limits, made.header);
  if (made.said.admitted()) {
    made.said = check_submit(message, made.header, pipeline, made.what);
  }
  return made;
}

}  // namespace penstock::testing
