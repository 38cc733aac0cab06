#pragma once

#include <string_view>

namespace penstock {

/// What a library calls to have the destructor of a thread_local variable run: GCC's and Clang's C++ ABI.
inline constexpr std::string_view at_thread_exit_function = "__cxa_thread_atexit";

/// The same for libraries that are unloaded while the threads go on that ran them.
///
/// libstdc++'s keeps a library loaded until each thread has ended that has one of its variables, and a daemon's workers
/// end with the daemon. With this one, a variable is destroyed when its thread ends or its library is unloaded,
/// whichever comes first. A library must not be unloaded while a thread runs it.
///
/// Returns 0, or -1 if there is no memory: then the variable is never destroyed. Threads: any.
int destroy_at_thread_exit(void (*destroy)(void*), void* variable, void* library) noexcept;

}  // namespace penstock
