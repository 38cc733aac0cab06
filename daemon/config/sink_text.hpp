#pragma once

#include <string>
#include <vector>

#include "daemon/config/setting.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/config/sink_declaration.hpp"

namespace penstock {

/// The keys of [[sink]], those of every type.
[[nodiscard]] const std::vector<setting<sink_declaration>>& sink_settings();

/// Reads the [[sink]] tables and checks each against the pipelines and sources of `read`. `sinks` is the node of that
/// key, `file` the configuration's name in messages. Throws configuration_error.
[[nodiscard]] std::vector<sink_declaration> read_sinks(const toml::node& sinks, const std::string& file,
                                                       const settings& read);

/// The [[sink]] table, which read_sinks reads back to the same.
[[nodiscard]] std::string print_sink(const sink_declaration& sink);

/// Whether both declare the same, wherever they stand, for the same outputs.
[[nodiscard]] bool same_sink(const sink_declaration& left, const sink_declaration& right);

/// What is allowed and yet likely to be a mistake: a sentence each, with the sink's place.
[[nodiscard]] std::vector<std::string> doubts_about(const sink_declaration& sink);

/// "zmq-pub", "file".
[[nodiscard]] std::string_view name_of(sink_type type) noexcept;

}  // namespace penstock
