#pragma once

#include <memory>

#include "daemon/config/sink_declaration.hpp"
#include "daemon/live/result_message.hpp"

namespace penstock::live {

/// Writes results to files, whose paths are the messages' names. A file that is there is continued: what is behind its
/// last whole result is cut off first. At most so many are open at a time.
inline constexpr std::size_t most_open_files = 64;

/// Bytes as they are.
[[nodiscard]] std::unique_ptr<result_writer> make_file_writer();
/// SigMF recordings: a capture where a stream begins, and after each gap and epoch. A sample is an item.
[[nodiscard]] std::unique_ptr<result_writer> make_recording_writer();

}  // namespace penstock::live
