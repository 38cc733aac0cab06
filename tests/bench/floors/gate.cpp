#include "tests/bench/floors/gate.hpp"

#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "tests/bench/affine_configuration.hpp"
#include "tests/bench/echo_server.hpp"
#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/floors/floors.hpp"
#include "tests/bench/hand_server/hand_server.hpp"
#include "tests/bench/page.hpp"
#include "tests/bench/race.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds span{400};
constexpr milliseconds warm_span{150};

/// A load whose ratio has a floor.
struct gauge {
  const char* name;
  const char* transport;
  std::size_t bytes;  ///< of a frame
  std::uint32_t frames;
  std::size_t clients;
  std::size_t in_flight;  ///< of each
};

constexpr gauge gauges[] = {
    {"256 B, one client", "tcp", 256, 1, 1, 64},
    {"256 B, 32 clients", "tcp", 256, 1, 32, 8},
    {"256 B records, 64 to a request", "tcp", 256, 64, 1, 16},
    {"4 KiB, 8 clients", "tcp", 4096, 1, 8, 16},
    {"64 KiB", "tcp", 65536, 1, 2, 8},
    {"64 KiB over ipc", "ipc", 65536, 1, 2, 8},
    {"1 MiB", "tcp", 1U << 20U, 1, 2, 4},
    {"4 KiB, one at a time", "tcp", 4096, 1, 1, 1},
};

/// An echo, a daemon and a server by hand, and the turns that they take under one load.
class trial {
 public:
  explicit trial(const gauge& of)
      : of_(of),
        echo_(endpoints_.of(of.transport)),
        hand_(endpoints_.of(of.transport), hand_way::inline_host, of.bytes * of.frames),
        daemon_({"host", "callback",
                 affine_configuration{.floats = {of.bytes / sizeof(float)}, .frames = of.frames}.text(),
                 endpoints_.of(of.transport)}) {}

  void connect() {
    add("echo", echo_.endpoint(), false);
    add("hand", hand_.endpoint(), false);
    add("daemon", daemon_.endpoint(), true);
    race_.warm_up(warm_span);
  }
  void turn() { race_.turn(span); }

  void add_ratios(std::map<std::string, double>& to) const {
    const std::string name = of_.name;
    if (of_.clients * of_.in_flight == 1) {  // how much longer the echo takes: 1 is as quick
      to[name + ": p50 of the echo / of the daemon"] = spread_of(race_.latency_ratios("echo", "daemon")).median;
      to[name + ": p50 of the server by hand / of the daemon"] =
          spread_of(race_.latency_ratios("hand", "daemon")).median;
      return;
    }
    to[name + ": daemon / echo"] = spread_of(race_.throughput_ratios("daemon", "echo")).median;
    if (of_.frames == 1 && of_.clients > 1 && of_.bytes == 256) {
      to[name + ": daemon / server by hand"] = spread_of(race_.throughput_ratios("daemon", "hand")).median;
    }
  }

 private:
  void add(const char* name, const std::string& endpoint, bool hello) {
    race_.add(name, {.endpoint = endpoint,
                     .hello = hello,
                     .floats = of_.bytes / sizeof(float),
                     .frames = of_.frames,
                     .clients = of_.clients,
                     .in_flight = of_.in_flight});
  }

  const gauge& of_;
  endpoint_source endpoints_;
  echo_server echo_;
  hand_server hand_;
  testing::daemon_process daemon_;
  race race_;
};

}  // namespace

// All processes are there before the first connection: a fork would copy its threads' locks.
std::map<std::string, double> measure_gate(int repeats) {
  std::vector<std::unique_ptr<trial>> trials;
  for (const gauge& each : gauges) {
    trials.push_back(std::make_unique<trial>(each));
  }
  for (const std::unique_ptr<trial>& each : trials) {
    each->connect();
  }
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (const std::unique_ptr<trial>& each : trials) {
      each->turn();
    }
    std::fprintf(stderr, "\rquick: turn %d of %d   ", repeat + 1, repeats);
  }
  std::fputc('\n', stderr);
  std::map<std::string, double> made;
  for (const std::unique_ptr<trial>& each : trials) {
    each->add_ratios(made);
  }
  return made;
}

bool pass_gate(const std::string& floors_file, int repeats) {
  const nlohmann::ordered_json floors = read_result(floors_file);
  const std::map<std::string, double> ratios = measure_gate(repeats);
  for (const auto& [name, ratio] : ratios) {
    std::printf("%8.3f  %s\n", ratio, name.c_str());
  }
  const std::vector<std::string> below = below_floors(ratios, floors);
  for (const std::string& line : below) {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  return below.empty();
}

}  // namespace penstock::bench
