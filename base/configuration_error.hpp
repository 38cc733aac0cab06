#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace penstock {

/// A line of the configuration file; 0 when there is none.
struct source_position {
  std::string file;
  std::uint32_t line = 0;
};

/// The configuration is wrong. what() reads "penstock.toml:12: pipeline 'spectrum', stage 'psd', field 'window': ...".
class configuration_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a configuration error is about. The message leaves out empty parts.
struct configuration_place {
  source_position position;
  std::string pipeline;
  std::string stage;
  std::string field;
  std::string source{};  ///< of [[source]]
  std::string sink{};    ///< of [[sink]]

  /// "penstock.toml:12: pipeline 'spectrum', stage 'psd', field 'window'".
  [[nodiscard]] std::string text() const;
};

/// Throws the configuration_error "PLACE: MESSAGE".
[[noreturn]] void refuse(const configuration_place& place, const std::string& message);

/// The candidate with the smallest edit distance to `given` (letters added, dropped, replaced, or swapped with the
/// next), case aside; the first of equals. Empty when none is near enough to be a typing error.
[[nodiscard]] std::string_view nearest_name(std::string_view given, std::span<const std::string_view> candidates);

/// The end of an error on an unknown name: "; did you mean 'streams'?", else "; known: a, b, c", else "".
[[nodiscard]] std::string suggestion(std::string_view given, std::span<const std::string_view> candidates);

}  // namespace penstock
