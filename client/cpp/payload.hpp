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

/// The input of one request, and how it travels: over the socket, or through an arena, which then also has a block for
/// the outputs. Not thread-safe.
class payload {
 public:
  payload() = default;
  /// For the socket: copies the bytes, or refers to them if the request has a `release` function.
  [[nodiscard]] static payload over_socket(client::request& request);
  /// For the arena. Aligned bytes in one of its blocks are used in place, also over the socket when the arena has no
  /// room for the outputs. Other bytes are copied into it; nullopt, and `request` unchanged, when it has no room.
  [[nodiscard]] static std::optional<payload> through(arena& shared, client::request& request,
                                                      std::uint64_t output_bytes);

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// True when it travels through an arena.
  [[nodiscard]] bool shared() const noexcept { return shared_; }
  /// From now on it is sent over the socket, from the same memory.
  void leave_arena() noexcept { shared_ = false; }
  /// True when the input lies in this arena, however it travels.
  [[nodiscard]] bool lies_in(const arena* home) const noexcept { return input_ && input_.home().get() == home; }

  /// The input; valid while this object exists.
  [[nodiscard]] std::span<const std::byte> contents() const noexcept;
  /// A message for SUBMIT that refers to the input, and keeps it alive.
  [[nodiscard]] zmq::message_t message();
  /// The same of a part of it.
  [[nodiscard]] zmq::message_t message(std::size_t offset, std::size_t bytes);
  /// The body of SUBMIT_SHARED.
  [[nodiscard]] wire::shared_place place(bool repeat) const noexcept;
  /// The block for the outputs; empty when there is none.
  [[nodiscard]] arena_block& output() noexcept { return output_; }
  [[nodiscard]] std::uint64_t output_bytes() const noexcept { return output_bytes_; }

  /// Drops the caller's `release` function uncalled. Only before anything was sent.
  void keep_unreleased() noexcept;

 private:
  /// Calls a function on destruction.
  class last_call {
   public:
    last_call() = default;
    explicit last_call(std::function<void()> function) noexcept : what_(std::move(function)) {}
    last_call(last_call&& other) noexcept : what_(std::exchange(other.what_, nullptr)) {}
    last_call& operator=(last_call&& other) noexcept {
      what_.swap(other.what_);
      return *this;
    }
    ~last_call() {
      if (what_) {
        try {
          what_();
        } catch (...) {  // thrown by the caller's function, perhaps on libzmq's thread: ignored
        }
      }
    }
    void disarm() noexcept { what_ = nullptr; }

   private:
    std::function<void()> what_;
  };

  std::size_t bytes_ = 0;
  bool shared_ = false;
  zmq::message_t message_;             ///< empty until first needed
  last_call* sent_release_ = nullptr;  ///< owned by the message
  std::uint64_t input_at_ = 0;
  std::uint64_t output_bytes_ = 0;
  last_call release_;  ///< declared before the blocks, so that it is called after they are freed
  arena_block input_;
  arena_block output_;
};

/// Upper limit of the outputs' bytes in an arena; nullopt on overflow or for an unknown dtype.
[[nodiscard]] std::optional<std::uint64_t> output_room(const pipeline_info& pipeline, std::uint32_t frames);

/// Estimated bytes of the outputs, if `output_room` has a value: a variable output is as long, in proportion, as the
/// input with the leading extent `leading` (0: its maximum).
[[nodiscard]] std::uint64_t likely_output(const pipeline_info& pipeline, std::uint32_t frames, std::int64_t leading);

}  // namespace penstock::link
