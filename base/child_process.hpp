#pragma once

#include <filesystem>
#include <span>
#include <string>

#include <sys/types.h>

namespace penstock {

/// A process that this one starts; it is killed and waited for when it has not ended. No signal is blocked in it.
class child_process {
 public:
  /// `words`: its arguments, without its own name. `input` and `output` become its standard input and output; its
  /// standard error is this process's. Throws std::system_error.
  child_process(const std::filesystem::path& program, std::span<const std::string> words, int input, int output);
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  ~child_process();

  /// Waits for its end. Returns the status of waitpid.
  int wait() noexcept;
  void kill() noexcept;

 private:
  pid_t id_ = -1;
};

/// For the process itself: it ends with its parent, and has none of the parent's descriptors. Returns the descriptor of
/// its answers, which were to go to standard output: what libraries and users' code print goes to standard error. Call
/// it before anything is opened.
[[nodiscard]] int become_child() noexcept;

/// True if somebody else ended the process, of a status of waitpid: it did not end by a fault of its own.
[[nodiscard]] bool was_ended_by_others(int status) noexcept;
/// How a process ended, of a status of waitpid: "ended with 3", "was ended by SIGSEGV (Segmentation fault)".
[[nodiscard]] std::string ending_text(int status);

}  // namespace penstock
