#pragma once

#include <memory>

#include "daemon/config/source_declaration.hpp"
#include "daemon/live/sample_stream.hpp"

namespace penstock::live {

/// Reads a file or standard input, at the source's pace, as one stream: SigMF with its gaps and times, .npy, what
/// libsndfile reads, else raw samples. Never converts: the file has the pipeline's type of samples. Throws
/// std::runtime_error when the file can't be read, or does not fit. `rate`: see make_reader.
[[nodiscard]] std::unique_ptr<sample_reader> make_file_reader(const source_declaration& source, double& rate);

}  // namespace penstock::live
