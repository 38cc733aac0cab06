#pragma once

#include <string>

#include "tests/bench/own_process.hpp"

namespace penstock::bench {

/// The limit that the wire sets: a ROUTER that sends every message straight back, without looking at it or copying
/// it, in a process of its own. Ends with the object. With one I/O thread, as libzmq does unless it is told otherwise.
class echo_server {
 public:
  explicit echo_server(std::string endpoint, int io_threads = 1);

  [[nodiscard]] const std::string& endpoint() const noexcept { return endpoint_; }

 private:
  std::string endpoint_;
  own_process process_;
};

}  // namespace penstock::bench
