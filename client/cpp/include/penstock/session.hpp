#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// A number of a stage that may change while sessions go on.
struct PENSTOCK_EXPORT stage_number {
  std::string stage;
  std::string name;
  double value = 0.0;
  bool own = false;  ///< the session has set it; otherwise it follows the pipeline

  bool operator==(const stage_number&) const = default;
};

/// The tunable numbers of a session, as they are from one of its frames on.
struct PENSTOCK_EXPORT stage_numbers {
  std::uint64_t from_frame = 0;  ///< frames that the session had before
  std::vector<stage_number> numbers;
};

/// What a number is to be; without a value it follows the pipeline's.
struct PENSTOCK_EXPORT number_setting {
  std::string stage;
  std::string name;
  std::optional<double> value;
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

  /// Sets a number of a stage for this session alone and waits until the daemon has it, for client_options'
  /// request_timeout at most: it holds for what is submitted from then on. Returns what holds then. Throws
  /// request_error: unknown_value, not_tunable or out_of_range where the pipeline does not take it, else as submit
  /// does.
  stage_numbers set(std::string_view stage, std::string_view name, double value);
  /// The same for several numbers: all of them change between two frames, or none.
  stage_numbers set(std::span<const number_setting> wanted);
  /// What holds for the next frames.
  [[nodiscard]] stage_numbers values();

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
