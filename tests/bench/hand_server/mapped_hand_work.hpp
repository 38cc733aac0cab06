#pragma once

#include <cstddef>
#include <memory>

#include "tests/bench/hand_server/hand_work.hpp"

namespace penstock::bench {

/// hand_way::mapped: one kernel reads the request in mapped memory, writes the result there, and then a word that the
/// server looks at. Throws std::runtime_error when CUDA fails.
[[nodiscard]] std::unique_ptr<hand_work> make_mapped_hand_work(std::size_t bytes);

}  // namespace penstock::bench
