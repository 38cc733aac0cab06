#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/code/compiler.hpp"

namespace penstock {

/// What the compiler's process is asked.
struct compile_request {
  user_code code;
  std::string architecture;
};

enum class compile_status : std::uint8_t { done, code_is_wrong, no_compiler };

/// What it answers.
struct compile_reply {
  compile_status status = compile_status::done;
  std::string message;  ///< unless it is done
  machine_code code;
};

/// As texts, each after its length. Both ends are one program. Nothing where the text is cut or goes on.
[[nodiscard]] std::string encode_request(const compile_request& request);
[[nodiscard]] std::optional<compile_request> decode_request(std::string_view text);
[[nodiscard]] std::string encode_reply(const compile_reply& reply);
[[nodiscard]] std::optional<compile_reply> decode_reply(std::string_view text);

/// Reads until the other end is closed. Nothing when a read fails.
[[nodiscard]] std::optional<std::string> read_everything(int descriptor);
/// False when a write fails.
[[nodiscard]] bool write_everything(int descriptor, std::string_view text) noexcept;

}  // namespace penstock
