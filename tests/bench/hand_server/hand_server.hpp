#pragma once

#include <cstddef>
#include <string>

#include "tests/bench/hand_server/hand_work.hpp"
#include "tests/bench/own_process.hpp"

namespace penstock::bench {

/// The server that somebody would write in an afternoon: one request a launch, eight streams in rotation, no batching,
/// no checks, no credits. In a process of its own, which ends with the object. It answers a SUBMIT of one f32 tensor
/// with a message of the same head.
class hand_server {
 public:
  /// `bytes`: the largest payload.
  hand_server(std::string endpoint, hand_way how, std::size_t bytes);

  [[nodiscard]] const std::string& endpoint() const noexcept { return endpoint_; }

 private:
  std::string endpoint_;
  own_process process_;
};

}  // namespace penstock::bench
