#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/pipeline_info.hpp>
#include <penstock/request_error.hpp>

#include "client/cpp/credit_window.hpp"

namespace penstock::link {

/// State of a session that callers and the connection's thread share. Thread-safe, unless stated otherwise.
class session_record {
 public:
  session_record(std::shared_ptr<const pipeline_info> pipeline, std::string name)
      : pipeline_(std::move(pipeline)), name_(std::move(name)) {}

  [[nodiscard]] const pipeline_info& pipeline() const noexcept { return *pipeline_; }
  [[nodiscard]] const std::shared_ptr<const pipeline_info>& kept_pipeline() const noexcept { return pipeline_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// The daemon's number, 0 before OPENED. Thread: the connection's.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  void set_number(std::uint32_t number) noexcept { number_ = number; }

  /// Calls post(sequence) under the lock, so that requests are posted in the order of their numbers. Counts the frames
  /// if `post` returns true. Throws request_error when the session has ended.
  template <class Post>
  bool number_next(std::uint32_t frames, Post&& post) {
    const std::lock_guard lock{mutex_};
    if (ended_) {
      throw request_error{*ended_};
    }
    if (!post(frames_)) {
      return false;
    }
    frames_ += frames;
    return true;
  }

  /// Held by who sets its numbers.
  [[nodiscard]] std::mutex& setting() noexcept { return setting_; }

  /// Why the session has ended; nullopt while it is open.
  [[nodiscard]] std::optional<request_error> ended() const {
    const std::lock_guard lock{mutex_};
    return ended_;
  }
  /// Ends the session; the first reason stays. True when this call ended it.
  bool end(const request_error& reason) {
    const std::lock_guard lock{mutex_};
    const bool first = !ended_;
    if (first) {
      ended_ = reason;
    }
    return first;
  }
  [[nodiscard]] std::uint64_t frames() const {
    const std::lock_guard lock{mutex_};
    return frames_;
  }

 private:
  const std::shared_ptr<const pipeline_info> pipeline_;
  const std::string name_;
  std::uint32_t number_ = 0;

  std::mutex setting_;
  mutable std::mutex mutex_;
  std::uint64_t frames_ = 0;
  std::optional<request_error> ended_;
};

/// The open sessions, and the requests in flight of each, in order. Decides what must be sent again and when; sends
/// nothing and reads no clock. Thread: the connection's.
class session_table {
 public:
  using record_pointer = std::shared_ptr<session_record>;

  /// OPENED came.
  void add(record_pointer record);
  [[nodiscard]] bool holds(const session_record& record) const { return sessions_.contains(&record); }
  /// nullptr when there is none.
  [[nodiscard]] record_pointer find(std::string_view pipeline, std::string_view name) const;
  [[nodiscard]] std::vector<record_pointer> all() const;
  /// Ids of its requests in flight, in order.
  [[nodiscard]] std::vector<std::uint64_t> line(const session_record& record) const;

  /// Appends a request.
  void add_request(const session_record& record, std::uint64_t sequence, std::uint64_t id);
  /// Removes an ended request. True when the session is closing and this was its last one.
  [[nodiscard]] bool remove_request(const session_record& record, std::uint64_t sequence);
  /// The daemon has processed all frames below `sequence`.
  void confirmed(const session_record& record, std::uint64_t sequence);

  /// The reaction to SEQUENCE_GAP.
  struct gap {
    bool lost = false;               ///< the request has ended and can't be sent again
    std::vector<std::uint64_t> ids;  ///< to send again, in this order; empty when that was done already
  };
  [[nodiscard]] gap missing(const session_record& record, std::uint64_t expected);
  /// Forgets which gap was resent: the repeat may be lost too.
  void repeated(const session_record& record);

  /// NO_CREDIT for the request of `sequence`: pauses it and those behind it, for min(first_pause, 100 ms), doubled each
  /// time the same request is refused, up to pause_limit. Gaps are ignored during a pause. No effect when the session
  /// is paused already or the request has been processed.
  void refused(const session_record& record, std::uint64_t sequence, time_point now,
               std::chrono::nanoseconds first_pause, std::chrono::nanoseconds pause_limit);
  /// True when the request of that sequence is paused.
  [[nodiscard]] bool pauses(const session_record& record, std::uint64_t sequence) const;
  /// End of the next pause; `never` when there is none.
  [[nodiscard]] time_point next_resume() const;
  /// Ends expired pauses. Returns their requests, to send again in this order.
  [[nodiscard]] std::vector<std::uint64_t> resume(time_point now);
  /// Ends its pause, because everything is sent again.
  void resume_at_once(const session_record& record) { pauses_.erase(&record); }

  /// Closes the session to new requests. True when none is in flight.
  [[nodiscard]] bool close(const session_record& record);
  [[nodiscard]] bool is_closing(const session_record& record) const;
  void remove(const session_record& record);

 private:
  struct entry {
    record_pointer record;
    std::map<std::uint64_t, std::uint64_t> line;  ///< sequence to request id
    std::uint64_t confirmed = 0;                  ///< frames that the daemon has certainly processed
    std::optional<std::uint64_t> resent_from;     ///< the last gap that was resent
    std::optional<std::uint64_t> refused;         ///< the last request refused with NO_CREDIT
    std::chrono::nanoseconds patience{};          ///< its last pause
    bool closing = false;
  };
  struct pause {
    std::uint64_t sequence = 0;  ///< of the first paused request
    time_point until;
  };
  [[nodiscard]] entry* entry_of(const session_record& record);
  [[nodiscard]] static std::vector<std::uint64_t> ids_from(const entry& session, std::uint64_t sequence);

  std::map<const session_record*, entry> sessions_;
  std::map<const session_record*, pause> pauses_;  ///< paused sessions
};

}  // namespace penstock::link
