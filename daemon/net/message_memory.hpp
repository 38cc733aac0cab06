#pragma once

#include <chrono>

namespace penstock {

/// After this long without substantial traffic on any shard, malloc returns the memory of messages to the system.
inline constexpr std::chrono::seconds message_memory_kept{10};

/// Makes malloc keep the memory of messages that ZeroMQ frees. Otherwise it would return it to the system, and every
/// page of the next message would fault. Call it once, before the process has other threads.
void keep_message_memory() noexcept;

/// Tells that there is substantial traffic now, so that its memory is kept. Any thread.
void note_message_memory(std::chrono::steady_clock::time_point now) noexcept;

/// If no traffic was noted for `message_memory_kept`, returns the kept memory to the system (not the end of each
/// thread's last heap), once for each period of traffic. Returns whether it did. Any thread.
bool return_message_memory(std::chrono::steady_clock::time_point now) noexcept;

/// How often to call `return_unused_memory`.
inline constexpr std::chrono::seconds message_memory_looks{2};

/// Returns kept memory to the system if much of it was free in this call and the one before, as after a burst. Call it
/// always from the same thread.
void return_unused_memory() noexcept;

}  // namespace penstock
