// What the tail of a completion is made of, by CUDA alone: a program of its own, which needs no library but libc.
//
//   nvcc -O2 -std=c++20 -arch=sm_90 tests/bench/completion/callback_tail.cu -o callback_tail
//   callback_tail [seconds a turn] [repeats]
//
// A thread submits batches of 4 KiB (copy in, kernel, copy out, a word of the device's clock in mapped memory) at
// random times that average to 10 … 70 % of what polling reaches, round robin over some streams. Of each batch:
//   ended    from the time that it was meant to start to the device's end, by the device's clock
//   entered  from the device's end to the entry of the callback, or to the poll that saw it
//   told     from there to the waiting thread's running again
//   total    from the time that it was meant to start to there
// The ways take turns at each load, in an order that turns too.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using nanoseconds = std::int64_t;

void require(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(status));
    std::exit(1);
  }
}

nanoseconds host_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

__device__ std::int64_t device_now() {
  std::int64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void affine(const float* in, float* out, int count) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < count) {
    out[at] = 2.0F * in[at] + 1.0F;
  }
}

__global__ void stamp(std::int64_t* when) {
  *when = device_now();
  __threadfence_system();
}

__global__ void answer(volatile int* asked, volatile std::int64_t* when) {
  while (*asked == 0) {
  }
  *when = device_now();
  __threadfence_system();
}

enum class wake { futex, event_descriptor, spinning };
enum class told { callback, host_function, event };

struct way {
  const char* name;
  told by;
  wake how;
  int streams;
  bool real_time = false;  // the driver's thread
  int nice = 0;            // of the driver's thread
  bool pinned = false;     // the driver's thread, to the last processor of those allowed; the waiting one to another
};

const way ways[] = {
    {"event polled", told::event, wake::spinning, 8},
    {"callback, eventfd", told::callback, wake::event_descriptor, 8},
    {"callback, futex", told::callback, wake::futex, 8},
    {"callback, spinning", told::callback, wake::spinning, 8},
    {"callback, one stream", told::callback, wake::event_descriptor, 1},
    {"host function, eventfd", told::host_function, wake::event_descriptor, 8},
    {"callback, real time", told::callback, wake::event_descriptor, 8, true},
    {"callback, nice -10", told::callback, wake::event_descriptor, 8, false, -10},
    {"callback, pinned", told::callback, wake::event_descriptor, 8, false, 0, true},
};

constexpr int floats = 1024;
constexpr int slots = 64;

struct runner;

struct slot {
  runner* owner = nullptr;
  float* pinned_in = nullptr;
  float* pinned_out = nullptr;
  float* in = nullptr;
  float* out = nullptr;
  std::int64_t* stamped = nullptr;  // mapped
  cudaEvent_t event = nullptr;
  nanoseconds intended = 0;
  nanoseconds entered = 0;
  std::atomic<bool> done{false};
  bool busy = false;
};

// The driver's thread as this program found it, for what a way asks of it.
struct driver_thread {
  std::atomic<int> wanted{0};  // a way's number + 1
  int arranged = 0;
  bool refused = false;
};
driver_thread the_driver;

void arrange(int wanted);

