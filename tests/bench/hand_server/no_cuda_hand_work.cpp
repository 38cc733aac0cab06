// Where there is no CUDA toolkit: the ways that need one do not exist.

#include "tests/bench/hand_server/hand_work.hpp"

namespace penstock::bench {

std::unique_ptr<hand_work> make_cuda_hand_work(hand_way /*how*/, std::size_t /*bytes*/, int /*wake*/) {
  return nullptr;
}

}  // namespace penstock::bench
