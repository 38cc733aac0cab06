#include "daemon/config/live_keys.hpp"

#include "daemon/config/endpoint.hpp"

namespace penstock {
namespace {

/// HOST and PORT of "tcp://HOST:PORT" or "HOST:PORT".
std::string_view host_of(std::string_view address) {
  if (const std::size_t scheme = address.find("://"); scheme != address.npos) {
    address.remove_prefix(scheme + 3);
  }
  return address.substr(0, address.rfind(':'));
}

/// Why it is no "HOST:PORT"; "" when it is.
std::string fault_of_address(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  const std::string_view port = colon == address.npos ? "" : address.substr(colon + 1);
  const bool is_number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos;
  if (!is_number || std::stoi(std::string(port)) > 65535) {
    return "it does not end with a port, from 0 to 65535";
  }
  return colon == 0 ? "there is no host" : "";
}

/// A name that is not an address may be of any machine.
bool is_beyond_this_machine(std::string_view address) {
  return !address.starts_with("ipc://") && !address.starts_with("inproc://") && !is_loopback_host(host_of(address));
}

std::string fault_of(std::string_view key, const std::string& address, bool is_zmq) {
  if (!is_zmq) {
    return fault_of_address(address);
  }
  if (key == "bind") {
    return fault_of_endpoint(address);
  }
  if (address.starts_with("tcp://")) {
    return fault_of_address(std::string_view(address).substr(6));
  }
  return address.starts_with("ipc://") ? "" : "it is of no known transport";
}

}  // namespace

void check_addresses(const table_reader& table, std::string_view key, const std::vector<std::string>& addresses,
                     const address_rules& rules, const settings& read) {
  for (const std::string& each : addresses) {
    const std::string given = "\"" + each + "\" is ";
    if (const std::string fault = fault_of(key, each, rules.is_zmq); !fault.empty()) {
      table.refuse_key(key, given + "given; allowed is " +
                                (rules.is_zmq ? "tcp://HOST:PORT, ipc://PATH" : "HOST:PORT") + " (" + fault + ")");
    }
    if (is_beyond_this_machine(each) && !rules.encrypts && !read.security.insecure_plaintext_beyond_loopback) {
      table.refuse_key(key, given + "beyond this machine, and " + std::string(rules.plain_text) + "; " +
                                (rules.is_zmq ? "give the " + std::string(rules.kind) + " keys (secret_key_file), or"
                                              : std::string("if that is wanted,")) +
                                " say security.insecure_plaintext_beyond_loopback = true");
    }
  }
}

}  // namespace penstock
