#include "client/cli/admin_option.hpp"

namespace penstock::cli {

admin_address default_admin_address() {
  return {"127.0.0.1", "7680"};
}

std::string text_of(const admin_address& address) {
  if (!address.path.empty()) {
    return "unix:" + address.path;
  }
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + address.host + "]" : address.host) + ":" + address.port;
}

CLI::Option* add_admin_option(CLI::App& to, admin_address& into) {
  const auto read = [&into](const CLI::results_t& texts) {
    const auto parsed = parse_admin_address(texts.back());
    if (parsed) {
      into = *parsed;
    }
    return parsed.has_value();
  };
  return to.add_option("--admin", read, "The daemon's admin HTTP: HOST:PORT, or unix:PATH")
      ->type_name("ADDRESS")
      ->envname("PENSTOCK_ADMIN")
      ->default_str(text_of(into));
}

}  // namespace penstock::cli