struct runner {
  explicit runner(const way& what) : what_(what), event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    for (int at = 0; at < what.streams; ++at) {
      cudaStream_t stream;
      require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
      streams_.push_back(stream);
    }
    for (slot& each : slots_) {
      each.owner = this;
      require(cudaHostAlloc(&each.pinned_in, floats * sizeof(float), cudaHostAllocDefault), "cudaHostAlloc");
      require(cudaHostAlloc(&each.pinned_out, floats * sizeof(float), cudaHostAllocDefault), "cudaHostAlloc");
      require(cudaHostAlloc(&each.stamped, sizeof(std::int64_t), cudaHostAllocMapped), "cudaHostAlloc");
      require(cudaMalloc(&each.in, floats * sizeof(float)), "cudaMalloc");
      require(cudaMalloc(&each.out, floats * sizeof(float)), "cudaMalloc");
      require(cudaEventCreateWithFlags(&each.event, cudaEventDisableTiming), "cudaEventCreate");
    }
  }

  void submit(slot& one, int at) {
    const cudaStream_t on = streams_[static_cast<std::size_t>(at) % streams_.size()];
    one.busy = true;
    one.done.store(false, std::memory_order_relaxed);
    require(cudaMemcpyAsync(one.in, one.pinned_in, floats * sizeof(float), cudaMemcpyHostToDevice, on), "copy in");
    affine<<<floats / 256, 256, 0, on>>>(one.in, one.out, floats);
    require(cudaMemcpyAsync(one.pinned_out, one.out, floats * sizeof(float), cudaMemcpyDeviceToHost, on), "copy out");
    stamp<<<1, 1, 0, on>>>(one.stamped);
    switch (what_.by) {
      case told::callback:
        require(cudaStreamAddCallback(
                    on, [](cudaStream_t, cudaError_t, void* user) { tell(user); }, &one, 0),
                "cudaStreamAddCallback");
        break;
      case told::host_function:
        require(cudaLaunchHostFunc(on, tell, &one), "cudaLaunchHostFunc");
        break;
      case told::event:
        require(cudaEventRecord(one.event, on), "cudaEventRecord");
        break;
    }
  }

  static void CUDART_CB tell(void* user) {
    slot& one = *static_cast<slot*>(user);
    one.entered = host_now();
    runner& mine = *one.owner;
    arrange(the_driver.wanted.load(std::memory_order_relaxed));
    one.done.store(true, std::memory_order_seq_cst);
    if (mine.sleeping_.load(std::memory_order_seq_cst) != 0 && mine.sleeping_.exchange(0) != 0) {
      if (mine.what_.how == wake::futex) {
        ::syscall(SYS_futex, &mine.sleeping_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
      } else if (mine.what_.how == wake::event_descriptor) {
        const std::uint64_t count = 1;
        static_cast<void>(!::write(mine.event_, &count, sizeof count));
      }
    }
  }

  [[nodiscard]] bool finished(slot& one) const {
    if (what_.by != told::event) {
      return one.done.load(std::memory_order_acquire);
    }
    const cudaError_t state = cudaEventQuery(one.event);
    if (state == cudaErrorNotReady) {
      return false;
    }
    require(state, "cudaEventQuery");
    one.entered = host_now();
    return true;
  }

  [[nodiscard]] bool any_done() const {
    return std::any_of(std::begin(slots_), std::end(slots_),
                       [](const slot& one) { return one.busy && one.done.load(std::memory_order_seq_cst); });
  }

  // Until something may be done, or the time has come. Spinning for the last 60 us before a time, in every way.
  void sleep(nanoseconds until) {
    const nanoseconds left = until - host_now() - 60'000;
    if (what_.how == wake::spinning || left <= 0) {
      return;
    }
    sleeping_.store(1, std::memory_order_seq_cst);
    if (!any_done()) {
      const timespec limit{left / 1'000'000'000, left % 1'000'000'000};
      if (what_.how == wake::futex) {
        ::syscall(SYS_futex, &sleeping_, FUTEX_WAIT_PRIVATE, 1, &limit, nullptr, 0);
      } else {
        pollfd waiting{event_, POLLIN, 0};
        ::ppoll(&waiting, 1, &limit, nullptr);
      }
    }
    sleeping_.store(0, std::memory_order_seq_cst);
    std::uint64_t count = 0;
    static_cast<void>(!::read(event_, &count, sizeof count));
  }

  way what_;
  int event_;
  std::atomic<int> sleeping_{0};
  std::vector<cudaStream_t> streams_;
  slot slots_[slots];
};

// From the driver's thread: what the way asks of it, once, and back to what it was for another.
void arrange(int wanted) {
  if (wanted == the_driver.arranged) {
    return;
  }
  the_driver.arranged = wanted;
  const way& what = ways[wanted - 1];
  const sched_param real_time{10};
  const sched_param usual{0};
  bool good =
      ::sched_setscheduler(0, what.real_time ? SCHED_RR : SCHED_OTHER, what.real_time ? &real_time : &usual) == 0;
  good = ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), what.nice) == 0 && good;
  cpu_set_t allowed;
  static cpu_set_t first = [] {
    cpu_set_t found;
    ::sched_getaffinity(0, sizeof found, &found);
    return found;
  }();
  allowed = first;
  if (what.pinned) {
    for (int at = CPU_SETSIZE - 1; at >= 0; --at) {
      if (CPU_ISSET(at, &first)) {
        CPU_ZERO(&allowed);
        CPU_SET(at, &allowed);
        break;
      }
    }
  }
  good = ::sched_setaffinity(0, sizeof allowed, &allowed) == 0 && good;
  the_driver.refused = !good;
}

