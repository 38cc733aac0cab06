#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/floors/trial.hpp"
#include "tests/bench/shared/both_ways.hpp"
#include "tests/bench/shared/lent_loop.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {

/// Frames of 1 MiB in memory that a client shares with the daemon, beside copies of as many bytes in and out at the
/// same time in the same turn. What a batch of them does is two copies and the work between, all of it at the pace of
/// the memory on the host too, so that one copy more shows. The raw echo would be no measure: it sends each frame
/// through a socket twice, and such a ratio is the socket's.
class shared_trial : public trial {
 public:
  shared_trial();

  void connect() override;
  void turn() override;
  void add_ratios(std::map<std::string, spread>& to) const override;

 private:
  endpoint_source endpoints_;
  testing::daemon_process daemon_;
  std::optional<both_ways> copies_;
  std::optional<lent_loop> client_;
  std::vector<double> of_copies_;
};

}  // namespace penstock::bench
