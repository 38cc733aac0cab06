#include "tests/bench/operators/operator_timing.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace penstock::bench {
namespace {

constexpr int most_launches = 1000;  // of a stream at once
constexpr std::size_t alignment = 256;
constexpr std::size_t least_batch = std::size_t{8} << 20U;

void require(fault failed) {
  if (failed) {
    throw std::runtime_error("the device failed: " + std::string(failed.name));
  }
}

}  // namespace

timed_operation::timed_operation(device& on, operation& what, const operation_arguments& arguments)
    : what_(what),
      arguments_(arguments),
      stream_(on.open_stream(stream_priority::normal)),
      begin_(on.open_event(true)),
      end_(on.open_event(true)),
      last_(warm_up()) {}

double timed_operation::run(double seconds) {
  return last_ = run_times(std::clamp(static_cast<int>(seconds / std::max(last_, 1e-9)), 1, most_launches));
}

double timed_operation::warm_up() {
  static_cast<void>(run_times(1));
  return run_times(1);
}

double timed_operation::run_times(int count) {
  require(stream_->record(*begin_));
  for (int each = 0; each < count; ++each) {
    require(stream_->launch(what_, arguments_));
    require(stream_->flush());
  }
  require(stream_->record(*end_));
  require(stream_->synchronize());
  return 1e-6 * end_->elapsed_us(*begin_) / count;
}

batch_memory::batch_memory(device& on, std::size_t pieces, std::size_t bytes)
    : block_(on.allocate(std::max(least_batch, pieces * alignment + bytes))) {}

std::byte* batch_memory::take(std::size_t bytes) noexcept {
  std::byte* const piece = block_.get() + taken_;
  taken_ += (bytes + alignment - 1) / alignment * alignment;
  return piece;
}

std::vector<std::byte> read_back(device& on, const std::byte* from, std::size_t bytes) {
  const device_memory pinned = on.allocate_pinned(bytes);
  const std::unique_ptr<stream> copies = on.open_stream(stream_priority::normal);
  require(copies->copy_out(pinned.get(), from, bytes));
  require(copies->synchronize());
  return {pinned.get(), pinned.get() + bytes};
}

operator_rig::operator_rig(device& on, const operator_case& what)
    : on_(on),
      output_bytes_(what.output_bytes()),
      copies_(on.open_stream(stream_priority::normal)),
      compiled_(on.compile(what.op, {.settings = what.settings, .inputs = what.inputs, .max_frames = what.frames})),
      memory_(on, what.inputs.size() + 3,
              what.input_bytes() + output_bytes_ + compiled_->scratch_bytes() +
                  what.session_frames().size() * sizeof(session_frame)),
      output_(memory_.take(output_bytes_)) {
  for (std::size_t input = 0; input < what.inputs.size(); ++input) {
    const std::vector<std::byte> batch = input_batch(what, input);
    std::byte* const place = memory_.take(batch.size());
    upload(place, batch.data(), batch.size());
    addresses_.push_back(place);
  }
  arguments_ = {.inputs = addresses_,
                .output = output_,
                .scratch = memory_.take(compiled_->scratch_bytes()),
                .extent = {.frames = what.frames, .leading = what.inputs.front().shape.front()},
                .session = {}};
  const std::vector<session_frame> frames = what.session_frames();
  if (!frames.empty()) {
    std::byte* const place = memory_.take(frames.size() * sizeof(session_frame));
    upload(place, frames.data(), frames.size() * sizeof(session_frame));
    const std::size_t stride = (compiled_->state_bytes() + alignment - 1) / alignment * alignment;
    pool_ = on.allocate(2 * what.sessions() * stride);
    arguments_.session = {
        .frames = reinterpret_cast<const session_frame*>(place), .pool = pool_.get(), .stride = stride};
  }
  timed_ = std::make_unique<timed_operation>(on, *compiled_, arguments_);
}

void operator_rig::upload(std::byte* to, const void* from, std::size_t bytes) {
  const device_memory pinned = on_.allocate_pinned(bytes);
  std::memcpy(pinned.get(), from, bytes);
  require(copies_->copy_in(to, pinned.get(), bytes));
  require(copies_->synchronize());
}

}  // namespace penstock::bench
