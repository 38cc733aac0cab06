#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include <sys/socket.h>

namespace penstock {

/// The processors and the memory that this process may use. Control groups of version 1 and 2 count: the process's own
/// and those above it, as far as they are mounted here.
struct machine_share {
  std::size_t processors = 1;       ///< by affinity, and by the smallest CPU quota, rounded up
  std::size_t memory_bytes = 0;     ///< the machine's, or the smallest limit of a group
  std::size_t available_bytes = 0;  ///< of these, what can still be allocated without swapping
};

/// As the kernel reports it now. What can't be read sets no limit.
[[nodiscard]] machine_share read_machine_share();
/// The same from /proc and /sys/fs/cgroup below `root`; `affinity` is the number of processors in the affinity mask.
[[nodiscard]] machine_share read_machine_share(const std::filesystem::path& root, std::size_t affinity);

// The process's file descriptors. The last few below the limit are reserved for the admin endpoint, a reload and the
// device: a client's connection that would take one of them is closed at once. Threads: any.

/// Raises the soft limit, by default 1024, to the hard limit. Called once, before there are other threads; it also
/// opens the descriptor that `accept_connection` holds in reserve. False where the system refuses.
bool raise_descriptor_limit() noexcept;

/// Whether the descriptor is one of the reserved ones. The system always gives the lowest that is free.
[[nodiscard]] bool is_among_the_last(int descriptor) noexcept;
/// Whether the next descriptor would be a reserved one, or there is none.
[[nodiscard]] bool descriptors_are_short() noexcept;
/// The soft limit.
[[nodiscard]] std::size_t descriptor_limit() noexcept;
/// Connections with this descriptor or a higher one are refused, since daemon/net/connection_limits.hpp can't watch
/// them.
inline constexpr std::size_t most_watched_descriptors = 65536;
/// The daemon does not start below this limit: libzmq 4.3.4 aborts the process when its threads get no descriptor.
inline constexpr std::size_t least_descriptors = 128;

/// As `accept4`, but a connection that would get a reserved descriptor is closed, so that the listening socket does not
/// stay readable, and the call fails with ENFILE. Where there is no descriptor at all, the one in reserve is used for
/// that. (libzmq 4.3.4 polls its listening socket again at once after a failure, and aborts the process when accept at
/// an ipc endpoint fails with EMFILE.)
[[nodiscard]] int accept_connection(int listening, sockaddr* address, socklen_t* size, int flags) noexcept;

/// How many connections `accept_connection` has closed.
[[nodiscard]] std::uint64_t connections_turned_away() noexcept;

}  // namespace penstock
