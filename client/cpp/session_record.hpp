#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <penstock/pipeline_info.hpp>
#include <penstock/request_error.hpp>

namespace penstock::link {

/// What a session, its requests and the connection's thread share of it. Threads: any, where nothing else is said.
class session_record {
 public:
  session_record(std::shared_ptr<const pipeline_info> pipeline, std::string name)
      : pipeline_(std::move(pipeline)), name_(std::move(name)) {}

  [[nodiscard]] const pipeline_info& pipeline() const noexcept { return *pipeline_; }
  [[nodiscard]] const std::shared_ptr<const pipeline_info>& kept_pipeline() const noexcept { return pipeline_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// The daemon's number for it, 0 before OPENED. Thread: the connection's.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  void set_number(std::uint32_t number) noexcept { number_ = number; }

  /// Calls post(sequence), which hands on a request of so many frames, and counts them if it could. Numbering and
  /// handing on are one step, so that the line's order is that of the numbers. Throws when the session has ended.
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

  /// Why there are no more requests; nullopt while there may be.
  [[nodiscard]] std::optional<request_error> ended() const {
    const std::lock_guard lock{mutex_};
    return ended_;
  }
  /// Whether it is this call that ended it: the first reason stays.
  bool end(const request_error& why) {
    const std::lock_guard lock{mutex_};
    const bool first = !ended_;
    if (first) {
      ended_ = why;
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

  mutable std::mutex mutex_;
  std::uint64_t frames_ = 0;
  std::optional<request_error> ended_;
};

}  // namespace penstock::link
