#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace penstock {

/// A stage's parameter has a wrong value; `field` is its key in the configuration ("" when it is the stage as a whole).
class parameter_error : public std::runtime_error {
 public:
  parameter_error(std::string field_name, const std::string& message)
      : std::runtime_error(message), field(std::move(field_name)) {}

  std::string field;
};

/// No parameter is one. That a value could be makes a variant of strings and vectors know when it holds nothing: GCC 12
/// takes it for one that always holds something, and destroys what was never made when a copy finds no memory.
struct no_parameter {
  no_parameter() = default;
  no_parameter(const no_parameter& /*other*/) noexcept {}
  no_parameter& operator=(const no_parameter& /*other*/) noexcept { return *this; }
  ~no_parameter() = default;

  friend bool operator==(const no_parameter& /*left*/, const no_parameter& /*right*/) noexcept { return true; }
};

/// The parameters of one stage as the configuration gives them, without the keys that every stage has
/// (`name`, `op`, `from`). The getters throw parameter_error when a key is missing or of another kind.
class parameters {
 public:
  using value = std::variant<bool, std::int64_t, double, std::string, std::vector<double>, no_parameter>;

  void set(std::string key, value what);
  [[nodiscard]] bool has(std::string_view key) const noexcept;

  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const;
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  /// An integer in the configuration is accepted as a number too.
  [[nodiscard]] double number(std::string_view key, double otherwise) const;
  [[nodiscard]] double number(std::string_view key) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view key) const;

  [[nodiscard]] auto begin() const noexcept { return values_.begin(); }
  [[nodiscard]] auto end() const noexcept { return values_.end(); }

 private:
  std::map<std::string, value, std::less<>> values_;
};

}  // namespace penstock
