#pragma once

#include <string>

namespace penstock::bench {

/// The limit that the wire sets: a ROUTER that sends every message straight back, without looking at it or copying
/// it, in a process of its own. Ends with the object.
class echo_server {
 public:
  explicit echo_server(std::string endpoint);
  ~echo_server();
  echo_server(const echo_server&) = delete;
  echo_server& operator=(const echo_server&) = delete;

  [[nodiscard]] const std::string& endpoint() const noexcept { return endpoint_; }

 private:
  std::string endpoint_;
  int pid_;
};

}  // namespace penstock::bench
