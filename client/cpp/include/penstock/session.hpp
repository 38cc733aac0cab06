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

/// What to do with samples at the end of a recording that do not fill a frame of fixed length.
enum class unfilled : std::uint8_t {
  refuse,  ///< throw, and send nothing
  drop,    ///< omit them
  pad      ///< pad the frame with zeros
};

/// An ordered sequence of frames that share the state of a pipeline's operators, such as a filter's history. Opened
/// with client::open_session. Must be destroyed before its client. After a move, only destruction and assignment are
/// allowed.
///
/// Order: requests are numbered by submit and processed, and sent again, in that order. No frame runs twice. A request
/// that expires or is cancelled still updates the state in its turn, so that later results are correct. Loss: the
/// session is lost when the daemon restarts, drops the session, or refuses one of its requests. A refused request ends
/// with its own error, the others in flight with kind session_lost, which submit throws from then on. Open another
/// session then. NO_CREDIT does not lose the session: the request and those behind it are sent again after a pause,
/// until the timeout. Lengths: a variable output may have a different leading extent in each result, also 0. Threads:
/// all members are thread-safe, except moves and the destructor. The order of concurrent submits is up to the caller.
class PENSTOCK_EXPORT session {
 public:
  session(session&& other) noexcept;
  session& operator=(session&& other) noexcept;
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  /// Closes the session.
  ~session();

  /// As client::submit, for the session's pipeline. Also throws request_error when the session is lost or closed (kind
  /// session_lost), and for several frames whose leading extent is not a multiple of the pipeline's period: then send
  /// one longer frame.
  [[nodiscard]] std::future<result> submit(client::request request);
  std::uint64_t submit(client::request request, completion done);
  [[nodiscard]] std::optional<std::future<result>> try_submit(client::request request);
  [[nodiscard]] std::optional<std::uint64_t> try_submit(client::request request, completion done);

  /// Sends a whole recording as the session's next frames and returns the joined result. The recording is split into
  /// frames, several per request; the last frame is shorter if the pipeline takes "max N". Variable outputs are joined
  /// along their first dimension, [samples, ...]; others have one entry per frame, [frames, ...]. Throws request_error
  /// as submit does, with wrong_shape when `samples` are not a whole number of samples or, with unfilled::refuse, of
  /// frames; or the first error of a request, after cancelling the others. `first`: the account of the first sample;
  /// later requests go on from its index, without a time. The result has the first request's account.
  [[nodiscard]] result run(std::span<const std::byte> samples, unfilled tail = unfilled::refuse,
                           const std::optional<sample_account>& first = {});

  /// Requests in flight still end normally; then the daemon drops the state. Later submits throw.
  void close() noexcept;

  /// Number of accepted frames.
  [[nodiscard]] std::uint64_t frames() const noexcept;
  /// True when it is lost or closed.
  [[nodiscard]] bool ended() const noexcept;
  /// The caller's name, or 16 random hex digits.
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] std::string_view pipeline() const noexcept;

 private:
  friend class client;
  session(client::implementation& owner, std::shared_ptr<link::session_record> record) noexcept;

  client::implementation* owner_;
  std::shared_ptr<link::session_record> record_;  ///< nullptr after a move
};

}  // namespace penstock
