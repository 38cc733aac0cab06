#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include "base/descriptors.hpp"

namespace penstock {

/// Who may connect to an ipc endpoint: those who may write its file.
struct ipc_access {
  mode_t mode = 0660;
  std::optional<gid_t> group;  ///< the process's own if there is none
};

/// The group of that name; nothing for "". Throws configuration_error when the machine has no such group.
[[nodiscard]] std::optional<gid_t> group_of(const std::string& name);

/// A listening Unix socket and its file, which is removed at the end. The file never has more permissions than asked
/// for, not even while it is made.
class ipc_listener {
 public:
  /// Replaces the socket of an earlier process, but not one that somebody listens on, nor a file that is no socket.
  /// Throws std::runtime_error, which says what is in the way.
  ipc_listener(std::string path, const ipc_access& access);
  ipc_listener(ipc_listener&& other) noexcept;
  ipc_listener& operator=(ipc_listener&&) = delete;
  ~ipc_listener();

  /// The descriptor, which the caller closes.
  [[nodiscard]] int release() noexcept { return descriptor_.release(); }

 private:
  void listen(const ipc_access& access);
  void remove() noexcept;

  std::string path_;
  file_descriptor descriptor_;
  dev_t device_ = 0;  // with inode_: identifies our file, if any
  ino_t inode_ = 0;
};

}  // namespace penstock
