#include "daemon/settings/admin_reader.hpp"

#include <algorithm>

#include "daemon/settings/admin_address.hpp"

namespace penstock {
namespace {

constexpr const char* allowed_listen =
    "\"ADDRESS:PORT\" with a numeric address or localhost, \"unix:/PATH\", or \"\" for none";

/// The array's elements, or the one string; none for "" and [].
void read_listen(settings_table& table, admin_settings& into) {
  const toml::node* const node = table.find("listen");
  if (node == nullptr) {
    return;
  }
  const bool none = node->value_exact<std::string>() == "";
  const auto* const array = node->as_array();
  if (none || (array != nullptr && array->empty())) {
    into.listen.clear();
    return;
  }
  table.read("listen", into.listen);
}

void check_listen(const settings_table& table, const admin_settings& given) {
  for (const std::string& text : given.listen) {
    const std::optional<admin_address> address = parse_admin_address(text);
    if (!address) {
      table.refuse_key("listen", "\"" + text + "\" is given; allowed is " + allowed_listen);
    }
    if (std::count(given.listen.begin(), given.listen.end(), text) > 1) {
      table.refuse_key("listen", "\"" + text + "\" is given twice");
    }
    if (!address->is_local() && !given.insecure_beyond_loopback) {
      table.refuse_key("listen",
                       "\"" + text + "\" can be reached from beyond this machine, and whoever reaches it may " +
                           "read everything and reload; if that is wanted, say " + "insecure_beyond_loopback = true");
    }
  }
}

/// As a Host header can have it: letters, digits, '-' and '.'.
bool is_name(const std::string& text) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789-.";
  return !text.empty() && text.size() <= 253 && text.find_first_not_of(letters) == text.npos;
}

}  // namespace

void read_admin(settings_table table, admin_settings& into) {
  read_listen(table, into);
  table.read("names", into.names);
  for (const std::string& name : into.names) {
    if (!is_name(name)) {
      table.refuse_key("names", "\"" + name + "\" is given; allowed are hosts' names in small letters, without a port");
    }
  }
  table.read("insecure_beyond_loopback", into.insecure_beyond_loopback);
  table.refuse_unknown();
  check_listen(table, into);
}

void check_admin(const admin_settings& given) {
  const toml::table none;
  configuration_place place;
  check_listen(settings_table(none, place, "admin."), given);
}

}  // namespace penstock
