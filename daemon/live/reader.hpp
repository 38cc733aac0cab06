#pragma once

#include <memory>

#include "daemon/config/source_declaration.hpp"
#include "daemon/live/sample_stream.hpp"

namespace penstock::live {

/// The reader for a source's type. `rate`: in, the configuration's, 0 for none; out, that of the file where it says
/// one. Throws std::runtime_error when it can't begin now.
[[nodiscard]] std::unique_ptr<sample_reader> make_reader(const source_declaration& source, double& rate);

}  // namespace penstock::live
