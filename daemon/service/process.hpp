#pragma once

#include <array>
#include <csignal>
#include <string>

namespace penstock {

/// Whether standard error goes to systemd's journal.
[[nodiscard]] bool journal_reads_stderr();
/// Makes the default log: to the journal with its priorities where that reads standard error, else to standard error
/// with time and level.
void open_log(const std::string& level);
/// Writes why the daemon does not start, with no log or before there is one.
void complain(const std::string& why);

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

/// The signals that the daemon serves.
inline constexpr std::array served_signals{SIGTERM, SIGINT, SIGHUP};

/// Before any other thread starts: from here on no thread is interrupted by a signal, but for those of its own faults,
/// and those that nobody means (SIGIO, SIGUSR1, ...) no longer end the process.
void block_signals() noexcept;
/// On this thread: the served ones come, and those that somebody sends from a terminal keep their meaning.
void unblock_served_signals() noexcept;
/// While they are blocked: whether one waits that ends the daemon.
[[nodiscard]] bool is_told_to_end() noexcept;

}  // namespace penstock
