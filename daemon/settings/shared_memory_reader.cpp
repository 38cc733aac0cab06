#include "daemon/settings/shared_memory_reader.hpp"

namespace penstock {
namespace {

// What the system takes: sockaddr_un has room for so many bytes, the last of them 0.
constexpr std::size_t longest_name = 107;

}  // namespace

void read_shared_memory(settings_table table, shared_memory_settings& into) {
  constexpr std::size_t most = std::size_t{1} << 40U;
  table.read_size("max_bytes", 0, most, into.max_bytes);
  table.read_size("max_client_bytes", 4096, most, into.max_client_bytes);
  table.read("socket", into.socket);
  table.refuse_unknown();
  const bool named = into.socket.starts_with('/') || (into.socket.starts_with('@') && into.socket.size() > 1);
  if ((!into.socket.empty() && !named) || into.socket.size() > longest_name) {
    table.refuse_key("socket",
                     "\"" + into.socket +
                         "\" is given; allowed is the path of a socket, from / on, or \"@NAME\", of at most " +
                         std::to_string(longest_name) + " bytes, or \"\" for a name that the daemon chooses");
  }
}

}  // namespace penstock
