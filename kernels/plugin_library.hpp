#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/plugin.h>

#include "kernels/parameters.hpp"

namespace penstock {

/// A plug-in's shared library. It stays loaded for the life of the process.
struct plugin_library {
  std::vector<const ps_operator*> operators;  ///< at least one; each has all functions and a name of its own
  std::string sha256{};                       ///< of its bytes, in 64 digits
};

/// The library can't be used. what() says why, without its name.
class plugin_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Loads a shared library from its bytes, so that what was judged is what runs. The same bytes are loaded once,
/// whatever their file is called. The library's own initializers run. Threads: any. Throws plugin_error.
[[nodiscard]] std::shared_ptr<const plugin_library> load_plugin(std::string_view bytes);

/// The SHA-256 of what a file of users' code brings: its bytes, or those of its library, and the state of its headers.
[[nodiscard]] std::string digest_of(const code_file& file);

}  // namespace penstock
