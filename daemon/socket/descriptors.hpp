#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/socket.h>

namespace penstock {

/// The process's descriptors. The last few below the limit are kept free of clients' connections, so that the admin
/// endpoint, a reload and the device still find some: a connection that would take one of those is closed at once.
/// As the limit is the process's, so is what is here. Threads: any.

/// As many as the hard limit allows: the soft one is 1024 by tradition, for programs that call select(2). Called once,
/// before there are other threads; takes the descriptor for `accept_connection` too. Returns false where the system
/// refuses.
bool raise_descriptor_limit() noexcept;

/// Whether this descriptor is one of the last: the system gives the lowest that is free.
[[nodiscard]] bool is_among_the_last(int descriptor) noexcept;
/// Whether the next one would be, or there is none.
[[nodiscard]] bool descriptors_are_short() noexcept;
/// How many may be open.
[[nodiscard]] std::size_t descriptor_limit() noexcept;
/// Below this limit a daemon can't start: libzmq 4.3.4 aborts the process where it finds none for a thread of its own.
inline constexpr std::size_t least_descriptors = 128;

/// As `accept4`, but takes no connection that would get one of the last descriptors: that one is
/// closed, so that the listening socket does not stay readable, and the caller told ENFILE. Where there is no
/// descriptor at all, the one that is held for this makes room. (libzmq 4.3.4 looks at its listening socket again at
/// once after a refusal, and aborts the process when accept at an ipc endpoint says EMFILE.)
[[nodiscard]] int accept_connection(int listening, sockaddr* address, socklen_t* size, int flags) noexcept;

/// How many connections `accept_connection` has closed.
[[nodiscard]] std::uint64_t connections_turned_away() noexcept;

}  // namespace penstock
