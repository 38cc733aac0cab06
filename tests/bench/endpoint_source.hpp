#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace penstock::bench {

/// Endpoints that nobody listens on: loopback ports below those that outgoing connections take, which a thousand
/// clients would otherwise take away again, and ipc sockets in a folder that goes with the object.
class endpoint_source {
 public:
  /// Throws std::runtime_error when the folder can't be made.
  endpoint_source();
  ~endpoint_source();
  endpoint_source(const endpoint_source&) = delete;
  endpoint_source& operator=(const endpoint_source&) = delete;

  /// Each time another. Throws std::runtime_error when no port is free.
  [[nodiscard]] std::string tcp();
  [[nodiscard]] std::string ipc();
  /// "tcp" or "ipc".
  [[nodiscard]] std::string of(const std::string& transport) { return transport == "ipc" ? ipc() : tcp(); }

 private:
  std::filesystem::path folder_;
  std::uint32_t next_socket_ = 0;
};

}  // namespace penstock::bench
