#include "daemon/shard/shard_directory.hpp"

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

std::vector<std::string> endpoints_of(const std::vector<std::string>& listen, std::uint32_t shard) {
  std::vector<std::string> own;
  for (const std::string& each : listen) {
    own.push_back(shard == 0 ? each : endpoint_of(each, shard));
  }
  return own;
}

}  // namespace penstock
