#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/code/compiler.hpp"

namespace penstock {

enum class compile_status : std::uint8_t { done, code_is_wrong, no_compiler };

/// What it answers.
struct compile_reply {
  compile_status status = compile_status::done;
  std::string message;  ///< unless it is done
  machine_code code;
  std::string compiler;  ///< the file of the library that compiled
};

/// As texts, each after its length. Both ends are one program. Nothing where the text is cut or goes on.
[[nodiscard]] std::string encode_request(const compile_request& request);
[[nodiscard]] std::optional<compile_request> decode_request(std::string_view text);
[[nodiscard]] std::string encode_reply(const compile_reply& reply);
[[nodiscard]] std::optional<compile_reply> decode_reply(std::string_view text);

/// A text on the way through a pipe: its length, then its bytes.
[[nodiscard]] std::string framed(std::string_view text);
/// The text at the beginning of what came through a pipe; nothing if it is not whole yet.
[[nodiscard]] std::optional<std::string_view> framed_text(std::string_view received);

/// Reads a framed text. Nothing at the end, or when a read fails.
[[nodiscard]] std::optional<std::string> read_framed(int descriptor);

}  // namespace penstock
