#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

enum class severity : std::uint8_t { good, warning, error };

/// The result of one check. Each text is one line; the last three are empty where all is well.
struct finding {
  std::string check;  ///< what was checked
  severity level = severity::good;
  std::string found;
  std::string needed{};
  std::string why{};  ///< why it matters
  std::string todo{};
};

/// The worst of them as an exit code: 0 all well, 1 warnings, 2 errors.
[[nodiscard]] int exit_code_of(const std::vector<finding>& findings) noexcept;

/// Text for a terminal of 80 columns.
[[nodiscard]] std::string text_of(const std::vector<finding>& findings);
/// {"exit_code", "warnings", "errors", "findings": [{"check", "severity", "found", "needed", "why", "todo"}]}
[[nodiscard]] std::string json_of(const std::vector<finding>& findings);
/// Reads what json_of wrote; nullopt for any other text.
[[nodiscard]] std::optional<std::vector<finding>> read_findings(std::string_view json);

}  // namespace penstock
