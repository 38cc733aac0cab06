#include "daemon/shard/interrupts.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include "daemon/files/whole_file.hpp"

namespace penstock {
namespace {

// What is less came while a driver was loaded, or tells of a fault, and takes nobody's time.
constexpr std::uint64_t least_share = 8;

// The kernel writes the digits of a bus small, CUDA large.
std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char each) { return std::tolower(each); });
  return text;
}

// Enough to tell them from what else a device says while a daemon starts.
constexpr int provoked = 32;
constexpr std::size_t provoking_bytes = 4096;

}  // namespace

device_interrupts::device_interrupts(const std::vector<std::string>& pci_bus_ids, std::filesystem::path root)
    : root_(std::move(root)) {
  for (const std::string& id : pci_bus_ids) {
    if (id.empty()) {
      continue;
    }
    std::error_code none;
    const std::filesystem::directory_iterator end;
    for (std::filesystem::directory_iterator each(root_ / "sys/bus/pci/devices" / lower(id) / "msi_irqs", none);
         !none && each != end; each.increment(none)) {
      lines_.push_back(each->path().filename().string() + ":");
    }
  }
  before_ = read();
}

std::vector<int> device_interrupts::look() {
  counts now = read();
  std::uint64_t all = 0;
  counts came;
  for (const auto& [processor, count] : now) {
    const auto earlier = before_.find(processor);
    const std::uint64_t more = count - std::min(count, earlier == before_.end() ? 0 : earlier->second);
    came[processor] = more;
    all += more;
  }
  before_ = std::move(now);
  if (all == 0) {
    return found_;
  }
  found_.clear();
  for (const auto& [processor, count] : came) {
    if (count * least_share >= all) {
      found_.push_back(processor);
    }
  }
  return found_;
}

// A line with the processors that are there, "CPU0 CPU2", then one for each interrupt: its number and their counts.
device_interrupts::counts device_interrupts::read() const {
  counts found;
  if (lines_.empty()) {
    return found;
  }
  std::istringstream file(read_kernel_file(root_ / "proc/interrupts"));
  std::string line;
  std::getline(file, line);
  std::vector<int> processors;
  std::istringstream heads(line);
  for (std::string head; heads >> head;) {
    if (head.starts_with("CPU")) {
      processors.push_back(std::atoi(head.c_str() + 3));
    }
  }
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string number;
    words >> number;
    if (std::find(lines_.begin(), lines_.end(), number) == lines_.end()) {
      continue;
    }
    for (const int processor : processors) {
      std::uint64_t count = 0;
      if (!(words >> count)) {
        break;
      }
      found[processor] += count;
    }
  }
  return found;
}

// What fails here fails again where it matters, so faults are not looked at.
void provoke_interrupts(device& on) {
  const device_memory from = on.allocate_pinned(provoking_bytes);
  const device_memory to = on.allocate(provoking_bytes);
  const std::unique_ptr<stream> through = on.open_stream(stream_priority::normal);
  for (int each = 0; each < provoked; ++each) {
    static_cast<void>(through->copy_in(to.get(), from.get(), provoking_bytes));
    static_cast<void>(through->on_complete([](void* /*context*/, fault /*status*/) noexcept {}, nullptr));
    static_cast<void>(through->synchronize());
  }
}

}  // namespace penstock
