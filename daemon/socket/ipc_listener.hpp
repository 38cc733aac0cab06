#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

namespace penstock {

/// Who may connect to an ipc endpoint: whoever may write its file.
struct ipc_access {
  mode_t mode = 0660;
  std::optional<gid_t> group;  ///< the process's own where there is none
};

/// The group of that name; nothing for "". Throws configuration_error when there is no such group.
[[nodiscard]] std::optional<gid_t> group_of(const std::string& name);

/// A listening socket in the file system. Its file is never more open than it is meant to be, from the moment at which
/// it is there, and goes with this object.
class ipc_listener {
 public:
  /// Takes the place of a file that an earlier process has left behind, but not of one that somebody listens on, nor of
  /// one that is no socket. Throws std::runtime_error, which says what is in the way.
  ipc_listener(std::string path, const ipc_access& access);
  ipc_listener(ipc_listener&& other) noexcept;
  ipc_listener& operator=(ipc_listener&&) = delete;
  ~ipc_listener();

  /// The descriptor; whoever takes it closes it.
  [[nodiscard]] int release() noexcept;

 private:
  void listen(const ipc_access& access);
  void remove() noexcept;

  std::string path_;
  int descriptor_ = -1;
  dev_t device_ = 0;  // with inode_: which file is ours, if any
  ino_t inode_ = 0;
};

}  // namespace penstock
