#include "client/cli/admin_option.hpp"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace penstock::cli {
namespace {

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

bool is_any(const std::string& host) {
  return host == "0.0.0.0" || host == "::";
}

/// "" of a URL that is not TCP: that daemon is on this machine.
std::string host_of(const std::string& url) {
  constexpr std::string_view tcp = "tcp://";
  if (!url.starts_with(tcp)) {
    return "";
  }
  std::string host = url.substr(tcp.size(), url.rfind(':') - tcp.size());
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

}  // namespace

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

CLI::Option* add_admin_option(CLI::App& to, std::optional<admin_address>& into) {
  const auto read = [&into](const CLI::results_t& texts) {
    into = parse_admin_address(texts.back());
    return into.has_value();
  };
  return to
      .add_option("--admin", read,
                  "The daemon's admin HTTP: HOST:PORT, or unix:PATH; else the one that the daemon at --url names, or " +
                      text_of(default_admin_address()))
      ->type_name("ADDRESS")
      ->envname("PENSTOCK_ADMIN");
}

admin_address choose_admin_address(const std::string& status, const std::string& url) {
  const nlohmann::json body = nlohmann::json::parse(status, nullptr, /*allow_exceptions=*/false);
  const std::string daemon = "the daemon at " + url;
  if (!body.is_object() || !body.contains("admin") || !body["admin"].is_array()) {
    throw std::runtime_error(daemon + " does not say where its admin HTTP is: give --admin");
  }
  const std::string host = host_of(url);
  const bool is_here = host.empty() || is_loopback(host);
  std::string local;
  for (const nlohmann::json& each : body["admin"]) {
    auto address = each.is_string() ? parse_admin_address(each.get_ref<const std::string&>()) : std::nullopt;
    if (!address) {
      continue;
    }
    if (is_any(address->host)) {
      address->host = host.empty() ? "127.0.0.1" : host;
    }
    if (is_here || (address->path.empty() && !is_loopback(address->host))) {
      return *address;
    }
    local = text_of(*address);
  }
  throw std::runtime_error(
      local.empty() ? daemon + " has no admin HTTP: admin.listen in its configuration gives it one"
                    : daemon + " has its admin HTTP at " + local +
                          ", for its own machine alone: call penstock there, or forward it and give --admin");
}

}  // namespace penstock::cli
