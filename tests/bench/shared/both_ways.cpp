#include "tests/bench/shared/both_ways.hpp"

#include <chrono>
#include <stdexcept>
#include <utility>

#include "daemon/device/backend.hpp"

namespace penstock::bench {
namespace {

using clock = std::chrono::steady_clock;

void require(fault failed) {
  if (failed) {
    throw std::runtime_error("the device failed: " + std::string(failed.name));
  }
}

}  // namespace

both_ways::both_ways(const std::string& backend, std::size_t most_bytes)
    : device_(backend == "cuda" ? open_cuda_device(0) : open_host_device(2)),
      bytes_(most_bytes),
      pinned_input_(device_->allocate_pinned(bytes_)),
      pinned_output_(device_->allocate_pinned(bytes_)),
      input_(device_->allocate(bytes_)),
      output_(device_->allocate(bytes_)),
      in_(device_->open_stream(stream_priority::normal)),
      out_(device_->open_stream(stream_priority::normal)) {}

double both_ways::gb_per_second(std::size_t bytes, std::size_t copies) {
  const clock::time_point begin = clock::now();
  std::size_t offset = 0;
  for (std::size_t copy = 0; copy < copies; ++copy) {
    require(in_->copy_in(input_.get() + offset, pinned_input_.get() + offset, bytes));
    require(out_->copy_out(pinned_output_.get() + offset, output_.get() + offset, bytes));
    offset = offset + 2 * bytes <= bytes_ ? offset + bytes : 0;
  }
  require(in_->synchronize());
  require(out_->synchronize());
  return static_cast<double>(bytes * copies) * 1e-9 / std::chrono::duration<double>(clock::now() - begin).count();
}

}  // namespace penstock::bench
