#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <future>
#include <latch>
#include <memory>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/benchmarks.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

constexpr std::size_t min_bytes = 4096;
constexpr std::size_t bytes_per_run = 128U << 20U;
constexpr std::size_t max_copies = 1000;

enum class host_memory {
  pinned,      ///< cudaHostAlloc
  registered,  ///< a sealed memfd as shared memory uses it, mapped and passed to cudaHostRegister
  pageable,    ///< ordinary memory
};

[[noreturn]] void fail(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

/// Host memory of one kind, every page of it touched.
class host_region {
 public:
  host_region(host_memory kind, std::size_t bytes) : kind_(kind), bytes_(bytes) {
    if (kind == host_memory::pinned) {
      data_ = make_bare_pinned_memory(bytes).release();
      return;
    }
    map();
    std::memset(data_, 0, bytes);
    if (kind == host_memory::registered) {
      const clock::time_point begin = clock::now();
      const cudaError_t status = cudaHostRegister(data_, bytes_, cudaHostRegisterPortable | cudaHostRegisterMapped);
      register_ms_ = std::chrono::duration<double, std::milli>(clock::now() - begin).count();
      if (status != cudaSuccess) {
        ::munmap(data_, bytes_);
        require(status, "cudaHostRegister");
      }
    }
  }
  host_region(const host_region&) = delete;
  host_region& operator=(const host_region&) = delete;
  ~host_region() {
    if (kind_ == host_memory::pinned) {
      static_cast<void>(cudaFreeHost(data_));
      return;
    }
    if (kind_ == host_memory::registered) {
      static_cast<void>(cudaHostUnregister(data_));
    }
    ::munmap(data_, bytes_);
  }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Duration of cudaHostRegister.
  [[nodiscard]] double register_ms() const noexcept { return register_ms_; }

 private:
  void map() {
    int file = -1;
    if (kind_ == host_memory::registered) {
      file = ::memfd_create("penstock-bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
      if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes_)) != 0 ||
          ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        fail("making a sealed memfd");
      }
    }
    void* const place =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
    if (file >= 0) {
      ::close(file);
    }
    if (place == MAP_FAILED) {
      fail("mmap");
    }
    data_ = static_cast<std::byte*>(place);
  }

  const host_memory kind_;
  const std::size_t bytes_;
  std::byte* data_ = nullptr;
  double register_ms_ = 0;
};

/// Memory of the host and the device for one direction.
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

double rate(std::size_t bytes, const interval& time) {
  return static_cast<double>(bytes) * 1e-9 / std::chrono::duration<double>(time.end - time.begin).count();
}

/// Copies back to back from and to one kind of host memory. Rates in GB/s.
struct contender {
  contender(const char* label, host_memory kind, std::size_t bytes) : name(label), in(kind, bytes), out(kind, bytes) {}

  void turn(std::size_t bytes, std::size_t copies);
  /// Each way, by the slower one. A thread for each: copies of pageable memory block theirs.
  [[nodiscard]] double both_ways(std::size_t bytes, std::size_t copies);

  const char* name;
  lane in;
  lane out;
  std::vector<double> in_rates, out_rates, both_rates;
};

// Walks through the whole memory, so that small copies do not come from the processor's cache alone.
interval copy(lane& memory, cudaMemcpyKind kind, std::size_t bytes, std::size_t copies, std::latch& start) {
  const auto enqueue = [&](std::size_t offset) {
    std::byte* const host = memory.host.data() + offset;
    std::byte* const device = memory.device.get() + offset;
    const bool is_input = kind == cudaMemcpyHostToDevice;
    require(cudaMemcpyAsync(is_input ? device : host, is_input ? host : device, bytes, kind, memory.stream.get()),
            "cudaMemcpyAsync");
  };
  require(cudaSetDevice(0), "cudaSetDevice");
  enqueue(0);
  require(cudaStreamSynchronize(memory.stream.get()), "cudaStreamSynchronize");
  start.arrive_and_wait();
  const clock::time_point begin = clock::now();
  std::size_t offset = 0;
  for (std::size_t count = 0; count < copies; ++count) {
    enqueue(offset);
    offset = offset + 2 * bytes <= memory.host.bytes() ? offset + bytes : 0;
  }
  require(cudaStreamSynchronize(memory.stream.get()), "cudaStreamSynchronize");
  return {begin, clock::now()};
}

double contender::both_ways(std::size_t bytes, std::size_t copies) {
  std::latch together(2);
  std::future<interval> other =
      std::async(std::launch::async, [&] { return copy(out, cudaMemcpyDeviceToHost, bytes, copies, together); });
  const interval first = copy(in, cudaMemcpyHostToDevice, bytes, copies, together);
  const interval second = other.get();
  return rate(bytes * copies, {std::min(first.begin, second.begin), std::max(first.end, second.end)});
}

void contender::turn(std::size_t bytes, std::size_t copies) {
  std::latch alone(1);
  in_rates.push_back(rate(bytes * copies, copy(in, cudaMemcpyHostToDevice, bytes, copies, alone)));
  std::latch alone_again(1);
  out_rates.push_back(rate(bytes * copies, copy(out, cudaMemcpyDeviceToHost, bytes, copies, alone_again)));
  both_rates.push_back(both_ways(bytes, copies));
}

}  // namespace

// Rates of plain copies between host and device by size and kind of host memory.
ordered_json run_link(const bench_options& options) {
  ordered_json result = new_result("link", options, use_gpu(options));
  const std::size_t max_bytes = (options.quick ? 16U : 256U) << 20U;
  std::vector<std::unique_ptr<contender>> contenders;
  contenders.push_back(std::make_unique<contender>("pinned", host_memory::pinned, max_bytes));
  contenders.push_back(std::make_unique<contender>("registered", host_memory::registered, max_bytes));
  contenders.push_back(std::make_unique<contender>("pageable", host_memory::pageable, max_bytes));
  result["register_bytes"] = max_bytes;
  result["register_ms"] = contenders[1]->in.host.register_ms();
  for (std::size_t bytes = min_bytes; bytes <= max_bytes; bytes *= 4) {
    const std::size_t copies = std::clamp<std::size_t>(bytes_per_run / bytes, 2, max_copies);
    for (const auto& each : contenders) {
      each->in_rates.clear();
      each->out_rates.clear();
      each->both_rates.clear();
    }
    interleave(options, fmt::format("link: {} bytes", bytes), [&](int /*repeat*/) {
      for (const auto& each : contenders) {
        each->turn(bytes, copies);
      }
    });
    ordered_json row = {{"bytes", bytes}};
    for (const auto& each : contenders) {
      row[each->name] = {{"in_gb_per_second", to_json(spread_of(each->in_rates))},
                         {"out_gb_per_second", to_json(spread_of(each->out_rates))},
                         {"both_gb_per_second", to_json(spread_of(each->both_rates))}};
    }
    result["rows"].push_back(row);
  }
  return result;
}

}  // namespace penstock::bench
