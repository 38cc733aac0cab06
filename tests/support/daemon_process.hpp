#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/support/temporary_folder.hpp"

namespace penstock::testing {

/// The backends that the environment asks for (PENSTOCK_TEST_BACKENDS, a comma list; the host alone by default).
[[nodiscard]] std::vector<std::string> backends_to_test();

/// What a daemon of the tests is started with.
struct daemon_options {
  std::string backend = "host";
  std::string completion = "callback";
  std::string configuration;  ///< TOML without [daemon] listen: the endpoint is given on the command line
  std::string listen = {};    ///< where it listens; empty for an ipc socket in its own folder
  std::string admin = {};     ///< where its admin endpoint does; empty for a Unix socket in its own folder
};

class raw_peer;

/// A real penstockd in a process of its own, on an ipc socket in a folder of its own unless told otherwise. Ends with
/// the test.
class daemon_process {
 public:
  /// Starts it and waits until it answers PING, or throws with what it logged.
  explicit daemon_process(const daemon_options& options);
  ~daemon_process();
  daemon_process(const daemon_process&) = delete;
  daemon_process& operator=(const daemon_process&) = delete;

  [[nodiscard]] const std::string& endpoint() const noexcept { return endpoint_; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void signal(int number) const;
  /// Gives it another configuration, and waits until it serves that one. Throws where that takes more than a minute.
  void reload(const std::string& configuration);
  /// Waits until it ends; its exit code, or -signal.
  int wait();
  /// SIGTERM, then wait.
  int stop();
  /// What it has written to its log so far.
  [[nodiscard]] std::string log() const;

 private:
  void start(const daemon_options& options);
  void await_ready();
  [[nodiscard]] bool running();

  std::unique_ptr<raw_peer> asking_;  // one client, however many reloads
  temporary_folder folder_;
  std::string endpoint_;
  pid_t pid_ = -1;
  int exit_code_ = 0;
};

/// A loopback TCP endpoint whose port was free a moment ago.
[[nodiscard]] std::string free_tcp_endpoint();

/// Runs penstockd with these arguments to its end. Returns its exit code; `output` gets stdout and stderr.
int run_penstockd(const std::vector<std::string>& arguments, std::string& output);

}  // namespace penstock::testing
