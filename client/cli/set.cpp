#include <array>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/quantity.hpp"
#include "client/cli/admin_http.hpp"
#include "client/cli/commands.hpp"

namespace penstock::cli {
namespace {

struct set_options {
  std::optional<admin_address> admin;
  std::string pipeline;
  std::vector<std::string> numbers;  ///< STAGE.NAME=VALUE
  bool everywhere = false;
};

std::string target_of(const set_options& options) {
  if (options.numbers.empty()) {
    return "/api/v1/values?pipeline=" + options.pipeline;
  }
  std::string target = "/api/v1/set?pipeline=" + options.pipeline + "&set=";
  for (const std::string& each : options.numbers) {
    std::string setting = each;
    setting.replace(setting.find('='), 1, ":");
    target += (&each == options.numbers.data() ? "" : ",") + setting;
  }
  return target + (options.everywhere ? "&everywhere=1" : "");
}

/// The shortest that is read as the same number.
std::string text_of(double number) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  return {digits.data(), end};
}

int set(const global_options& global, const set_options& options) {
  const admin_address admin = admin_address_of(global, options.admin);
  const http_answer answer = options.numbers.empty() ? admin_get(admin, target_of(options), global.timeout)
                                                     : admin_post(admin, target_of(options), global.timeout);
  const nlohmann::json body = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (answer.status != 200 || !body.is_object() || !body.contains("values")) {
    const bool has_error = body.is_object() && body.contains("error") && body["error"].is_string();
    constexpr int late = 504;  // what was asked for is done later
    std::cerr << "penstock: " << (options.numbers.empty() || answer.status == late ? "" : "not set: ")
              << (has_error ? body["error"].get<std::string>() : answer.body.substr(0, answer.body.find('\n'))) << "\n";
    return EXIT_FAILURE;
  }
  if (body["values"].empty()) {
    std::cout << "no number of \"" << options.pipeline << "\" is tunable\n";
  }
  for (const nlohmann::json& each : body["values"]) {
    std::cout << each.value("stage", "") << "." << each.value("name", "") << " = " << text_of(each.value("value", 0.0))
              << "\n";
  }
  return EXIT_SUCCESS;
}

/// Letters that need no escape in a URL.
std::string check_name(const std::string& text) {
  constexpr const char* letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+=";
  return !text.empty() && text.find_first_not_of(letters) == std::string::npos ? ""
                                                                               : "\"" + text + "\" is no such name";
}

std::string check_setting(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || text.substr(0, equals).find('.') == std::string::npos ||
      !check_name(text.substr(0, equals)).empty()) {
    return "\"" + text + "\" is not STAGE.NAME=VALUE";
  }
  const std::string value = text.substr(equals + 1);
  const bool good = value == "default" || parse_number<double>(value.substr(value.starts_with('+') ? 1 : 0));
  return good ? "" : "\"" + value + "\" is no finite number, nor \"default\"";
}

}  // namespace

void declare_set(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "set",
      "Sets tunable numbers of a pipeline while its sessions go on, or shows them; sessions that have set their "
      "own keep them");
  const auto options = std::make_shared<set_options>();
  command->add_option("pipeline", options->pipeline, "Its name")->required()->check(check_name);
  command
      ->add_option("numbers", options->numbers,
                   "STAGE.NAME=VALUE, such as gain.a=2.5; \"default\" as the value stands for the configuration's")
      ->check(check_setting);
  command->add_flag("--everywhere", options->everywhere, "Also in sessions that have set their own");
  add_admin_option(*command, options->admin);
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return set(global, *options); }; });
}

}  // namespace penstock::cli
