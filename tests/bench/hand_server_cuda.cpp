#include "tests/bench/hand_server.hpp"

#include <atomic>
#include <cstdint>

#include <unistd.h>

#include "tests/bench/bare_cuda.hpp"

namespace penstock::bench {
namespace {

// Rounded up to what the kernel takes.
constexpr std::size_t rounded(std::size_t bytes) {
  constexpr std::size_t vector = 4 * sizeof(float);
  return (bytes + vector - 1) / vector * vector;
}

affine_arguments arguments_of(const bare_device_memory& input, const bare_device_memory& output, std::size_t bytes) {
  return {.input = reinterpret_cast<const float*>(input.get()),
          .output = reinterpret_cast<float*>(output.get()),
          .floats = static_cast<unsigned>(rounded(bytes) / sizeof(float))};
}

// Immovable: callbacks hold its address.
class copied_request final : public hand_request {
 public:
  copied_request(hand_completion completion, std::size_t bytes, int wake_fd)
      : completion_(completion),
        wake_fd_(wake_fd),
        pinned_input_(make_bare_pinned_memory(rounded(bytes))),
        pinned_output_(make_bare_pinned_memory(rounded(bytes))),
        input_(make_bare_device_memory(rounded(bytes))),
        output_(make_bare_device_memory(rounded(bytes))),
        stream_(make_bare_stream()),
        finished_(make_bare_event()) {}
  ~copied_request() override { cudaStreamSynchronize(stream_.get()); }
  copied_request(const copied_request&) = delete;
  copied_request& operator=(const copied_request&) = delete;

  std::byte* input() noexcept override { return pinned_input_.get(); }
  const std::byte* output() const noexcept override { return pinned_output_.get(); }

  void start(std::size_t bytes) override {
    told_.store(false, std::memory_order_relaxed);
    require(cudaMemcpyAsync(input_.get(), pinned_input_.get(), bytes, cudaMemcpyHostToDevice, stream_.get()),
            "cudaMemcpyAsync");
    launch_affine(stream_.get(), arguments_of(input_, output_, bytes));
    require(cudaMemcpyAsync(pinned_output_.get(), output_.get(), bytes, cudaMemcpyDeviceToHost, stream_.get()),
            "cudaMemcpyAsync");
    if (completion_ == hand_completion::callback) {
      require(cudaStreamAddCallback(stream_.get(), on_callback, this, 0), "cudaStreamAddCallback");
    } else {
      require(cudaEventRecord(finished_.get(), stream_.get()), "cudaEventRecord");
    }
  }

  bool done() override {
    if (completion_ == hand_completion::callback) {
      return told_.load(std::memory_order_acquire);
    }
    const cudaError_t status = cudaEventQuery(finished_.get());
    if (status != cudaErrorNotReady) {
      require(status, "cudaEventQuery");
    }
    return status == cudaSuccess;
  }

 private:
  static void CUDART_CB on_callback(cudaStream_t /*stream*/, cudaError_t /*status*/, void* data) {
    auto& self = *static_cast<copied_request*>(data);
    self.told_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    (void)!::write(self.wake_fd_, &one, sizeof one);
  }

  hand_completion completion_;
  int wake_fd_;
  bare_pinned_memory pinned_input_;
  bare_pinned_memory pinned_output_;
  bare_device_memory input_;
  bare_device_memory output_;
  bare_stream stream_;
  bare_event finished_;
  std::atomic<bool> told_{false};  // written by start() and by the driver's thread, read by done()
};

class mapped_request final : public hand_request {
 public:
  explicit mapped_request(std::size_t bytes)
      : input_(make_bare_pinned_memory(rounded(bytes))),
        output_(make_bare_pinned_memory(rounded(bytes))),
        flag_(make_bare_pinned_memory(sizeof(unsigned))),
        counts_(make_bare_device_memory(2 * sizeof(unsigned))),
        stream_(make_bare_stream()) {
    auto* const counts = reinterpret_cast<unsigned*>(counts_.get());
    words_ = {.flag = reinterpret_cast<unsigned*>(flag_.get()), .launches = counts, .blocks_done = counts + 1};
  }
  ~mapped_request() override { cudaStreamSynchronize(stream_.get()); }
  mapped_request(const mapped_request&) = delete;
  mapped_request& operator=(const mapped_request&) = delete;

  std::byte* input() noexcept override { return input_.get(); }
  const std::byte* output() const noexcept override { return output_.get(); }

  void start(std::size_t bytes) override {
    launch_affine_with_flag(stream_.get(),
                            {.input = reinterpret_cast<const float*>(input_.get()),
                             .output = reinterpret_cast<float*>(output_.get()),
                             .floats = static_cast<unsigned>(rounded(bytes) / sizeof(float))},
                            words_);
    ++started_;
  }

  bool done() override {
    if (std::atomic_ref(*words_.flag).load(std::memory_order_acquire) == started_) {
      return true;
    }
    // A device that has failed never writes the flag.
    constexpr unsigned polls_per_look = 1U << 16U;
    if (++polls_ % polls_per_look == 0 && cudaStreamQuery(stream_.get()) != cudaErrorNotReady) {
      require(cudaStreamSynchronize(stream_.get()), "the kernel");
    }
    return false;
  }

 private:
  bare_pinned_memory input_;
  bare_pinned_memory output_;
  bare_pinned_memory flag_;
  bare_device_memory counts_;
  bare_stream stream_;
  flag_words words_{};
  unsigned started_ = 0;
  unsigned polls_ = 0;
};

}  // namespace

std::unique_ptr<hand_request> make_cuda_hand_request(hand_completion completion, std::size_t bytes, int wake_fd) {
  if (completion == hand_completion::mapped) {
    return std::make_unique<mapped_request>(bytes);
  }
  return std::make_unique<copied_request>(completion, bytes, wake_fd);
}

}  // namespace penstock::bench
