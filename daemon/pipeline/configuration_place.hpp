#pragma once

#include <string>

#include "daemon/pipeline/declaration.hpp"

namespace penstock {

/// What a configuration error is about. Empty parts are left out of the message.
struct configuration_place {
  source_position position;
  std::string pipeline;
  std::string stage;
  std::string field;

  /// "penstock.toml:12: pipeline 'spectrum', stage 'psd', field 'window'".
  [[nodiscard]] std::string text() const;
};

/// Throws the configuration_error "PLACE: MESSAGE".
[[noreturn]] void refuse(const configuration_place& place, const std::string& message);

}  // namespace penstock
