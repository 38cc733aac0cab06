#include "daemon/shard/shard_directory.hpp"

#include <set>

#include "daemon/pipeline/declaration.hpp"

namespace penstock {
namespace {

constexpr int last_port = 65535;

std::string endpoint_of(const std::string& configured, std::uint32_t shard) {
  if (!configured.starts_with("tcp://")) {
    return configured + "." + std::to_string(shard);
  }
  const std::size_t colon = configured.rfind(':');
  const std::string port = configured.substr(colon + 1);
  if (port == "*" || port == "0") {
    return configured;
  }
  const int number = std::stoi(port) + static_cast<int>(shard);
  if (number > last_port) {
    throw configuration_error("daemon.listen: shard " + std::to_string(shard) + " would listen on port " +
                              std::to_string(number) + "; give \"" + configured + "\" a lower one");
  }
  return configured.substr(0, colon + 1) + std::to_string(number);
}

}  // namespace

std::vector<std::vector<std::string>> endpoints_of_all(const std::vector<std::string>& listen, std::size_t shards) {
  std::vector<std::vector<std::string>> all{listen};
  std::set<std::string> taken(listen.begin(), listen.end());
  for (std::uint32_t shard = 1; shard < shards; ++shard) {
    std::vector<std::string>& own = all.emplace_back();
    for (const std::string& each : listen) {
      own.push_back(endpoint_of(each, shard));
      // Any free port may be asked for as often as one likes.
      if (own.back() != each && !taken.insert(own.back()).second) {
        throw configuration_error("daemon.listen: shard " + std::to_string(shard) + " would listen on \"" + own.back() +
                                  "\", which is taken; give other endpoints");
      }
    }
  }
  return all;
}

}  // namespace penstock
