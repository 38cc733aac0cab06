#include <cstdlib>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "client/cli/admin_http.hpp"
#include "client/cli/commands.hpp"

namespace penstock::cli {
namespace {

int reload(const global_options& global, const admin_address& admin) {
  const http_answer answer = admin_post(admin, "/api/v1/reload", global.timeout);
  const nlohmann::json body = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const bool is_object = body.is_object();
  const auto member = [&](const char* key) {
    return is_object && body.contains(key) ? body[key].is_string() ? body[key].get<std::string>() : body[key].dump()
                                           : std::string();
  };
  const std::string served = "configuration " + member("version") + ", hash " + member("hash");
  if (answer.status == 200 && !member("version").empty()) {
    std::cout << served << (member("changed") == "false" ? ", as before: the file says nothing new\n" : "\n");
    return EXIT_SUCCESS;
  }
  const std::string reason = member("error").empty() ? answer.body.substr(0, answer.body.find('\n')) : member("error");
  const bool changed = member("changed") == "true";
  std::cerr << "penstock: not reloaded" << (changed ? " everywhere: " : ": ") << reason << "\n"
            << "The daemon goes on" << (member("version").empty() ? "" : " with " + served)
            << (changed ? ".\n" : " as before.\n");
  return EXIT_FAILURE;
}

}  // namespace

void declare_reload(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "reload", "Has the daemon read its configuration again; it takes all of it, or nothing and says why");
  const auto admin = std::make_shared<std::optional<admin_address>>();
  add_admin_option(*command, *admin);
  command->callback([&global, &chosen, admin] {
    chosen = [&global, admin] { return reload(global, admin_address_of(global, *admin)); };
  });
}

}  // namespace penstock::cli
