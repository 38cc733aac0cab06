#pragma once

#include <string>

namespace penstock {

/// Whether standard error goes to systemd's journal.
[[nodiscard]] bool journal_reads_stderr();
/// Makes the default log: to the journal with its priorities where that reads standard error, else to standard error
/// with time and level.
void open_log(const std::string& level);
/// Writes why the daemon does not start, with no log or before there is one.
void complain(const std::string& why);

}  // namespace penstock
