#include "tests/bench/hand_server/hand_work.hpp"

#include <vector>

namespace penstock::bench {
namespace {

class inline_work final : public hand_work {
 public:
  explicit inline_work(std::size_t bytes) : values_((bytes + sizeof(float) - 1) / sizeof(float)), results_(values_) {}

  std::byte* input() noexcept override { return reinterpret_cast<std::byte*>(values_.data()); }
  const std::byte* output() const noexcept override { return reinterpret_cast<const std::byte*>(results_.data()); }
  void start(std::size_t bytes) override {
    const std::size_t count = bytes / sizeof(float);
    for (std::size_t at = 0; at < count; ++at) {
      results_[at] = 2.0F * values_[at] + 1.0F;
    }
  }
  bool done() override { return true; }

 private:
  std::vector<float> values_;
  std::vector<float> results_;
};

}  // namespace

std::unique_ptr<hand_work> make_hand_work(hand_way how, std::size_t bytes, int wake) {
  if (how == hand_way::inline_host) {
    return std::make_unique<inline_work>(bytes);
  }
  return make_cuda_hand_work(how, bytes, wake);
}

}  // namespace penstock::bench
