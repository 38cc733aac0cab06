#include "tests/bench/operators/operator_timing.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace penstock::bench {
namespace {

constexpr int most_launches = 1000;  // of a stream at once
constexpr std::size_t alignment = 256;

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
  }
  require(stream_->record(*end_));
  require(stream_->synchronize());
  return 1e-6 * end_->elapsed_us(*begin_) / count;
}

operator_rig::operator_rig(device& on, const operator_case& what)
    : on_(on),
      output_bytes_(what.output_bytes()),
      copies_(on.open_stream(stream_priority::normal)),
      compiled_(on.compile(what.op, {.settings = what.settings, .inputs = what.inputs, .max_frames = what.frames})),
      output_(on.allocate(output_bytes_)),
      scratch_(on.allocate(std::max<std::size_t>(1, compiled_->scratch_bytes()))) {
  for (std::size_t input = 0; input < what.inputs.size(); ++input) {
    const std::vector<std::byte> batch = input_batch(what, input);
    inputs_.push_back(upload(batch.data(), batch.size()));
    addresses_.push_back(inputs_.back().get());
  }
  arguments_ = {.inputs = addresses_,
                .output = output_.get(),
                .scratch = scratch_.get(),
                .extent = {.frames = what.frames, .leading = what.inputs.front().shape.front()},
                .session = {}};
  const std::vector<session_frame> frames = what.session_frames();
  if (!frames.empty()) {
    frames_ = upload(frames.data(), frames.size() * sizeof(session_frame));
    const std::size_t stride = (compiled_->state_bytes() + alignment - 1) / alignment * alignment;
    pool_ = on.allocate(2 * what.sessions() * stride);
    arguments_.session = {
        .frames = reinterpret_cast<const session_frame*>(frames_.get()), .pool = pool_.get(), .stride = stride};
  }
  timed_ = std::make_unique<timed_operation>(on, *compiled_, arguments_);
}

device_memory operator_rig::upload(const void* from, std::size_t bytes) {
  const device_memory pinned = on_.allocate_pinned(bytes);
  device_memory made = on_.allocate(bytes);
  std::memcpy(pinned.get(), from, bytes);
  require(copies_->copy_in(made.get(), pinned.get(), bytes));
  require(copies_->synchronize());
  return made;
}

std::vector<std::byte> operator_rig::result() {
  const device_memory pinned = on_.allocate_pinned(output_bytes_);
  require(copies_->copy_out(pinned.get(), output_.get(), output_bytes_));
  require(copies_->synchronize());
  return {pinned.get(), pinned.get() + output_bytes_};
}

}  // namespace penstock::bench
