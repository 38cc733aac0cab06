#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tests/bench/echo_server.hpp"
#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/floors/trial.hpp"
#include "tests/bench/hand_server/hand_server.hpp"
#include "tests/bench/race.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {

/// A load over ZeroMQ, and who gets it beside an echo and a daemon with callbacks.
struct gauge {
  const char* name;
  const char* transport;
  std::size_t bytes;  ///< of a frame
  std::uint32_t frames;
  std::size_t clients;
  std::size_t in_flight;  ///< of each
  bool by_hand = false;   ///< a server by hand too
  bool polled = false;    ///< a daemon with `completion = "poll"` too
};

/// Beside the echo of the same turn, and the server by hand.
class socket_trial : public trial {
 public:
  explicit socket_trial(const gauge& of);

  void connect() override;
  void turn() override;
  void add_ratios(std::map<std::string, spread>& to) const override;

 private:
  [[nodiscard]] std::unique_ptr<testing::daemon_process> start_daemon(const char* completion);
  void add(const char* name, const std::string& endpoint, bool hello);

  gauge of_;
  endpoint_source endpoints_;
  echo_server echo_;
  std::unique_ptr<hand_server> hand_;
  std::unique_ptr<testing::daemon_process> callback_;
  std::unique_ptr<testing::daemon_process> poll_;
  race race_;
};

}  // namespace penstock::bench
