#pragma once

#include "client/cli/input_stream.hpp"

namespace penstock::cli {

/// The first SIGINT, SIGTERM or SIGHUP ends the stream like the end of the input, the second ends the program. Ignored
/// signals, as under nohup, stay ignored. `stop` is valid until the program ends.
void end_stream_on_signals(stop_event& stop);

}  // namespace penstock::cli
