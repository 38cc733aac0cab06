#include "tests/bench/link/whole_copies.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <future>
#include <latch>
#include <memory>
#include <vector>

#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/link/gather.hpp"
#include "tests/bench/link/host_region.hpp"
#include "tests/bench/link/piece_group.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

constexpr std::size_t least_bytes = 4096;
constexpr std::size_t bytes_a_run = 128U << 20U;
constexpr std::size_t most_copies = 1000;

/// Host memory for one direction and the device's for it.
struct lane {
  lane(host_memory kind, std::size_t bytes) : host(kind, bytes), device(make_bare_device_memory(bytes)) {}

  host_region host;
  bare_device_memory device;
  bare_stream stream = make_bare_stream();
};

struct interval {
  clock::time_point begin;
  clock::time_point end;
};

/// One kind of host memory, reached by copies or by a kernel.
class copy_way {
 public:
  copy_way(const char* name, host_memory kind, bool by_kernel, std::size_t bytes)
      : name_(name), by_kernel_(by_kernel), in_(kind, bytes), out_(kind, bytes) {}

  [[nodiscard]] const char* name() const noexcept { return name_; }
  [[nodiscard]] double register_ms() const noexcept { return in_.host.register_ms(); }

  /// GB/s one way.
  double run(direction to, std::size_t bytes, std::size_t copies) {
    std::latch alone(1);
    const interval took = move(to, bytes, copies, alone);
    return rate(bytes * copies, took.begin, took.end);
  }
  /// GB/s each way, by the slower one; a thread for each, since copies of pageable memory block theirs.
  double run_both(std::size_t bytes, std::size_t copies);
  /// GB/s of one processor's memcpy into the memory, one place after the other.
  double fill(const std::byte* from, std::size_t bytes, std::size_t copies) const;

 private:
  static double rate(std::size_t bytes, clock::time_point begin, clock::time_point end) {
    return static_cast<double>(bytes) * 1e-9 / std::chrono::duration<double>(end - begin).count();
  }
  interval move(direction to, std::size_t bytes, std::size_t copies, std::latch& start);
  void enqueue(lane& of, direction to, std::size_t offset, std::size_t bytes) const;

  const char* const name_;
  const bool by_kernel_;
  lane in_;
  lane out_;
};

void copy_way::enqueue(lane& of, direction to, std::size_t offset, std::size_t bytes) const {
  std::byte* const host = of.host.data() + offset;
  std::byte* const device = of.device.get() + offset;
  if (by_kernel_) {
    piece_list whole{};
    whole.host[0] = host;
    whole.device = device;
    whole.pieces = 1;
    whole.piece_bytes = static_cast<unsigned>(bytes);
    to == direction::in ? launch_gather(of.stream.get(), whole) : launch_scatter(of.stream.get(), whole);
  } else if (to == direction::in) {
    require(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, of.stream.get()), "cudaMemcpyAsync");
  } else {
    require(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, of.stream.get()), "cudaMemcpyAsync");
  }
}

// Walks through the whole memory, so that small copies do not come from the processor's cache alone.
interval copy_way::move(direction to, std::size_t bytes, std::size_t copies, std::latch& start) {
  lane& of = to == direction::in ? in_ : out_;
  require(cudaSetDevice(0), "cudaSetDevice");
  enqueue(of, to, 0, bytes);
  require(cudaStreamSynchronize(of.stream.get()), "cudaStreamSynchronize");
  start.arrive_and_wait();
  const clock::time_point begin = clock::now();
  std::size_t offset = 0;
  for (std::size_t copy = 0; copy < copies; ++copy) {
    enqueue(of, to, offset, bytes);
    offset = offset + 2 * bytes <= of.host.bytes() ? offset + bytes : 0;
  }
  require(cudaStreamSynchronize(of.stream.get()), "cudaStreamSynchronize");
  return {begin, clock::now()};
}

double copy_way::run_both(std::size_t bytes, std::size_t copies) {
  std::latch together(2);
  std::future<interval> other =
      std::async(std::launch::async, [&] { return move(direction::out, bytes, copies, together); });
  const interval in = move(direction::in, bytes, copies, together);
  const interval out = other.get();
  return rate(bytes * copies, std::min(in.begin, out.begin), std::max(in.end, out.end));
}

double copy_way::fill(const std::byte* from, std::size_t bytes, std::size_t copies) const {
  const host_region& to = in_.host;
  const clock::time_point begin = clock::now();
  std::size_t offset = 0;
  for (std::size_t copy = 0; copy < copies; ++copy) {
    std::memcpy(to.data() + offset, from, bytes);
    offset = offset + 2 * bytes <= to.bytes() ? offset + bytes : 0;
  }
  return rate(bytes * copies, begin, clock::now());
}

struct contender {
  copy_way way;
  std::vector<double> in, out, both, fill;

  contender(const char* name, host_memory kind, bool by_kernel, std::size_t bytes)
      : way(name, kind, by_kernel, bytes) {}
};

ordered_json measure(std::vector<std::unique_ptr<contender>>& contenders, std::size_t bytes, int repeats) {
  const std::vector<std::byte> payload(bytes, std::byte{7});
  const std::size_t copies = std::clamp<std::size_t>(bytes_a_run / bytes, 2, most_copies);
  for (auto& each : contenders) {
    each->in.clear();
    each->out.clear();
    each->both.clear();
    each->fill.clear();
  }
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (auto& each : contenders) {
      each->in.push_back(each->way.run(direction::in, bytes, copies));
      each->out.push_back(each->way.run(direction::out, bytes, copies));
      each->both.push_back(each->way.run_both(bytes, copies));
      each->fill.push_back(each->way.fill(payload.data(), bytes, copies));
    }
    std::fprintf(stderr, "\rlink: copies of %zu bytes, repeat %d of %d      ", bytes, repeat + 1, repeats);
  }
  ordered_json row = {{"bytes", bytes}, {"ways", ordered_json::object()}};
  for (auto& each : contenders) {
    row["ways"][each->way.name()] = {{"in", to_json(spread_of(each->in))},
                                     {"out", to_json(spread_of(each->out))},
                                     {"both", to_json(spread_of(each->both))},
                                     {"fill", to_json(spread_of(each->fill))}};
  }
  return row;
}

}  // namespace

ordered_json measure_whole_copies(const bench_options& options) {
  const std::size_t most_bytes = (options.quick ? 16U : 256U) << 20U;
  std::vector<std::unique_ptr<contender>> contenders;
  contenders.push_back(std::make_unique<contender>("copy, pinned", host_memory::pinned, false, most_bytes));
  contenders.push_back(std::make_unique<contender>("copy, registered memfd", host_memory::sealed, false, most_bytes));
  contenders.push_back(
      std::make_unique<contender>("copy, registered huge pages", host_memory::huge, false, most_bytes));
  contenders.push_back(std::make_unique<contender>("copy, pageable", host_memory::pageable, false, most_bytes));
  contenders.push_back(std::make_unique<contender>("kernel, mapped pinned", host_memory::pinned, true, most_bytes));
  ordered_json result = {{"register_bytes", most_bytes},
                         {"register_ms", contenders[1]->way.register_ms()},
                         {"register_huge_ms", contenders[2]->way.register_ms()},
                         {"rows", ordered_json::array()}};
  for (std::size_t bytes = least_bytes; bytes <= most_bytes; bytes *= 4) {
    result["rows"].push_back(measure(contenders, bytes, options.repeats));
  }
  return result;
}

}  // namespace penstock::bench
