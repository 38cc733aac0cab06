#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/process_limits.hpp"
#include "daemon/config/settings.hpp"
#include "tests/bench/benchmarks.hpp"
#include "tests/bench/closed_loop.hpp"
#include "tests/bench/hand_server.hpp"
#include "tests/bench/servers.hpp"
#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;
using testing::daemon_process;

constexpr std::size_t payload_sizes[] = {64, 256, 4096, 65536, 1U << 20U, 16U << 20U};
constexpr std::size_t latency_sizes[] = {256, 4096, 65536, 1U << 20U};
constexpr std::size_t client_counts[] = {1, 32};
constexpr std::size_t record_bytes = 256;
constexpr std::uint32_t records_per_request = 64;
constexpr std::size_t min_cores_for_two_shards = 8;  // four each

// Of all clients together.
std::size_t in_flight_of(std::size_t bytes) {
  return bytes <= 4096 ? 256 : bytes <= 1U << 20U ? 32 : 8;
}

int io_threads_of_daemons() {
  return fitted({}, 1, read_machine_share().processors).daemon.io_threads;
}

struct daemon_kind {
  const char* name;
  const char* completion;
  int shards = 1;
};

// On the host `auto` equals `callback`.
std::vector<daemon_kind> daemons_on(const std::string& backend) {
  std::vector<daemon_kind> all{{"callback", "callback"}, {"poll", "poll"}};
  if (backend == "cuda") {
    all.push_back({"auto", "auto"});
    if (read_machine_share().processors >= min_cores_for_two_shards) {
      all.push_back({"poll_two_shards", "poll", 2});
    }
  }
  return all;
}

// All servers for one payload size over one transport.
class server_set {
 public:
  server_set(const std::string& backend, const std::string& transport, std::size_t bytes, std::uint32_t frames)
      : bytes_(bytes), frames_(frames), echo_(endpoints_.next(transport)) {
    if (const int threads = io_threads_of_daemons(); threads > 1) {
      wide_echo_ = std::make_unique<echo_server>(endpoints_.next(transport), threads);
    }
    using kinds = std::vector<std::pair<const char*, hand_completion>>;
    if (frames == 1) {
      const kinds on_cuda{{"hand_callback", hand_completion::callback},
                          {"hand_poll", hand_completion::polled},
                          {"hand_mapped", hand_completion::mapped}};
      for (const auto& [name, completion] :
           backend == "cuda" ? on_cuda : kinds{{"hand", hand_completion::inline_host}}) {
        hand_.emplace_back(name, std::make_unique<hand_server>(endpoints_.next(transport), completion, bytes));
      }
    }
    for (const daemon_kind& each : daemons_on(backend)) {
      const affine_configuration shape{.floats = {bytes / sizeof(float)}, .frames = frames, .shards = each.shards};
      daemons_.emplace_back(each.name, std::make_unique<daemon_process>(testing::daemon_options{
                                           backend, each.completion, shape.text(), endpoints_.next(transport)}));
    }
  }

  [[nodiscard]] ordered_json device() const { return device_of(daemons_.front().second->endpoint()); }

  ordered_json measure(const bench_options& options, std::size_t clients, std::size_t in_flight) const {
    const milliseconds span = options.turn();
    comparison all;
    const auto add = [&](const std::string& name, const std::string& endpoint, bool hello) {
      all.add(name, {.endpoint = endpoint,
                     .hello = hello,
                     .floats = bytes_ / sizeof(float),
                     .frames = frames_,
                     .clients = clients,
                     .in_flight = std::max<std::size_t>(in_flight / clients, 1)});
    };
    add("echo", echo_.endpoint(), false);
    if (wide_echo_ != nullptr) {
      add("wide_echo", wide_echo_->endpoint(), false);
    }
    for (const auto& [name, daemon] : daemons_) {
      add(name, daemon->endpoint(), true);
    }
    for (const auto& [name, hand] : hand_) {
      add(name, hand->endpoint(), false);
    }
    all.warm_up(span / 4);
    for (int repeat = 0; repeat < options.repeats; ++repeat) {
      all.turn(span);
    }
    ordered_json row = {{"bytes", bytes_ * frames_}, {"clients", clients}, {"in_flight", in_flight}};
    row.update(all.figures());
    return row;
  }

 private:
  std::size_t bytes_;
  std::uint32_t frames_;
  endpoint_source endpoints_;
  echo_server echo_;
  std::unique_ptr<echo_server> wide_echo_;
  std::vector<std::pair<const char*, std::unique_ptr<hand_server>>> hand_;
  std::vector<std::pair<const char*, std::unique_ptr<daemon_process>>> daemons_;
};

void add_rows(ordered_json& result, const bench_options& options, const char* transport, std::size_t bytes) {
  const server_set all(options.backend, transport, bytes, 1);
  result["device"] = all.device();
  for (const std::size_t clients : client_counts) {
    std::fprintf(stderr, "\rthroughput: %s, %zu bytes, %zu clients   ", transport, bytes, clients);
    ordered_json row = {{"transport", transport}};
    row.update(all.measure(options, clients, std::max(in_flight_of(bytes), clients)));
    result["rows"].push_back(row);
  }
  if (std::find(std::begin(latency_sizes), std::end(latency_sizes), bytes) != std::end(latency_sizes)) {
    ordered_json row = {{"transport", transport}};
    row.update(all.measure(options, 1, 1));
    result["one_at_a_time"].push_back(row);
  }
}

void add_records(ordered_json& result, const bench_options& options, const char* transport) {
  const server_set all(options.backend, transport, record_bytes, records_per_request);
  for (const std::size_t clients : client_counts) {
    ordered_json row = {{"transport", transport}};
    row.update(all.measure(options, clients, std::max<std::size_t>(32, clients)));
    result["records"].push_back(row);
  }
}

}  // namespace

// Requests per second by payload from one client and from many, small records 64 to a request, and one request at a
// time. Each load goes to the daemon in its completion modes, to a raw echo and to the hand-written server.
ordered_json run_throughput(const bench_options& options) {
  ordered_json result = new_result("throughput", options, nullptr);
  result["record_bytes"] = record_bytes;
  result["records_per_request"] = records_per_request;
  for (const char* const transport : {"tcp", "ipc"}) {
    for (const std::size_t bytes : payload_sizes) {
      add_rows(result, options, transport, bytes);
    }
    add_records(result, options, transport);
  }
  std::fputc('\n', stderr);
  return result;
}

}  // namespace penstock::bench
