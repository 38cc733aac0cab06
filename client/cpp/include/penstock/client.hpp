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
#include <penstock/sample_account.hpp>

namespace penstock {

class session;       // <penstock/session.hpp>
class subscription;  // <penstock/subscription.hpp>
struct subscribe_options;
struct published;

/// The end of a request: exactly one of the two.
using outcome = std::variant<result, request_error>;
/// Called once for each accepted request, on the client's own thread. It must be short. It may call try_submit, submit
/// (which then never blocks) and cancel; it must not destroy the client or wait for another reply. Exceptions are
/// counted and ignored.
using completion = std::function<void(outcome&&)>;

/// Counters since the client was created.
struct client_counters {
  std::uint64_t submitted = 0;          ///< accepted requests
  std::uint64_t results = 0;            ///< requests that ended with a result
  std::uint64_t errors = 0;             ///< requests that ended with an error
  std::uint64_t sent_again = 0;         ///< repeats after silence or a reconnection
  std::uint64_t hellos = 0;             ///< HELLOs sent
  std::uint64_t unmatched_replies = 0;  ///< replies without a request in flight: duplicates, or late
  std::uint64_t malformed_replies = 0;  ///< malformed messages
  std::uint64_t shared = 0;             ///< of `submitted`: first sent through shared memory
  std::uint64_t thrown = 0;             ///< completions that threw
  std::uint64_t unshared = 0;  ///< of `submitted`: large ones without room in shared memory; 0 with transport::zmq
};

/// The memory that a client shares with its daemon at present.
struct shared_memory_info {
  std::uint64_t bytes = 0;       ///< 0: none, everything goes over ZeroMQ
  std::uint64_t used_bytes = 0;  ///< by requests, results and lent memory
  std::string absence;           ///< why there is none; "" while there is one, or before the first use
};

/// A page of the daemon's recent batches.
struct trace_page {
  std::string json;  ///< {"batches": [...]}, oldest first; empty when there is nothing newer
  std::uint64_t next_cursor = 0;
};

/// A client of one daemon. It keeps its identity across reconnections.
///
/// Threads: all members are thread-safe, except the destructor, which must be called after all others have returned.
/// One thread of the client does all I/O. Delivery: each accepted request ends exactly once, with a result or an error.
/// While the daemon is silent, and after a restart of the daemon, it is sent again under the same request id until its
/// timeout. Flow control: the daemon grants credits, in requests and in bytes; submit blocks while they are used up.
/// Shards: if the daemon runs several, the client connects to the one that the first WELCOME assigns, unless
/// client_options::stays is set.
/// Shared memory: with a daemon on the same machine, large requests and their results go through shared memory. The
/// first such request asks for it; that one, and those that find no room, go over ZeroMQ. When the daemon restarts or
/// ends the sharing, requests in flight are sent again over ZeroMQ. So a request's bytes count for the credits either
/// way. Forks: a forked process can't use its parent's clients and sessions: members that communicate throw
/// request_error, and the destructor does nothing. Create a client after the fork.
class PENSTOCK_EXPORT client {
 public:
  /// One or more frames for a pipeline.
  struct request {
    /// The frames, row-major, little-endian; of a pipeline with several inputs all frames of the first, then those of
    /// the next, without a gap (they go over ZeroMQ). Bytes in lent memory, at a multiple of 64 bytes from its start,
    /// are not copied: they must not change until there is a result or `release` is called, because an expired or
    /// cancelled request may still be in flight (see lent_memory).
    std::span<const std::byte> bytes;
    std::uint32_t frames = 1;
    /// Leading extent of each frame, for a pipeline with variable input; 0 = the maximum.
    std::int64_t leading = 0;
    /// Time from submit to reply; 0 = unlimited; nullopt = the client's request_timeout. Below 0 submit throws.
    std::optional<std::chrono::nanoseconds> timeout;
    /// 0 = chosen by the client; otherwise from reserve_id, so that the request can be cancelled.
    std::uint64_t id = 0;
    /// Empty: submit copies the bytes. Otherwise they are sent without a copy (up to 4 KiB may be copied) and must not
    /// change until this is called, once, on any thread. Not called when submit throws or accepts nothing. Exceptions
    /// are ignored.
    std::function<void()> release;
    /// Identifies the request in the daemon's logs and timelines.
    std::array<std::byte, 16> trace_id{};
    /// Which samples these are, which the result then repeats and maps to its outputs.
    std::optional<sample_account> account{};
  };

