#pragma once

namespace penstock {

/// The process that made a Unix connection. Its end is not always the connection's: a child that it has forked holds
/// that too.
struct peer_process {
  /// Of the one at the other end.
  [[nodiscard]] static peer_process of(int connection) noexcept;

  /// Readable once it has ended, and the caller's to close; -1 where the kernel can't say (before 5.3), where it can't
  /// be seen from here (before 6.5, in another namespace), and when it is gone.
  int descriptor = -1;
  bool gone = false;
};

}  // namespace penstock
