#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "tests/bench/benchmarks.hpp"
#include "tests/bench/closed_loop.hpp"
#include "tests/bench/servers.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

constexpr std::size_t sizes[] = {64, 1024, 16384, 65536, 262144, 1U << 20U};
constexpr std::size_t messages_per_clock = 16;

// Sends one way. The answer to an empty message shows that everything has arrived.
class sender {
 public:
  explicit sender(const std::string& endpoint) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvtimeo, 20000);
    socket_.connect(endpoint);
    await_answer();
  }

  double messages_per_second(std::size_t bytes, milliseconds span) {
    const std::string payload(bytes, 'x');
    const clock::time_point begin = clock::now();
    std::size_t sent = 0;
    while (clock::now() - begin < span) {
      for (std::size_t at = 0; at < messages_per_clock; ++at, ++sent) {
        (void)socket_.send(zmq::buffer(payload), zmq::send_flags::none);
      }
    }
    await_answer();
    return static_cast<double>(sent) / std::chrono::duration<double>(clock::now() - begin).count();
  }

 private:
  void await_answer() {
    (void)socket_.send(zmq::message_t(), zmq::send_flags::none);
    zmq::message_t answer;
    if (!socket_.recv(answer)) {
      throw std::runtime_error("the receiver does not answer");
    }
  }

  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::dealer};
};

struct cell {
  std::string transport;
  std::size_t bytes;
  std::string sink;
  std::string echo;
  std::vector<double> messages_per_second;
  std::vector<double> round_trip_p50_us;
  std::vector<double> round_trip_p99_us;
};

void measure(cell& each, milliseconds span) {
  each.messages_per_second.push_back(sender(each.sink).messages_per_second(each.bytes, span));
  closed_loop loop({.endpoint = each.echo, .hello = false, .floats = each.bytes / sizeof(float)});
  loop.run(span / 10);
  const load_result trip = loop.run(span);
  each.round_trip_p50_us.push_back(trip.p50_us);
  each.round_trip_p99_us.push_back(trip.p99_us);
}

}  // namespace

// The sockets alone, without Penstock: one DEALER sends to one ROUTER in another process that copies each message out
// once, and round trips of one message at a time through an echo.
ordered_json run_zmq(const bench_options& options) {
  endpoint_source endpoints;
  const sink_server tcp_sink(endpoints.tcp());
  const echo_server tcp_echo(endpoints.tcp());
  const sink_server ipc_sink(endpoints.ipc());
  const echo_server ipc_echo(endpoints.ipc());
  std::vector<cell> cells;
  for (const std::size_t bytes : sizes) {
    cells.push_back({"tcp", bytes, tcp_sink.endpoint(), tcp_echo.endpoint(), {}, {}, {}});
    cells.push_back({"ipc", bytes, ipc_sink.endpoint(), ipc_echo.endpoint(), {}, {}, {}});
  }
  interleave(options, "zmq", [&](int /*repeat*/) {
    for (cell& each : cells) {
      measure(each, milliseconds{options.quick ? 50 : 1000});
    }
  });
  ordered_json result = new_result("zmq", options, no_device());
  for (const cell& each : cells) {
    result["rows"].push_back({{"transport", each.transport},
                              {"bytes", each.bytes},
                              {"messages_per_second", to_json(spread_of(each.messages_per_second))},
                              {"round_trip_p50_us", to_json(spread_of(each.round_trip_p50_us))},
                              {"round_trip_p99_us", to_json(spread_of(each.round_trip_p99_us))}});
  }
  return result;
}

}  // namespace penstock::bench
