#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace penstock {

/// A wrong parameter of a stage. `field` is its key in the configuration, or "" for the stage as a whole.
class parameter_error : public std::runtime_error {
 public:
  parameter_error(std::string field_name, const std::string& message)
      : std::runtime_error(message), field(std::move(field_name)) {}

  std::string field;
};

/// Never set. Its copy constructor makes the variant track whether it holds a value: without it, GCC 12 assumes that a
/// variant of strings and vectors always does, and destroys an object that was never constructed if a copy runs out of
/// memory.
struct no_parameter {
  no_parameter() = default;
  no_parameter(const no_parameter& /*other*/) noexcept {}
  no_parameter& operator=(const no_parameter& /*other*/) noexcept { return *this; }
  ~no_parameter() = default;

  friend bool operator==(const no_parameter& /*left*/, const no_parameter& /*right*/) noexcept { return true; }
};

struct plugin_library;
struct model_package;
class number_file;

/// A file of users' code that the configuration allows, as it was read.
struct code_file {
  std::string name;                                         ///< as the configuration gives it
  std::string path;                                         ///< as messages and the compiler call it
  std::string text;                                         ///< its bytes; none of a plug-in or a model
  std::shared_ptr<const plugin_library> library = nullptr;  ///< of a plug-in
  std::shared_ptr<const model_package> package = nullptr;   ///< of a model
  /// Stands for the headers that it may include, and changes with them.
  std::string headers{};
};

/// The parameters of one stage as the configuration gives them, without the keys that every stage has (`name`, `op`,
/// `from`). The getters throw parameter_error if a key is missing or has another type.
class parameters {
 public:
  using value = std::variant<bool, std::int64_t, double, std::string, std::vector<double>, std::vector<std::string>,
                             std::shared_ptr<const parameters>, std::shared_ptr<const code_file>,
                             std::shared_ptr<const number_file>, no_parameter>;

  void set(std::string key, value given);
  [[nodiscard]] bool has(std::string_view key) const noexcept { return find(key) != nullptr; }
  /// nullptr if the key is missing.
  [[nodiscard]] const value* find(std::string_view key) const noexcept;
  /// nullptr also if it holds another type.
  template <class Kind>
  [[nodiscard]] const Kind* find(std::string_view key) const noexcept {
    const value* const found = find(key);
    return found == nullptr ? nullptr : std::get_if<Kind>(found);
  }

  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const;
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  /// Accepts an integer too.
  [[nodiscard]] double number(std::string_view key, double otherwise) const;
  [[nodiscard]] double number(std::string_view key) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view key) const;
  /// Accepts numbers too, as the configuration writes them; empty if the key is missing.
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const;
  /// A table; an empty one if the key is missing.
  [[nodiscard]] const parameters& table(std::string_view key) const;
  [[nodiscard]] const code_file& code(std::string_view key) const;
  /// Never nullptr.
  [[nodiscard]] const std::shared_ptr<const number_file>& npy_file(std::string_view key) const;

  [[nodiscard]] auto begin() const noexcept { return values_.begin(); }
  [[nodiscard]] auto end() const noexcept { return values_.end(); }

 private:
  std::map<std::string, value, std::less<>> values_;
};

}  // namespace penstock
