#include "tests/bench/throughput/throughput.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/machine/machine_share.hpp"
#include "daemon/settings/machine_fit.hpp"
#include "tests/bench/affine_configuration.hpp"
#include "tests/bench/echo_server.hpp"
#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/hand_server/hand_server.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/race.hpp"
#include "tests/bench/statistics.hpp"
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
constexpr std::uint32_t records_a_request = 64;
constexpr std::size_t least_for_two_shards = 8;  // processors, so that each has four

// Together, of all clients.
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

// On the host `auto` is `callback`.
std::vector<daemon_kind> daemons_on(const std::string& backend) {
  std::vector<daemon_kind> all{{"callback", "callback"}, {"poll", "poll"}};
  if (backend == "cuda") {
    all.push_back({"auto", "auto"});
    if (read_machine_share().processors >= least_for_two_shards) {
      all.push_back({"poll_two_shards", "poll", 2});
    }
  }
  return all;
}

// Everything that can be asked for results of one size over one transport.
class field {
 public:
  field(const std::string& backend, const std::string& transport, std::size_t bytes, std::uint32_t frames)
      : bytes_(bytes), frames_(frames), echo_(endpoints_.of(transport)) {
    if (const int threads = io_threads_of_daemons(); threads > 1) {
      wide_echo_ = std::make_unique<echo_server>(endpoints_.of(transport), threads);
    }
    using ways = std::vector<std::pair<const char*, hand_way>>;
    if (frames == 1) {
      const ways on_cuda{
          {"hand_callback", hand_way::callback}, {"hand_poll", hand_way::polled}, {"hand_mapped", hand_way::mapped}};
      for (const auto& [name, how] : backend == "cuda" ? on_cuda : ways{{"hand", hand_way::inline_host}}) {
        hand_.emplace_back(name, std::make_unique<hand_server>(endpoints_.of(transport), how, bytes));
      }
    }
    for (const daemon_kind& each : daemons_on(backend)) {
      const affine_configuration shape{.floats = {bytes / sizeof(float)}, .frames = frames, .shards = each.shards};
      daemons_.emplace_back(each.name, std::make_unique<daemon_process>(testing::daemon_options{
                                           backend, each.completion, shape.text(), endpoints_.of(transport)}));
    }
  }

  [[nodiscard]] ordered_json device() const { return device_of(daemons_.front().second->endpoint()); }

  ordered_json measure(const bench_options& options, std::size_t clients, std::size_t in_flight) const {
    const milliseconds span = options.turn();
    race all;
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
  const field all(options.backend, transport, bytes, 1);
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
  const field all(options.backend, transport, record_bytes, records_a_request);
  for (const std::size_t clients : client_counts) {
    ordered_json row = {{"transport", transport}};
    row.update(all.measure(options, clients, std::max<std::size_t>(32, clients)));
    result["records"].push_back(row);
  }
}

}  // namespace

ordered_json run_throughput(const bench_options& options) {
  ordered_json result = {
      {"benchmark", "throughput"},     {"machine", machine_facts()},       {"device", nullptr},
      {"repeats", options.repeats},    {"record_bytes", record_bytes},     {"records_a_request", records_a_request},
      {"rows", ordered_json::array()}, {"records", ordered_json::array()}, {"one_at_a_time", ordered_json::array()}};
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
