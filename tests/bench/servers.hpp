#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <sys/types.h>

#include "tests/support/temporary_folder.hpp"

namespace penstock::bench {

/// Runs a function in a forked child process, which is killed by the destructor or when the parent ends. Make it before
/// anything that does not survive a fork, such as CUDA or threads.
class child_process {
 public:
  /// An exception from `serve` ends the child.
  explicit child_process(const std::function<void()>& serve);
  ~child_process();
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

 private:
  pid_t pid_;
};

/// Unused endpoints: loopback ports outside of the ephemeral range, which a thousand clients use up, and ipc sockets in
/// a temporary folder.
class endpoint_source {
 public:
  /// Another one at each call. Throws std::runtime_error if no port is free.
  [[nodiscard]] std::string tcp();
  [[nodiscard]] std::string ipc();
  /// `transport`: "tcp" or "ipc".
  [[nodiscard]] std::string next(const std::string& transport) { return transport == "ipc" ? ipc() : tcp(); }

 private:
  testing::temporary_folder folder_;
  std::uint32_t next_socket_ = 0;
};

/// The limit of the wire: a ROUTER in a child process that sends every message back without reading or copying it.
class echo_server {
 public:
  /// One I/O thread is libzmq's default.
  explicit echo_server(std::string endpoint, int io_threads = 1);

  [[nodiscard]] const std::string& endpoint() const noexcept { return endpoint_; }

 private:
  std::string endpoint_;
  child_process process_;
};

/// A ROUTER in a child process that copies each message out once. It answers only empty messages.
class sink_server {
 public:
  explicit sink_server(std::string endpoint);

  [[nodiscard]] const std::string& endpoint() const noexcept { return endpoint_; }

 private:
  std::string endpoint_;
  child_process process_;
};

/// Resources of a process; all 0 if there is no such process.
struct process_usage {
  std::size_t resident_bytes = 0;
  std::size_t open_files = 0;
};
[[nodiscard]] process_usage usage_of(pid_t process);

}  // namespace penstock::bench
