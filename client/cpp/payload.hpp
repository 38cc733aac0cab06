#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <penstock/client.hpp>
#include <zmq.hpp>

#include "client/cpp/arena.hpp"
#include "proto/message.hpp"

namespace penstock::link {

/// The bytes of one request from submit to its end, and which way they go: over the socket, or through an arena, where
/// room for the outputs is kept beside them. Thread: one at a time.
class payload {
 public:
  payload() = default;
  /// Over the socket: a copy of the bytes or, where the request says how to release them, the bytes themselves.
  [[nodiscard]] static payload over_socket(client::request& what);
  /// Bytes in an aligned place of one of the arena's blocks are not copied: they go through the arena or, when it has
  /// no room for the outputs, from there over the socket. Others are copied into it; nullopt, and `what` is as it was,
  /// when it has no room.
  [[nodiscard]] static std::optional<payload> through(arena& shared, client::request& what, std::uint64_t output_bytes);

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Whether it goes through an arena.
  [[nodiscard]] bool shared() const noexcept { return shared_; }
  /// From now on it goes over the socket, from where it lies.
  void leave_arena() noexcept { shared_ = false; }
  /// Whether it lies in this arena, whichever way it goes.
  [[nodiscard]] bool lies_in(const arena* which) const noexcept { return input_ && input_.home().get() == which; }

  /// The bytes themselves, valid while this is.
  [[nodiscard]] std::span<const std::byte> contents() const noexcept;
  /// For SUBMIT: shares the bytes. They stay where they are until the last such message has gone.
  [[nodiscard]] zmq::message_t message();
  /// For SUBMIT_SHARED.
  [[nodiscard]] wire::shared_place place(bool repeat) const noexcept;
  /// Where the outputs are when a RESULT_SHARED has come; empty when there is no such place.
  [[nodiscard]] arena_block& output() noexcept { return output_; }
  [[nodiscard]] std::uint64_t output_bytes() const noexcept { return output_bytes_; }

  /// Before anything of it was sent: the caller's `release` is not called.
  void keep_unreleased() noexcept;

 private:
  /// Calls a function when it goes.
  class last_call {
   public:
    last_call() = default;
    explicit last_call(std::function<void()> what) noexcept : what_(std::move(what)) {}
    last_call(last_call&& other) noexcept : what_(std::exchange(other.what_, nullptr)) {}
    last_call& operator=(last_call&& other) noexcept {
      what_.swap(other.what_);
      return *this;
    }
    ~last_call() {
      if (what_) {
        try {
          what_();
        } catch (...) {  // the caller's own: the thread that calls it, perhaps libzmq's, goes on
        }
      }
    }
    void disarm() noexcept { what_ = nullptr; }

   private:
    std::function<void()> what_;
  };

  std::size_t bytes_ = 0;
  bool shared_ = false;
  zmq::message_t message_;             ///< empty while there is no need of one
  last_call* sent_release_ = nullptr;  ///< which goes with the message
  std::uint64_t input_at_ = 0;
  std::uint64_t output_bytes_ = 0;
  last_call release_;  ///< before the blocks, so that it is called when they have been given back
  arena_block input_;
  arena_block output_;
};

/// Bytes of the arena that the outputs of such a request take up at most; nullopt when that can't be told.
[[nodiscard]] std::optional<std::uint64_t> output_room(const pipeline_info& pipeline, std::uint32_t frames);

/// What they are likely to take up, where `output_room` can be told: outputs of variable length are taken to be as long
/// in proportion as the input, whose leading extent is `leading` (0: the most).
[[nodiscard]] std::uint64_t likely_output(const pipeline_info& pipeline, std::uint32_t frames, std::int64_t leading);

}  // namespace penstock::link
