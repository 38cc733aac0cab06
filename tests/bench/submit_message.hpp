#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/message.hpp"

namespace penstock::bench {

/// A SUBMIT of f32 values, written by hand and sent over and over under other ids.
class submit_message {
 public:
  /// `frames` frames of `floats` random values each, normally distributed, for pipeline `pipeline`.
  submit_message(std::uint32_t pipeline, std::size_t floats, std::uint32_t frames = 1);

  void set_id(std::uint64_t id) noexcept;
  void set_timeout(std::chrono::nanoseconds timeout) noexcept;
  void set_session(std::uint32_t session) noexcept;
  void set_sequence(std::uint64_t sequence) noexcept;
  /// From now on it is a SUBMIT_SHARED of frames in that place.
  void set_place(const wire::shared_place& place);
  [[nodiscard]] const std::string& head() const noexcept { return head_; }
  [[nodiscard]] const std::string& payload() const noexcept { return payload_; }

 private:
  std::string head_;
  std::string payload_;
};

/// HELLO's two parts.
[[nodiscard]] std::string hello_head();
[[nodiscard]] std::string hello_body();

}  // namespace penstock::bench
