#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock {

/// Why a connection was refused before it could send a message.
enum class handshake_refusal : std::uint8_t {
  unlisted_key,      ///< its key is not among the authorised ones
  wrong_mechanism,   ///< it speaks plain text where keys are asked for, or has keys where none are
  wrong_server_key,  ///< it takes another key for the daemon's: what it sent can't be opened
  malformed,         ///< it broke the rules of ZeroMQ's handshake
  unfinished,        ///< it left, or let handshake_timeout pass; perhaps after it was refused for its key
  no_descriptor,     ///< the process has as many files open as it may
};
inline constexpr std::size_t handshake_refusals = 6;

/// "unlisted_key", "wrong_mechanism", ... as counters are labelled.
[[nodiscard]] std::string_view name_of(handshake_refusal why) noexcept;

/// The counts at one moment.
struct handshake_report {
  std::uint64_t succeeded = 0;
  std::array<std::uint64_t, handshake_refusals> refused{};  ///< by handshake_refusal
};

/// What became of the connections to a shard's socket. Written by its gatekeeper's thread, read by any.
class handshake_account {
 public:
  void succeed() noexcept { succeeded_.fetch_add(1, std::memory_order_relaxed); }
  void refuse(handshake_refusal why) noexcept {
    refused_[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }

  [[nodiscard]] handshake_report read() const noexcept {
    handshake_report now;
    now.succeeded = succeeded_.load(std::memory_order_relaxed);
    for (std::size_t why = 0; why < handshake_refusals; ++why) {
      now.refused[why] = refused_[why].load(std::memory_order_relaxed);
    }
    return now;
  }

 private:
  std::atomic<std::uint64_t> succeeded_{0};
  std::array<std::atomic<std::uint64_t>, handshake_refusals> refused_{};
};

}  // namespace penstock
