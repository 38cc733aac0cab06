#pragma once

namespace penstock {

/// From now on an allocation by `new` that fails ends the process at once, with exit_code::out_of_memory and one line
/// on standard error: neither a start nor a check of a configuration goes on with a part of it. For good,
/// std::bad_alloc that nobody can catch (in a destructor, in a thread) ends it so as well, and not as a crash. To be
/// called before any library is initialized: needs nothing of them.
void end_when_out_of_memory() noexcept;

/// Once the daemon serves: an allocation that fails throws std::bad_alloc, so that what is in flight can be answered
/// before the process ends with the same code. Any thread.
void let_allocations_throw() noexcept;

/// Ends the process like that: no destructor runs, nothing is allocated.
[[noreturn]] void end_without_memory() noexcept;

}  // namespace penstock
