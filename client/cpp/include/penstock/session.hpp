#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <penstock/client.hpp>
#include <penstock/export.hpp>

namespace penstock {

namespace link {
class session_record;
}

/// What becomes of samples at a recording's end that fill no frame, where a pipeline takes frames of one length.
enum class unfilled : std::uint8_t {
  refuse,  ///< nothing is sent
  drop,    ///< they are left out
  pad      ///< the frame is filled with zeros
};

/// An ordered sequence of frames that share what a pipeline's operators remember: a filter's history, running
/// statistics. From client::open_session. It must be destroyed before its client is; one that was moved from can only
/// be destroyed or assigned to.
///
/// Order: requests are numbered as submit takes them, go through the pipeline in that order, and are sent again in it.
/// No frame of a session runs twice. A request that expires or is cancelled still goes through the state when its turn
/// comes, so that what follows it is right.
/// Loss: when the daemon restarts, has dropped the session, or refuses one of its requests, there is a hole or nothing
/// left to continue from. A refused request ends with its own error, all others in flight with kind session_lost, and
/// from then on submit throws that. Open another session and begin anew. A refusal with NO_CREDIT is no such loss: the
/// request, and what follows it, is sent again after a pause, until its timeout.
/// Lengths: a variable output may have another leading extent in each result, also 0.
/// Threads: every member may be called from any thread at once, but for moving and the destructor. Requests of several
/// threads are numbered in the order in which they come, which is for the caller to settle.
class PENSTOCK_EXPORT session {
 public:
  session(session&& other) noexcept;
  session& operator=(session&& other) noexcept;
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  /// Closes it.
  ~session();

  /// As client::submit, for the pipeline that the session was opened on. Throws request_error also when the session is
  /// lost or closed (kind session_lost), and when there are several frames whose leading extent is no multiple of the
  /// pipeline's period: send one longer frame then.
  [[nodiscard]] std::future<result> submit(client::request what);
  std::uint64_t submit(client::request what, completion done);
  [[nodiscard]] std::optional<std::future<result>> try_submit(client::request what);
  [[nodiscard]] std::optional<std::uint64_t> try_submit(client::request what, completion done);

  /// Sends a whole recording, as the session's next frames, and gives its whole result. It is cut into the pipeline's
  /// frames, several of which travel together; the last is shorter where the pipeline takes "max N". An output of
  /// variable length is joined along its first dimension, [samples, ...]; others have one entry a frame, [frames, ...].
  /// Throws request_error as submit does, with wrong_shape when `samples` are no whole number of samples or, with
  /// unfilled::refuse, of frames; and the first error of a request, after the others have been cancelled.
  [[nodiscard]] result run(std::span<const std::byte> samples, unfilled tail = unfilled::refuse);

  /// What is in flight still ends as it would have; then the daemon drops the state. Later submits throw.
  void close() noexcept;

  /// How many frames submit has taken.
  [[nodiscard]] std::uint64_t frames() const noexcept;
  /// Whether it can't go on: it is lost or closed.
  [[nodiscard]] bool ended() const noexcept;
  /// What the daemon calls it: the caller's name, or 16 random hex digits.
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] std::string_view pipeline() const noexcept;

 private:
  friend class client;
  session(client::implementation& owner, std::shared_ptr<link::session_record> record) noexcept;

  client::implementation* owner_;
  std::shared_ptr<link::session_record> record_;  ///< nullptr once moved from
};

}  // namespace penstock
