#include "tests/bench/hand_server/mapped_hand_work.hpp"

#include <atomic>

#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/bare_kernels.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t whole(std::size_t bytes) {
  constexpr std::size_t vector = 4 * sizeof(float);
  return (bytes + vector - 1) / vector * vector;
}

class mapped_work final : public hand_work {
 public:
  explicit mapped_work(std::size_t bytes)
      : input_(make_bare_pinned_memory(whole(bytes))),
        output_(make_bare_pinned_memory(whole(bytes))),
        flag_(make_bare_pinned_memory(sizeof(unsigned))),
        counts_(make_bare_device_memory(2 * sizeof(unsigned))),
        stream_(make_bare_stream()) {
    auto* const counts = reinterpret_cast<unsigned*>(counts_.get());
    words_ = {.flag = reinterpret_cast<unsigned*>(flag_.get()), .told = counts, .blocks_done = counts + 1};
  }
  ~mapped_work() override { cudaStreamSynchronize(stream_.get()); }
  mapped_work(const mapped_work&) = delete;
  mapped_work& operator=(const mapped_work&) = delete;

  std::byte* input() noexcept override { return input_.get(); }
  const std::byte* output() const noexcept override { return output_.get(); }

  void start(std::size_t bytes) override {
    const affine_arguments work{.input = reinterpret_cast<const float*>(input_.get()),
                                .output = reinterpret_cast<float*>(output_.get()),
                                .floats = static_cast<unsigned>(whole(bytes) / sizeof(float)),
                                .offset = 1};
    launch_affine_and_tell(stream_.get(), work, words_);
    ++started_;
  }

  bool done() override {
    if (std::atomic_ref(*words_.flag).load(std::memory_order_acquire) == started_) {
      return true;
    }
    // A device that has failed never writes the flag.
    constexpr unsigned patience = 1U << 16U;
    if (++asked_ % patience == 0 && cudaStreamQuery(stream_.get()) != cudaErrorNotReady) {
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
  unsigned asked_ = 0;
};

}  // namespace

std::unique_ptr<hand_work> make_mapped_hand_work(std::size_t bytes) {
  return std::make_unique<mapped_work>(bytes);
}

}  // namespace penstock::bench