  /// Connects and waits for the daemon's WELCOME and, with transport::shared_memory, for shared memory. Throws
  /// connect_error, which says what is wrong at the address or with which option.
  explicit client(client_options options = {});
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  /// Ends everything in flight with kind shutdown and sends GOODBYE. Takes at most client_options::linger.
  ~client();

  [[nodiscard]] server_info server() const;
  [[nodiscard]] std::vector<pipeline_info> pipelines() const;

  /// Sends a request. Waits for credit until the request's timeout. Throws request_error, and sends nothing, when the
  /// pipeline is unknown or keeps state (then open a session), when the bytes do not match it, without credit in time,
  /// or when the client is being destroyed. The future's error is also a request_error.
  [[nodiscard]] std::future<result> submit(std::string_view pipeline, request input);
  /// The same for high rates; returns the request id. When it throws, `done` is not called.
  std::uint64_t submit(std::string_view pipeline, request input, completion done);
  /// The same, but never blocks: nullopt when the credits are used up.
  [[nodiscard]] std::optional<std::future<result>> try_submit(std::string_view pipeline, request input);
  [[nodiscard]] std::optional<std::uint64_t> try_submit(std::string_view pipeline, request input, completion done);

  /// A block of `bytes` in shared memory, to write frames into. nullopt when there is no shared memory or no room; then
  /// use any other memory. The first call, and a call that finds no room, waits for the daemon's answer, for 5 s at
  /// most; in a completion it does not wait.
  [[nodiscard]] std::optional<lent_memory> lend(std::size_t bytes);
  [[nodiscard]] shared_memory_info shared_memory() const;

  /// Opens a session on a pipeline; include <penstock/session.hpp>. The name must differ from those of this client's
  /// other sessions on the pipeline; "" = a random name. Throws request_error when the pipeline is unknown, the name is
  /// in use, the daemon's limit is reached, or there is no answer within the client's request_timeout.
  [[nodiscard]] session open_session(std::string_view pipeline, std::string_view name = "");

  /// Listens to the results that any client gets of a pipeline, from now on; include <penstock/subscription.hpp>. With
  /// several shards it is of the one that this client is connected to. Throws request_error when the pipeline or an
  /// output is unknown, the daemon takes no more subscriptions, or there is no answer within the client's
  /// request_timeout.
  [[nodiscard]] subscription subscribe(std::string_view pipeline, const subscribe_options& options);
  [[nodiscard]] subscription subscribe(std::string_view pipeline);
  /// The same, but `received` is called with each result, on the client's thread: it must be short and must not wait.
  /// Exceptions are ignored.
  [[nodiscard]] subscription subscribe(std::string_view pipeline, const subscribe_options& options,
                                       std::function<void(published&&)> received);

  /// A request id that this client will not use for any other request.
  [[nodiscard]] std::uint64_t reserve_id() noexcept;
  /// Asks the daemon to cancel a request. It still ends exactly once: with kind cancelled, or otherwise if it had
  /// ended.
  void cancel(std::uint64_t id);

  /// The round-trip time of a PING. Throws request_error of kind expired without an answer in time.
  [[nodiscard]] std::chrono::nanoseconds ping(std::chrono::nanoseconds timeout = std::chrono::seconds{5});
  /// The daemon's counters, as JSON. Throws as ping does.
  [[nodiscard]] std::string status_json(std::chrono::nanoseconds timeout = std::chrono::seconds{5});

  /// The daemon's recent batches, for tools. Cursor 0 = from the oldest; next_cursor = those since. Throws as ping
  /// does.
  [[nodiscard]] trace_page trace(std::uint64_t cursor = 0, std::chrono::nanoseconds timeout = std::chrono::seconds{5});

  [[nodiscard]] client_counters counters() const noexcept;

 private:
  friend class session;
  friend class subscription;
  class implementation;
  std::unique_ptr<implementation> self_;
};

}  // namespace penstock
