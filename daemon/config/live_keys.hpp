#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_file.hpp"
#include "daemon/config/setting.hpp"

namespace penstock {

// What [[source]] and [[sink]] have in common.

/// A text; "" is left out.
struct left_out_kind : text_kind {
  [[nodiscard]] std::string print(const std::string& value) const { return value.empty() ? "" : toml_string(value); }
};

/// A file; none is left out.
struct left_out_file_kind : file_kind {
  [[nodiscard]] std::string print(const std::filesystem::path& value) const {
    return value.empty() ? "" : file_kind::print(value);
  }
};

/// A number above 0; none is left out.
struct rate_kind {
  [[nodiscard]] std::string summary() const { return "number above 0"; }
  void read(table_reader& table, std::string_view key, double& value) const {
    const toml::node* node = table.find(key);
    if (node == nullptr) {
      return;
    }
    constexpr double most = 1e12;
    const std::optional<double> given = node->value<double>();
    if (!node->is_number() || !given || !(*given > 0) || *given > most) {
      table.refuse_value(key, *node, "a number of samples per second, above 0 and at most 1e12");
    }
    value = *given;
  }
  [[nodiscard]] std::string print(double value) const { return value == 0 ? "" : toml_real(value); }
};

/// Of the addresses that a source or sink has.
struct address_rules {
  bool is_zmq = false;
  bool encrypts = false;
  std::string_view kind;        ///< "source", "sink"
  std::string_view plain_text;  ///< what is wrong with one beyond this machine
};

/// Refuses what is no address, and one beyond this machine, where plain text goes, unless
/// security.insecure_plaintext_beyond_loopback is set.
void check_addresses(const table_reader& table, std::string_view key, const std::vector<std::string>& addresses,
                     const address_rules& rules, const settings& read);

/// Refuses keys of CURVE that don't fit: with keys a socket is either the one that is connected to, or not.
template <typename Declaration>
void check_socket_keys(const table_reader& table, const Declaration& declared, const std::string& kind) {
  const auto refuse_without = [&](const char* key, bool given, const char* other) {
    if (given) {
      table.refuse_key(key, std::string("is given without ") + other + ", and would have no effect");
    }
  };
  refuse_without("server_key", !declared.server_key.empty() && !declared.encrypts(), "secret_key_file");
  refuse_without("authorized_keys_file", !declared.authorized_keys_file.empty() && !declared.encrypts(),
                 "secret_key_file");
  if (!declared.encrypts()) {
    return;
  }
  if (!declared.connect.empty() && !declared.bind.empty()) {
    table.refuse_key("secret_key_file", "a " + kind + " with keys has connect or bind, and not both");
  }
  refuse_without("server_key", !declared.server_key.empty() && declared.connect.empty(), "connect");
  refuse_without("authorized_keys_file", !declared.authorized_keys_file.empty() && declared.bind.empty(), "bind");
  if (!declared.connect.empty() && !is_key_text(declared.server_key)) {
    table.refuse_key("server_key", declared.server_key.empty()
                                       ? "is missing: the public key of who the " + kind + " connects to"
                                       : "is no public key: 40 letters of Z85, as penstock keygen prints it");
  }
  if (!declared.bind.empty() && declared.authorized_keys_file.empty()) {
    table.refuse_key("authorized_keys_file", "is missing: a key without it would let everybody in");
  }
}

}  // namespace penstock
