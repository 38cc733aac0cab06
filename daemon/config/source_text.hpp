#pragma once

#include <string>
#include <vector>

#include "daemon/config/setting.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/config/source_declaration.hpp"

namespace penstock {

/// The keys of [[source]], those of every type.
[[nodiscard]] const std::vector<setting<source_declaration>>& source_settings();

/// Reads the [[source]] tables and checks each against the pipelines and limits of `read`. `sources` is the node of
/// that key, `file` the configuration's name in messages. Throws configuration_error.
[[nodiscard]] std::vector<source_declaration> read_sources(const toml::node& sources, const std::string& file,
                                                           const settings& read);

/// The [[source]] table, which read_sources reads back to the same.
[[nodiscard]] std::string print_source(const source_declaration& source);

/// Whether both declare the same, wherever they stand, for pipelines with the same input.
[[nodiscard]] bool same_source(const source_declaration& left, const source_declaration& right);

/// What is allowed and yet likely to be a mistake: a sentence each, with the source's place.
[[nodiscard]] std::vector<std::string> doubts_about(const source_declaration& source,
                                                    const std::vector<pipeline_declaration>& pipelines);

/// "zmq-sub", "file".
[[nodiscard]] std::string_view name_of(source_type type) noexcept;

}  // namespace penstock
