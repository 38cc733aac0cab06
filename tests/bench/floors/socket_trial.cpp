#include "tests/bench/floors/socket_trial.hpp"

#include <string>

#include "tests/bench/affine_configuration.hpp"
#include "tests/bench/floors/spans.hpp"

namespace penstock::bench {

socket_trial::socket_trial(const gauge& of)
    : of_(of), echo_(endpoints_.of(of.transport)), callback_(start_daemon("callback")) {
  if (of.by_hand) {
    hand_ = std::make_unique<hand_server>(endpoints_.of(of.transport), hand_way::inline_host, of.bytes * of.frames);
  }
  if (of.polled) {
    poll_ = start_daemon("poll");
  }
}

std::unique_ptr<testing::daemon_process> socket_trial::start_daemon(const char* completion) {
  return std::make_unique<testing::daemon_process>(testing::daemon_options{
      "host", completion, affine_configuration{.floats = {of_.bytes / sizeof(float)}, .frames = of_.frames}.text(),
      endpoints_.of(of_.transport)});
}

void socket_trial::connect() {
  add("echo", echo_.endpoint(), false);
  if (hand_ != nullptr) {
    add("hand", hand_->endpoint(), false);
  }
  add("daemon", callback_->endpoint(), true);
  if (poll_ != nullptr) {
    add("daemon that polls", poll_->endpoint(), true);
  }
  race_.warm_up(warm_up_span);
}

void socket_trial::turn() {
  race_.turn(turn_span);
}

// One at a time it is how much longer the other takes: 1 is as quick.
void socket_trial::add_ratios(std::map<std::string, spread>& to) const {
  const std::string name = of_.name;
  const bool single = of_.clients * of_.in_flight == 1;
  const auto ratio = [&](const std::string& who, const char* other, const std::string& other_name) {
    if (single) {
      to[name + ": p50 of the " + other_name + " / of the " + who] = spread_of(race_.latency_ratios(other, who));
    } else {
      to[name + ": " + who + " / " + other_name] = spread_of(race_.throughput_ratios(who, other));
    }
  };
  ratio("daemon", "echo", "echo");
  if (hand_ != nullptr) {
    ratio("daemon", "hand", "server by hand");
  }
  if (poll_ != nullptr) {
    ratio("daemon that polls", "echo", "echo");
  }
}

void socket_trial::add(const char* name, const std::string& endpoint, bool hello) {
  race_.add(name, {.endpoint = endpoint,
                   .hello = hello,
                   .floats = of_.bytes / sizeof(float),
                   .frames = of_.frames,
                   .clients = of_.clients,
                   .in_flight = of_.in_flight});
}

}  // namespace penstock::bench