// What to add to the device's time for the host's: the narrowest of some questions.
nanoseconds offset_of_device() {
  int* asked;
  std::int64_t* when;
  require(cudaHostAlloc(&asked, sizeof *asked, cudaHostAllocMapped), "cudaHostAlloc");
  require(cudaHostAlloc(&when, sizeof *when, cudaHostAllocMapped), "cudaHostAlloc");
  nanoseconds narrowest = 1'000'000'000;
  nanoseconds offset = 0;
  for (int turn = 0; turn < 200; ++turn) {
    *reinterpret_cast<volatile int*>(asked) = 0;
    *reinterpret_cast<volatile std::int64_t*>(when) = 0;
    answer<<<1, 1>>>(asked, when);
    const nanoseconds begin = host_now();
    while (host_now() - begin < 30'000) {
    }
    const nanoseconds before = host_now();
    *reinterpret_cast<volatile int*>(asked) = 1;
    while (*reinterpret_cast<volatile std::int64_t*>(when) == 0) {
    }
    const nanoseconds after = host_now();
    if (after - before < narrowest) {
      narrowest = after - before;
      offset = (before + after) / 2 - *when;
    }
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  cudaFreeHost(asked);
  cudaFreeHost(when);
  return offset;
}

struct times {
  std::vector<nanoseconds> ended, entered, told, total;
};

// An open loop at so many batches a second; 0: as fast as `slots` under way allow.
times run(runner& with, double rate, double seconds, nanoseconds offset, double* reached = nullptr) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> apart(1.0);
  times all;
  const nanoseconds begin = host_now() + 1'000'000;
  nanoseconds next = begin;
  const nanoseconds warm = begin + static_cast<nanoseconds>(seconds * 1e8);
  const nanoseconds end = begin + static_cast<nanoseconds>(seconds * 1e9);
  int submitted = 0;
  std::int64_t finished = 0;
  int busy = 0;
  while (host_now() < end || busy > 0) {
    bool progress = false;
    for (slot& one : with.slots_) {
      if (one.busy && with.finished(one)) {
        const nanoseconds seen = host_now();
        const nanoseconds ended = *reinterpret_cast<volatile std::int64_t*>(one.stamped) + offset;
        one.busy = false;
        --busy;
        ++finished;
        progress = true;
        if (one.intended >= warm) {
          all.ended.push_back(ended - one.intended);
          all.entered.push_back(one.entered - ended);
          all.told.push_back(seen - one.entered);
          all.total.push_back(seen - one.intended);
        }
      }
    }
    const nanoseconds now = host_now();
    slot& one = with.slots_[submitted % slots];
    if (now >= next && now < end && !one.busy) {
      one.intended = rate > 0 ? next : now;
      next = rate > 0 ? next + static_cast<nanoseconds>(apart(random) / rate * 1e9) : now;
      with.submit(one, submitted++);
      ++busy;
      progress = true;
    }
    if (!progress) {
      with.sleep(one.busy && now >= next ? now + 10'000'000 : std::min(std::max(next, now), end));
    }
  }
  if (reached != nullptr) {
    *reached = static_cast<double>(finished) / seconds;
  }
  return all;
}

double quantile(std::vector<nanoseconds>& of, double which) {
  if (of.empty()) {
    return 0;
  }
  const auto at = static_cast<std::size_t>(which * static_cast<double>(of.size() - 1));
  std::nth_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(at), of.end());
  return static_cast<double>(of[at]) * 1e-3;
}

// Times that this control group was stopped for its quota.
long stopped() {
  for (const char* file : {"/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/cpu/cpu.stat"}) {
    std::ifstream in(file);
    std::string key;
    long value = 0;
    while (in >> key >> value) {
      if (key == "nr_throttled") {
        return value;
      }
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 0.5;
  const int repeats = count > 2 ? std::atoi(arguments[2]) : 5;
  std::vector<std::unique_ptr<runner>> runners;
  for (const way& each : ways) {
    runners.push_back(std::make_unique<runner>(each));
  }
  constexpr int loads[] = {10, 30, 50, 70};
  constexpr std::size_t ways_count = std::size(ways);
  std::vector<std::vector<double>> p99(ways_count * std::size(loads));
  double full = 0;
  run(*runners[0], 0, 0.2, 0, &full);
  run(*runners[0], 0, 0.5, 0, &full);
  std::printf("polling reaches %.0f batches/s, which is 100 %%; %u processors\n", full,
              std::thread::hardware_concurrency());
  std::printf("%-24s %5s | %27s | %27s | %27s | %27s | stopped\n", "p50 / p99 / longest in us", "load", "ended",
              "entered", "told", "total");
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t load = 0; load < std::size(loads); ++load) {
      for (std::size_t turn = 0; turn < ways_count; ++turn) {
        const std::size_t at = (turn + static_cast<std::size_t>(repeat)) % ways_count;
        the_driver.wanted = static_cast<int>(at) + 1;
        const nanoseconds offset = offset_of_device();
        const long before = stopped();
        times all = run(*runners[at], full * loads[load] / 100, seconds, offset);
        p99[load * ways_count + at].push_back(quantile(all.total, 0.99));
        std::printf("%-24s %3d %%", ways[at].name, loads[load]);
        for (auto* each : {&all.ended, &all.entered, &all.told, &all.total}) {
          std::printf(" | %7.1f %8.1f %10.1f", quantile(*each, 0.5), quantile(*each, 0.99), quantile(*each, 1.0));
        }
        std::printf(" | %ld%s\n", stopped() - before, the_driver.refused ? "  (not all was allowed)" : "");
        std::fflush(stdout);
      }
    }
  }
  std::printf("\np99 of total beside polling, medians of the turns\n");
  for (std::size_t load = 0; load < std::size(loads); ++load) {
    for (std::size_t at = 0; at < ways_count; ++at) {
      auto median = [](std::vector<double> of) {
        std::sort(of.begin(), of.end());
        return of[of.size() / 2];
      };
      const double mine = median(p99[load * ways_count + at]);
      std::printf("%3d %%  %-24s %9.1f us  %6.2f\n", loads[load], ways[at].name, mine,
                  mine / median(p99[load * ways_count]));
    }
  }
  return 0;
}
