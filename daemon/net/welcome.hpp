#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/config/settings.hpp"
#include "daemon/net/shard_directory.hpp"
#include "daemon/pipeline/plan.hpp"

namespace penstock {

/// The contents of WELCOME.
struct welcome_facts {
  const std::string& server;
  const std::string& instance;
  std::uint32_t shard = 0;             ///< the one that answers
  const shard_directory* directory{};  ///< nullptr if there is only one shard
  const served_pipelines& served;
  const client_settings& limits;
  std::size_t shared_bytes = 0;  ///< that a client may share; 0: none
  std::size_t device_bytes = 0;  ///< the same of the memory of `device`
  std::string device{};
};

/// The body for one client: adds its token, if it has one, and whether it resumed its earlier place.
[[nodiscard]] std::string with_resume(const std::string& body, const std::string& token, bool resumed);

/// The JSON bodies of WELCOME, one for each shard that it may recommend. Throws configuration_error if the pipelines do
/// not fit into a message.
[[nodiscard]] std::vector<std::string> welcome_bodies(const welcome_facts& facts);

/// The body with other credits, in bytes.
[[nodiscard]] std::string with_credit_bytes(std::string_view body, std::size_t bytes);

}  // namespace penstock
