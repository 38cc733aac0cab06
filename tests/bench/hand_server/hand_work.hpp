#pragma once

#include <cstddef>
#include <memory>

namespace penstock::bench {

/// How a server that somebody wrote by hand learns that a request is done.
enum class hand_way {
  inline_host,  ///< no device: it computes before it receives again
  callback,     ///< a CUDA stream callback that wakes it
  polled,       ///< it asks a CUDA event over and over
  mapped,       ///< the kernel works in mapped memory and writes a word there that the server looks at over and over
};

/// One request on its way, on a stream of its own: 2 x + 1 on f32. Thread: one.
class hand_work {
 public:
  virtual ~hand_work() = default;
  /// Where the request's payload goes, and where its result will be.
  [[nodiscard]] virtual std::byte* input() noexcept = 0;
  [[nodiscard]] virtual const std::byte* output() const noexcept = 0;
  /// So many bytes of the input: copied in, one kernel, copied out, all enqueued; or the kernel alone.
  virtual void start(std::size_t bytes) = 0;
  [[nodiscard]] virtual bool done() = 0;
};

/// Room for `bytes`. `wake`: an eventfd that a callback writes to. nullptr for a way that this build has not.
/// Throws std::runtime_error when CUDA fails.
[[nodiscard]] std::unique_ptr<hand_work> make_hand_work(hand_way how, std::size_t bytes, int wake);
/// The CUDA ways alone.
[[nodiscard]] std::unique_ptr<hand_work> make_cuda_hand_work(hand_way how, std::size_t bytes, int wake);

}  // namespace penstock::bench
