#pragma once

#include <chrono>

namespace penstock {

/// How long no shard must have had messages to speak of before their memory goes back.
inline constexpr std::chrono::seconds message_memory_kept{10};

/// Has malloc keep the memory of messages that ZeroMQ frees, instead of giving it back to the system and having each
/// page of the next message faulted in again. For the whole process: called once, before it has other threads.
void keep_message_memory() noexcept;

/// There are messages whose memory is worth keeping. Thread: any.
void note_message_memory(std::chrono::steady_clock::time_point now) noexcept;

/// Gives what malloc has kept back to the system, but for the end of each thread's last heap, if nobody has noted any
/// for so long. Returns whether it did: once for each time that there was something. Thread: any.
bool return_message_memory(std::chrono::steady_clock::time_point now) noexcept;

/// How often to look for memory that is not used while others are served.
inline constexpr std::chrono::seconds message_memory_looks{2};

/// Gives what malloc has kept back to the system if much of it was free at each of the last looks: what a slow reader
/// or a burst has left. Thread: one and the same.
void return_unused_memory() noexcept;

}  // namespace penstock
