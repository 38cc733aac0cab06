#include "tests/bench/affine_configuration.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace penstock::bench {
namespace {

constexpr std::size_t default_batch_bytes = std::size_t{8} << 20U;

}  // namespace

std::string affine_configuration::text() const {
  const std::size_t most = *std::max_element(floats.begin(), floats.end()) * sizeof(float) * frames;
  std::string made = fmt::format(
      "config_version = 1\n[daemon]\nlog_level = \"warn\"\n"
      "[device]\nstreams = {}\nshards = {}\nslots = {}\n"
      "[clients]\nmax_clients = 2048\ncredit_requests = 1024\ncredit_bytes = \"1 GiB\"\n"
      "max_request_bytes = \"128 MiB\"\nreply_queue_bytes = \"1 GiB\"\n"
      "[shared_memory]\nmax_bytes = \"2 GiB\"\nmax_client_bytes = \"1 GiB\"\n",
      streams, shards, std::max(16, 2 * streams));
  for (std::size_t at = 0; at < floats.size(); ++at) {
    made += fmt::format(
        "[[pipeline]]\nname = \"y{}\"\ninput = {{ dtype = \"f32\", shape = [{}] }}\nbatch = {{ max_bytes = {} }}\n"
        "[[pipeline.stage]]\nname = \"y\"\nop = \"affine\"\na = 2.0\nb = 1.0\n",
        at, floats[at], std::max(most, default_batch_bytes));
  }
  return made;
}

}  // namespace penstock::bench
