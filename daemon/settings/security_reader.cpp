#include "daemon/settings/security_reader.hpp"

#include <chrono>
#include <string_view>

namespace penstock {
namespace {

void read_file(settings_table& table, std::string_view key, const std::filesystem::path& folder,
               std::filesystem::path& into) {
  std::string given;
  table.read(key, given);
  into = given.empty() ? std::filesystem::path{} : folder / given;
}

void read_mode(settings_table& table, std::uint32_t& into) {
  const toml::node* const node = table.find("ipc_mode");
  if (node == nullptr) {
    return;
  }
  const auto* const text = node->as_string();
  const std::string_view digits = text == nullptr ? std::string_view{} : std::string_view{text->get()};
  if (digits.size() != 4 || digits.front() != '0' || digits.find_first_not_of("01234567") != digits.npos) {
    table.refuse_value("ipc_mode", *node, "a file mode as four octal digits in quotes: \"0660\", \"0600\", \"0666\"");
  }
  into = static_cast<std::uint32_t>(std::stoul(text->get(), nullptr, 8));
}

}  // namespace

void read_security(settings_table table, const std::filesystem::path& folder, security_settings& into) {
  read_file(table, "secret_key_file", folder, into.secret_key_file);
  read_file(table, "authorized_keys_file", folder, into.authorized_keys_file);
  table.read("insecure_plaintext_beyond_loopback", into.insecure_plaintext_beyond_loopback);
  read_mode(table, into.ipc_mode);
  table.read("ipc_group", into.ipc_group);
  table.read("handshake_timeout", std::chrono::milliseconds(100), std::chrono::minutes(1), into.handshake_timeout);
  table.refuse_unknown();
  if (!into.secret_key_file.empty() && into.authorized_keys_file.empty()) {
    table.refuse_key("secret_key_file",
                     "a key without security.authorized_keys_file would let everybody in; name the list of those who "
                     "may connect");
  }
  if (into.secret_key_file.empty() && !into.authorized_keys_file.empty()) {
    table.refuse_key("authorized_keys_file",
                     "a list of keys without security.secret_key_file would keep nobody out; make a key with penstock "
                     "keygen");
  }
}

}  // namespace penstock
