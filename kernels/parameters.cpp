#include "kernels/parameters.hpp"

#include <cmath>
#include <utility>

namespace penstock {
namespace {

const parameters::value& require(const parameters& settings, std::string_view key) {
  const parameters::value* const found = settings.find(key);
  if (found == nullptr) {
    throw parameter_error(std::string{key}, "is missing");
  }
  return *found;
}

[[noreturn]] void refuse(std::string_view key, std::string_view wanted) {
  throw parameter_error(std::string{key}, "must be " + std::string{wanted});
}

template <class Kind>
const Kind& as(const parameters::value& given, std::string_view key, std::string_view wanted) {
  const Kind* const held = std::get_if<Kind>(&given);
  if (held == nullptr) {
    refuse(key, wanted);
  }
  return *held;
}

double as_number(const parameters::value& given, std::string_view key) {
  if (const std::int64_t* const whole = std::get_if<std::int64_t>(&given)) {
    return static_cast<double>(*whole);
  }
  return as<double>(given, key, "a number");
}

}  // namespace

void parameters::set(std::string key, value given) {
  values_.insert_or_assign(std::move(key), std::move(given));
}

const parameters::value* parameters::find(std::string_view key) const noexcept {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

bool parameters::flag(std::string_view key, bool otherwise) const {
  const value* const found = find(key);
  return found == nullptr ? otherwise : as<bool>(*found, key, "true or false");
}

std::int64_t parameters::integer(std::string_view key, std::int64_t otherwise) const {
  const value* const found = find(key);
  return found == nullptr ? otherwise : as<std::int64_t>(*found, key, "an integer");
}

double parameters::number(std::string_view key, double otherwise) const {
  const value* const found = find(key);
  return found == nullptr ? otherwise : as_number(*found, key);
}

double parameters::number(std::string_view key) const {
  return as_number(require(*this, key), key);
}

std::string parameters::text(std::string_view key, std::string_view otherwise) const {
  const value* const found = find(key);
  return found == nullptr ? std::string{otherwise} : as<std::string>(*found, key, "a string");
}

std::string parameters::text(std::string_view key) const {
  return as<std::string>(require(*this, key), key, "a string");
}

std::vector<double> parameters::numbers(std::string_view key) const {
  return as<std::vector<double>>(require(*this, key), key, "a list of numbers");
}

std::vector<std::string> parameters::texts(std::string_view key) const {
  const value* const found = find(key);
  if (found == nullptr) {
    return {};
  }
  if (const auto* const all = std::get_if<std::vector<double>>(found)) {
    std::vector<std::string> texts;
    for (const double each : *all) {
      if (!(each >= -0x1p63 && each < 0x1p63) || std::trunc(each) != each) {
        refuse(key, "a list of strings and whole numbers");
      }
      texts.push_back(std::to_string(static_cast<std::int64_t>(each)));
    }
    return texts;
  }
  return as<std::vector<std::string>>(*found, key, "a list of strings");
}

const parameters& parameters::table(std::string_view key) const {
  static const parameters none;
  const value* const found = find(key);
  return found == nullptr ? none : *as<std::shared_ptr<const parameters>>(*found, key, "a table");
}

const std::shared_ptr<const number_file>& parameters::npy_file(std::string_view key) const {
  return as<std::shared_ptr<const number_file>>(require(*this, key), key, "the name of a .npy file");
}

const code_file& parameters::code(std::string_view key) const {
  return *as<std::shared_ptr<const code_file>>(require(*this, key), key, "a file of code");
}

}  // namespace penstock
