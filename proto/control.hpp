#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "proto/message.hpp"

namespace penstock::wire {

/// Limits of JSON from a peer. What exceeds them is refused before memory is allocated for it.
struct json_bounds {
  std::size_t bytes = 0;
  std::size_t depth = 0;   ///< of nested objects and arrays
  std::size_t values = 0;  ///< texts, numbers, flags, nulls, objects and arrays together
};

/// Of HELLO, OPEN, ATTACH, SUBSCRIBE and SET.
inline constexpr json_bounds request_bounds{.bytes = 4096, .depth = 8, .values = 64};
/// Of WELCOME, STATUS, TRACE, ERROR and the other answers.
inline constexpr json_bounds answer_bounds{.bytes = 65536, .depth = 16, .values = 32768};

/// Reads one JSON value, in O(n log n) of its bytes. Of a repeated key the last one counts. nullopt when the text is
/// not JSON or exceeds the bounds. Throws std::bad_alloc.
[[nodiscard]] std::optional<nlohmann::json> read_json(std::string_view text, const json_bounds& bounds);

inline constexpr std::size_t max_request_body_bytes = 4096;  ///< of the JSON of HELLO, OPEN, ATTACH, SUBSCRIBE, SET
/// Of the JSON of a control message.
[[nodiscard]] constexpr std::size_t max_body_bytes_of(message_type type) noexcept {
  const bool asks = type == message_type::hello || type == message_type::open_session || type == message_type::attach ||
                    type == message_type::subscribe || type == message_type::set_values;
  return asks ? max_request_body_bytes : max_body_bytes;
}

// The JSON bodies of control messages. Unknown keys are skipped. A missing or mistyped key fails the decoding, but for
// keys that were added later: where they are missing, the default stands.

/// Hexadecimal digits of a resume token.
inline constexpr std::size_t resume_token_letters = 32;
/// The end of a WELCOME, in place of its last brace: the body before it is the same for all clients.
[[nodiscard]] std::string resume_keys(const std::string& token, bool resumed);

/// HELLO: who asks.
struct hello {
  std::string client;              ///< a name for people, at most 64 bytes
  std::string version;             ///< of the client library
  std::uint64_t inline_bytes = 0;  ///< a RESULT of at most so many payload bytes may come in one part; 0: none may
  std::string resume{};            ///< the token of an earlier WELCOME, whose place it takes back; "": a new client
};

/// One tensor of a pipeline, as one frame of it has it on the wire (integer IQ: dtype "u8", last dimension 2).
struct tensor_description {
  std::string name;                 ///< "input", or the output's stage
  std::string dtype;                ///< on the wire: "u8", "i64", "bf16", "c64", "bool", ...
  std::string element;              ///< what it means: as dtype, or "cu8", "ci8", "ci16", "cf32"
  std::vector<std::int64_t> shape;  ///< of one frame, without the leading frames dimension
  bool variable = false;            ///< shape[0] is only the most that it can be
  std::string op;                   ///< the operator that makes it; "" for the input
  /// Steps of the pipeline's input that `indices` of shape[0] cover; 1 too where shape[0] does not lie along time.
  std::uint64_t steps = 1;
  std::uint64_t indices = 1;
  std::uint64_t axis = 0;  ///< of the input: which of shape is time
};

struct pipeline_description {
  std::uint32_t id = 0;
  std::string name;
  std::uint32_t max_frames = 0;  ///< of one request
  tensor_description input;      ///< of several, the first
  std::vector<tensor_description> outputs;
  bool keeps_state = false;  ///< frames must belong to a session
  bool ordered = true;       ///< results of a session come in its order
  /// Requests of several frames in a session have a leading extent that is a multiple of it.
  std::uint64_t period = 1;
  std::vector<tensor_description> inputs{};  ///< all, if they are several
};

/// A pipeline that the daemon's configuration has, and that it does not serve.
struct quarantined_pipeline {
  std::string name;
  std::string reason;  ///< a sentence for people
};

/// WELCOME: what the client may use. Credits come back with each terminal reply.
struct welcome {
  std::string server;    ///< "penstockd 0.1.0"
  std::string instance;  ///< changes with every start of the daemon
  std::uint32_t credit_requests = 0;
  std::uint64_t credit_bytes = 0;
  std::uint64_t max_request_bytes = 0;
  std::vector<pipeline_description> pipelines;
  std::uint32_t answering = 0;  ///< the shard that sent this
  std::uint32_t shard = 0;      ///< the shard that this client should use
  /// For each shard the endpoints that it listens on; empty when there is only this one. A host of "*" or "0.0.0.0" is
  /// the host that the client has connected to.
  std::vector<std::vector<std::string>> shards;
  std::uint64_t shared_bytes = 0;  ///< the most memory that this client may share with the daemon; 0: none
  std::uint64_t device_bytes = 0;  ///< the same of the device's own memory
  std::string device{};            ///< whose memory that is: its UUID, 32 hexadecimal digits
  std::uint64_t inline_bytes = 0;  ///< a SUBMIT of at most so many payload bytes may be sent in one part; 0: none may
  std::string resume{};            ///< the client's token, resume_token_letters of them; "": the daemon gives none
  bool resumed = false;            ///< the client still has the place that it had before its HELLO
  std::vector<quarantined_pipeline> quarantined{};
};

/// OPEN: which session.
struct open_session {
  std::uint32_t pipeline = 0;
  std::string name;  ///< the client's own, at most 64 bytes; "" always opens another
};

/// OPENED: its number and next sequence.
struct session_opened {
  std::uint32_t session = 0;
  std::uint64_t next_sequence = 0;
};

/// ATTACH: how much memory to share.
struct attach {
  std::uint64_t bytes = 0;
  bool device = false;  ///< the device's own memory
};

/// ATTACHED: where to fetch the memory, and with which ticket.
struct attached {
  std::string socket;  ///< a path, or "@" and the name of an abstract socket
  std::string ticket;  ///< 32 hexadecimal digits
};

/// SUBSCRIBE: whose results, or requests, and which of them.
struct subscribe {
  std::vector<std::string> pipelines;  ///< names, at least one
  /// Patterns of sessions' names: "*" stands for any letters, "?" for one. Empty: all, also requests of no session.
  std::vector<std::string> sessions{};
  std::vector<std::string> outputs{};  ///< names; empty: all
  std::uint64_t queue_bytes = 0;       ///< what may wait for this subscriber; 0: the daemon's own choice
  bool requests = false;               ///< what was sent, instead of the results; then without `outputs`
};

/// SUBSCRIBED: what the daemon keeps for it.
struct subscribed {
  std::uint64_t queue_bytes = 0;
  std::uint64_t next_sequence = 0;  ///< of the next result that matches
};

/// PUBLISHER: whose results come next, or come no more.
struct publisher {
  std::uint32_t session = 0;  ///< as PUBLISHED has it
  std::string name{};         ///< of its session; "" without one
  std::string client{};       ///< as it said in its HELLO
  std::string pipeline{};
  std::vector<std::string> outputs{};  ///< the tensors of each PUBLISHED, in this order
  bool source = false;                 ///< a source of the daemon itself
  bool ended = false;                  ///< nothing else is told then but the session
};

/// A number of a stage, and what it is to be.
struct number_setting {
  std::string stage;
  std::string name;
  std::optional<double> value;  ///< finite; nullopt: what the pipeline has, from now on
};

/// SET: numbers of a session. All change, or none.
struct set_values {
  std::vector<number_setting> values;  ///< at least one
};

/// A number of a stage that may change, and what it is.
struct number_report {
  std::string stage;
  std::string name;
  double value = 0.0;
  bool own = false;  ///< the session has set it; otherwise it follows the pipeline
};

/// VALUES: all tunable numbers, as they are for the next frames.
struct values_report {
  std::vector<number_report> values;
};

/// ERROR: the reason. `step` is where a request expired or was cancelled; `stage` and `device_error` belong to FAILED.
struct error_body {
  std::string reason;  ///< one sentence for a person
  std::string step;
  std::string stage;
  std::string device_error;
  bool holds = false;  ///< shared memory: the request still has its own, RELEASED follows
};

[[nodiscard]] std::string encode(const hello& body);
[[nodiscard]] std::string encode(const welcome& body);
[[nodiscard]] std::string encode(const error_body& body);
[[nodiscard]] std::string encode(const open_session& body);
[[nodiscard]] std::string encode(const session_opened& body);
[[nodiscard]] std::string encode(const attach& body);
[[nodiscard]] std::string encode(const attached& body);
[[nodiscard]] std::string encode(const subscribe& body);
[[nodiscard]] std::string encode(const subscribed& body);
[[nodiscard]] std::string encode(const publisher& body);
[[nodiscard]] std::string encode(const set_values& body);
[[nodiscard]] std::string encode(const values_report& body);

/// nullopt when the body is not JSON of that form or exceeds its bounds. Throws std::bad_alloc: a body that memory is
/// short for is not malformed.
[[nodiscard]] std::optional<hello> decode_hello(std::span<const std::byte> body);
[[nodiscard]] std::optional<welcome> decode_welcome(std::span<const std::byte> body);
[[nodiscard]] std::optional<error_body> decode_error_body(std::span<const std::byte> body);
[[nodiscard]] std::optional<open_session> decode_open_session(std::span<const std::byte> body);
[[nodiscard]] std::optional<session_opened> decode_session_opened(std::span<const std::byte> body);
[[nodiscard]] std::optional<attach> decode_attach(std::span<const std::byte> body);
[[nodiscard]] std::optional<attached> decode_attached(std::span<const std::byte> body);
[[nodiscard]] std::optional<subscribe> decode_subscribe(std::span<const std::byte> body);
[[nodiscard]] std::optional<subscribed> decode_subscribed(std::span<const std::byte> body);
[[nodiscard]] std::optional<publisher> decode_publisher(std::span<const std::byte> body);
[[nodiscard]] std::optional<set_values> decode_set_values(std::span<const std::byte> body);
[[nodiscard]] std::optional<values_report> decode_values(std::span<const std::byte> body);
/// Of HELLO, OPEN, ATTACH, SUBSCRIBE and SET, which their readers refuse: what is wrong with it, "key 'client' is
/// missing".
[[nodiscard]] std::string fault_of_request(message_type type, std::span<const std::byte> body);
/// Whether it is a JSON object within the bounds of an answer, as STATUS and TRACE must be. Throws std::bad_alloc.
[[nodiscard]] bool is_answer(std::span<const std::byte> body);

}  // namespace penstock::wire
