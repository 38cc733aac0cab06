#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// What became of a reload, and which configuration is served after it.
struct reload_outcome {
  bool changed = false;  ///< another configuration than before is served
  std::uint64_t version = 1;
  std::string hash;
  std::string error;  ///< why the new one was refused; "" when it was not
};

}  // namespace penstock
