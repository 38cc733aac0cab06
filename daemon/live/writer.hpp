#pragma once

#include <memory>

#include "daemon/config/sink_declaration.hpp"
#include "daemon/live/result_message.hpp"

namespace penstock::live {

/// The writer of a sink, by its type. Throws std::runtime_error when it can't begin now.
[[nodiscard]] std::unique_ptr<result_writer> make_writer(const sink_declaration& sink);

}  // namespace penstock::live
