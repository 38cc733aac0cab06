#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <penstock/client_options.hpp>
#include <penstock/export.hpp>
#include <penstock/lent_memory.hpp>
#include <penstock/pipeline_info.hpp>
#include <penstock/request_error.hpp>
#include <penstock/result.hpp>

namespace penstock {

class session;  // <penstock/session.hpp>

/// What a completion is given: exactly one of the two.
using outcome = std::variant<result, request_error>;
/// Runs once for each accepted request, on the client's own thread: it must be short and should not throw, which is
/// counted and otherwise ignored. It may call
/// try_submit, submit (which then never waits) and cancel; it must not destroy the client or wait for another reply.
using completion = std::function<void(outcome&&)>;

/// What a client has done since it was made.
struct client_counters {
  std::uint64_t submitted = 0;          ///< requests taken from callers
  std::uint64_t results = 0;            ///< ended with a result
  std::uint64_t errors = 0;             ///< ended with an error
  std::uint64_t sent_again = 0;         ///< requests repeated after silence or a new connection
  std::uint64_t hellos = 0;             ///< greetings sent
  std::uint64_t unmatched_replies = 0;  ///< replies to nothing that was in flight: repeats, or too late
  std::uint64_t malformed_replies = 0;  ///< messages that could not be read, or made no sense
  std::uint64_t shared = 0;             ///< of `submitted`: those that went through shared memory at first
  std::uint64_t thrown = 0;             ///< completions that threw; what they threw is dropped
  std::uint64_t unshared = 0;           ///< of `submitted`: large ones that found no room there; 0 with transport::zmq
};

/// The memory that a client shares with its daemon now.
struct shared_memory_info {
  std::uint64_t bytes = 0;       ///< 0: there is none, and all goes over ZeroMQ
  std::uint64_t used_bytes = 0;  ///< by requests, results and lent memory
  std::string absence;           ///< why there is none; "" while there is one, or none was asked for
};

/// The daemon's recent batches, and where to ask on.
struct trace_page {
  std::string json;  ///< {"batches": [...]}, oldest first; empty when there is nothing newer
  std::uint64_t next_cursor = 0;
};

/// A connection to one daemon, for as long as it lives the same client to it, whatever happens to the network.
///
/// Threads: every member may be called from any thread at once, but for the destructor, which comes after all others
/// have returned. One thread of its own does all input and output.
/// Delivery: each request that submit took ends exactly once, with a result or with an error. It is repeated under the
/// same request id while the daemon is silent, and after a restart of the daemon, until its timeout.
/// Flow: the daemon grants credits, in requests and in bytes; submit waits while they are used up.
/// Shards: where the daemon runs several, the first welcome names this client's, and the client moves there by itself;
/// one whose options say that it `stays` does not.
/// Shared memory: with a daemon on the same machine large requests and their results go through memory that both see.
/// It is asked for with the first of them; that one, and what finds no room there, goes over ZeroMQ. What was on its
/// way there when the daemon was restarted, or shared no more, is sent again over ZeroMQ. Because of that a request's
/// bytes count for the credits whichever way they go.
/// Forks: a process that is forked can't use its parent's client, nor its sessions: what sends or asks throws
/// request_error there, and the destructor does nothing. Make another client there.
class PENSTOCK_EXPORT client {
 public:
  /// One or more frames for one pipeline.
  struct request {
    /// frames × the pipeline's frame, row-major, little-endian. Where they lie in lent memory, 64 bytes × any number
    /// from its beginning, they are not copied, and must stay as they are until there is a result or
    /// `release` is called: a request that expired or was cancelled may still be under way (lent_memory).
    std::span<const std::byte> bytes;
    std::uint32_t frames = 1;
    /// The leading extent of each frame, for a pipeline whose input is variable; 0 = the most.
    std::int64_t leading = 0;
    /// One budget from submit to reply; 0 = none; unset = the client's request_timeout. Below 0 it is over: submit
    /// throws.
    std::optional<std::chrono::nanoseconds> timeout;
    /// 0 = the client chooses; else one from reserve_id, so that it can be cancelled.
    std::uint64_t id = 0;
    /// Empty: the bytes are copied before submit returns. Else they must stay as they are until this is called, once,
    /// from any thread: over ZeroMQ they are sent from where they lie, though up to 4 KiB may be copied. When submit
    /// throws or takes nothing it is not called. What it throws is ignored.
    std::function<void()> release;
    /// Goes with the request through the daemon's logs and timelines.
    std::array<std::byte, 16> trace_id{};
  };

  /// Connects, and waits for the daemon's welcome and, with the transport shared_memory, for memory to share with it.
  /// Throws connect_error, which says what is there instead of a daemon, or which option is wrong.
  explicit client(client_options options = {});
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  /// Says goodbye. What is still in flight ends with kind shutdown before this returns, which is within `linger`.
  ~client();

  [[nodiscard]] server_info server() const;
  [[nodiscard]] std::vector<pipeline_info> pipelines() const;

  /// Sends a request. Waits for credit, at most until the request's timeout.
  /// Throws request_error, and sends nothing, when the pipeline is unknown or keeps state (open a session then), the
  /// bytes are not what it takes, no credit came in time, or the client is being destroyed. The future's error is a
  /// request_error too.
  [[nodiscard]] std::future<result> submit(std::string_view pipeline, request what);
  /// The same for high rates; returns the request's id. Throws as above, and then `done` is never called.
  std::uint64_t submit(std::string_view pipeline, request what, completion done);
  /// The same, but never waits: nullopt when the credits are used up.
  [[nodiscard]] std::optional<std::future<result>> try_submit(std::string_view pipeline, request what);
  [[nodiscard]] std::optional<std::uint64_t> try_submit(std::string_view pipeline, request what, completion done);

  /// Memory of at least so many bytes that is shared with the daemon, to write frames into. Nothing where there is none
  /// or none is left; then any other memory does. The first call, and one that finds no room, waits until it is known
  /// whether there is any, at most 5 s and not in a completion.
  [[nodiscard]] std::optional<lent_memory> lend(std::size_t bytes);
  [[nodiscard]] shared_memory_info shared_memory() const;

  /// Opens a session on a pipeline; include <penstock/session.hpp>. The name is for people and unlike those of the
  /// other sessions that this client has open there; "" makes a random one. Throws request_error when the pipeline is
  /// unknown, the name is in use, the daemon has no place left, or it did not answer within the client's
  /// request_timeout.
  [[nodiscard]] session open_session(std::string_view pipeline, std::string_view name = "");

  /// A request id that no other request of this client will have.
  [[nodiscard]] std::uint64_t reserve_id() noexcept;
  /// Asks the daemon to give a request up. It still ends exactly once: with kind cancelled, or as it did before.
  void cancel(std::uint64_t id);

  /// The time from sending a PING to its PONG. Throws request_error of kind expired when none came in time.
  [[nodiscard]] std::chrono::nanoseconds ping(std::chrono::nanoseconds timeout = std::chrono::seconds{5});
  /// The daemon's counters, as JSON. Throws as ping does.
  [[nodiscard]] std::string status_json(std::chrono::nanoseconds timeout = std::chrono::seconds{5});

  /// The daemon's recent batches, for tools: cursor 0 asks from the oldest that it keeps, next_cursor for those since.
  /// Throws as ping does.
  [[nodiscard]] trace_page trace(std::uint64_t cursor = 0, std::chrono::nanoseconds timeout = std::chrono::seconds{5});

  [[nodiscard]] client_counters counters() const noexcept;

 private:
  friend class session;
  class implementation;
  std::unique_ptr<implementation> self_;
};

}  // namespace penstock
