#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/settings/settings.hpp"
#include "daemon/shard/served_pipelines.hpp"
#include "daemon/shard/shard_directory.hpp"

namespace penstock {

/// What a shard tells its clients in WELCOME.
struct welcome_facts {
  const std::string& server;
  const std::string& instance;
  std::uint32_t shard = 0;         ///< the one that answers
  const shard_directory* among{};  ///< nullptr where it is the only one
  const served_pipelines& served;
  const client_settings& limits;
  std::size_t shared_bytes = 0;  ///< of memory that a client may share
};

/// The body for one client, with its token, if it has one, and whether it has its earlier place.
[[nodiscard]] std::string with_resume(const std::string& body, const std::string& token, bool resumed);

/// The JSON bodies of WELCOME for all clients, by the shard that they recommend. Throws configuration_error when there
/// are more pipelines than a message can describe.
[[nodiscard]] std::vector<std::string> welcome_bodies(const welcome_facts& of);

/// Such a body with other credits, in bytes.
[[nodiscard]] std::string with_credit_bytes(std::string_view body, std::size_t bytes);

}  // namespace penstock
