#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tests/bench/servers.hpp"

namespace penstock::bench {

/// How the hand-written server learns that a request is done.
enum class hand_completion {
  inline_host,  ///< no device: computes before it receives again
  callback,     ///< a CUDA stream callback that wakes it
  polled,       ///< polls a CUDA event
  mapped,       ///< the kernel works on mapped memory and writes a flag there that the server polls
};

/// One request on a stream of its own: 2 x + 1 on f32. Thread: one.
class hand_request {
 public:
  virtual ~hand_request() = default;
  /// Where the payload goes, and where the result will be.
  [[nodiscard]] virtual std::byte* input() noexcept = 0;
  [[nodiscard]] virtual const std::byte* output() const noexcept = 0;
  /// Enqueues the copy in, the kernel and the copy out of `bytes`; with mapped memory the kernel alone.
  virtual void start(std::size_t bytes) = 0;
  [[nodiscard]] virtual bool done() = 0;
};

/// Of CUDA's kinds, for payloads of up to `bytes`. `wake_fd`: an eventfd that a callback writes to. nullptr in a build
/// without CUDA. Throws std::runtime_error if CUDA fails.
[[nodiscard]] std::unique_ptr<hand_request> make_cuda_hand_request(hand_completion completion, std::size_t bytes,
                                                                   int wake_fd);

/// The server that one writes in an afternoon, in a child process: one request a launch, eight streams in rotation, no
/// batching, no checks, no credits. It answers a SUBMIT of one f32 tensor with a message of the same headers.
class hand_server {
 public:
  /// `bytes`: the largest payload.
  hand_server(std::string endpoint, hand_completion completion, std::size_t bytes);

  [[nodiscard]] const std::string& endpoint() const noexcept { return endpoint_; }

 private:
  std::string endpoint_;
  child_process process_;
};

}  // namespace penstock::bench
