#pragma once

namespace penstock {

/// Has malloc keep the memory of messages that ZeroMQ frees, instead of giving it back to the system and having each
/// page of the next message faulted in again. For the whole process: called once, before it has other threads.
void keep_message_memory() noexcept;

}  // namespace penstock
