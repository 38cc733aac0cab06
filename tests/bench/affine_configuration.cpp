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
        "[[pipeline]]\nname = \"y{}\"\ninput = {{ dtype = \"f32\", shape = [{}] }}\nbatch = {{ max_bytes = {} }}\n", at,
        floats[at], std::max(most, default_batch_bytes));
    // The first one's result is what a client checks; those behind it leave it as it is.
    for (int stage = 1; stage <= stages; ++stage) {
      made += fmt::format("[[pipeline.stage]]\nname = \"{}\"\nop = \"affine\"\na = {}\nb = {}\n",
                          stage == stages ? "y" : fmt::format("y{}", stage), stage == 1 ? "2.0" : "1.0",
                          stage == 1 ? "1.0" : "0.0");
    }
  }
  return made;
}

}  // namespace penstock::bench
