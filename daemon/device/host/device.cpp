#include "daemon/device/host/device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "base/process_limits.hpp"
#include "base/whole_file.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/device/device.hpp"
#include "daemon/device/host/stream.hpp"

namespace penstock {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t huge_page = std::size_t{2} << 20U;

// Gives the range new pages, which the kernel has zeroed and which are all there. False where a kernel can't.
bool replace_pages(void* memory, std::size_t bytes) noexcept {
  return madvise(memory, bytes, MADV_DONTNEED) == 0 && madvise(memory, bytes, MADV_POPULATE_WRITE) == 0;
}

}  // namespace

std::size_t host_memory_bytes() noexcept {
  return static_cast<std::size_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
         static_cast<std::size_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
}

std::byte* allocate_host_memory(std::size_t bytes) {
  const std::size_t aligned_to = bytes >= huge_page ? huge_page : alignment;
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + aligned_to - 1) / aligned_to * aligned_to;
  void* const memory = bytes <= host_memory_bytes() ? std::aligned_alloc(aligned_to, rounded) : nullptr;
  if (memory == nullptr) {
    throw device_error("no memory for a buffer of " + std::to_string(bytes) +
                       " bytes on the host: configure fewer slots or smaller batches");
  }
  if (aligned_to == huge_page) {
    madvise(memory, rounded, MADV_HUGEPAGE);  // advice: ordinary pages serve too
  }
  if (aligned_to != huge_page || !replace_pages(memory, rounded)) {
    std::memset(memory, 0, rounded);
  }
  return static_cast<std::byte*>(memory);
}

void free_host_memory(std::byte* memory) noexcept {
  std::free(memory);
}

namespace {

constexpr int most_threads = 1024;

int thread_count(int asked) {
  if (asked < 0 || asked > most_threads) {
    throw device_error("the host backend can't have " + std::to_string(asked) + " worker threads: give 1 to " +
                       std::to_string(most_threads) + ", or 0 for one a processor");
  }
  return asked != 0 ? asked : static_cast<int>(std::min<std::size_t>(read_machine_share().processors, most_threads));
}

std::string processor_name() {
  std::istringstream processors(read_kernel_file("/proc/cpuinfo"));
  for (std::string line; std::getline(processors, line);) {
    if (line.starts_with("model name")) {
      const std::size_t start = line.find_first_not_of(" \t:", sizeof "model name" - 1);
      if (start != std::string::npos) {
        return line.substr(start);
      }
    }
  }
  return "unknown processor";
}

// A payload that is read in place makes a batch of its own, whose cost a copy of so much exceeds: for operations that
// read it once, and for others, which find the copy in a cache and may go over it in pieces of several payloads.
// Measured on two processors; more of them can work on several such batches at once.
constexpr std::size_t least_single_pass_in_place = std::size_t{64} << 10U;
constexpr std::size_t least_in_place = std::size_t{256} << 10U;

bool few_processors() {
  constexpr std::size_t few = 4;
  return read_machine_share().processors < few;
}

// A worker's wake-up and the way back cost a batch some 20 us. On few processors nothing is won by it at all before
// clients would have to wait longer for the shard than their own kernel may make them wait.
std::chrono::microseconds inline_limit() {
  return std::chrono::microseconds(few_processors() ? 250 : 20);
}

device_facts read_facts(std::size_t threads) {
  return {.backend = "host",
          .name = processor_name(),
          .detail = std::to_string(threads) + (threads == 1 ? " worker thread" : " worker threads"),
          .memory_bytes = read_machine_share().memory_bytes,
          .pci_bus_id = "",
          .at_once = threads,
          .in_place_bytes = least_in_place,
          .single_pass_in_place_bytes = few_processors() ? least_single_pass_in_place : least_in_place,
          .direct_bytes = SIZE_MAX,  // its memory is all the same
          .single_pass_bytes = SIZE_MAX,
          .inline_limit = inline_limit()};
}

}  // namespace

host_device::host_device(int threads) : workers_(thread_count(threads)) {
  facts_ = read_facts(workers_.count());
}

std::byte* host_device::take_pinned(std::size_t bytes) {
  return allocate_host_memory(bytes);
}

std::byte* host_device::take_device(std::size_t bytes) {
  return allocate_host_memory(bytes);
}

void host_device::free_pinned(std::byte* memory) noexcept {
  free_host_memory(memory);
}

void host_device::free_device(std::byte* memory) noexcept {
  free_host_memory(memory);
}

std::unique_ptr<stream> host_device::open_stream(stream_priority priority) {
  const std::lock_guard lock(mutex_);
  const auto unused = std::find_if(lanes_.begin(), lanes_.end(), [&](lane& each) {
    return each.queue.priority() == priority && !each.taken.load(std::memory_order_acquire);
  });
  lane& found = unused != lanes_.end() ? *unused : lanes_.emplace_back(workers_, priority);
  found.taken.store(true, std::memory_order_relaxed);
  return std::make_unique<host_stream>(workers_, found.queue, found.taken);
}

std::unique_ptr<event> host_device::open_event(bool timed) {
  if (!timed) {
    return std::make_unique<host_event>(workers_.health(), nullptr);
  }
  const std::lock_guard lock(mutex_);
  return std::make_unique<host_event>(workers_.health(), &stamps_.emplace_back(0));
}

std::unique_ptr<operation> host_device::compile(std::string_view name, const operation_request& request) {
  const operator_definition* const found = find_operator(name);
  if (found == nullptr || found->make_host == nullptr) {
    throw device_error("there is no operator '" + std::string(name) + "' for the host backend");
  }
  return make_for_device(found->make_host, request);
}

std::unique_ptr<device> open_host_device(int threads) {
  return std::make_unique<host_device>(threads);
}

}  // namespace penstock
