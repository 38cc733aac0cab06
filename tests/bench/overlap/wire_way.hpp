#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <penstock/client.hpp>

#include "tests/bench/overlap/overlap_ways.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {

/// The whole daemon, in a process of its own, over ZeroMQ on the loopback address: one request a chunk from the C++
/// client. The payload crosses the socket twice on its way, and is copied into the slot.
class wire_way final : public overlap_way {
 public:
  wire_way(const std::string& backend, const overlap_work& what, std::size_t chunks);

  double run() override;

 private:
  testing::daemon_process daemon_;
  client client_;
  std::size_t chunks_;
  std::size_t chunk_rows_;
  std::vector<float> input_;
};

}  // namespace penstock::bench
