#pragma once

#include <string>

#include "tests/bench/own_process.hpp"

namespace penstock::bench {

/// A ROUTER that copies each message out once and answers nothing, but for an empty message: then it sends one back.
/// In a process of its own, which ends with the object.
class sink_server {
 public:
  explicit sink_server(std::string endpoint);

  [[nodiscard]] const std::string& endpoint() const noexcept { return endpoint_; }

 private:
  std::string endpoint_;
  own_process process_;
};

}  // namespace penstock::bench
