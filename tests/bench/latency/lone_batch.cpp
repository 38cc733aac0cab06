#include "tests/bench/latency/lone_batch.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

#include "daemon/device/backend.hpp"
#include "daemon/settings/machine_fit.hpp"
#include "daemon/shard/interrupts.hpp"
#include "daemon/shard/thread_mask.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using clock = std::chrono::steady_clock;

void require(fault failed) {
  if (failed) {
    throw std::runtime_error("the device failed: " + std::string(failed.name));
  }
}

std::unique_ptr<operation> compile_affine(device& on, std::int64_t floats) {
  parameters settings;
  settings.set("a", 2.0);
  settings.set("b", 1.0);
  const std::vector<tensor_spec> inputs{{element_type::f32, {floats}, false}};
  return on.compile("affine", {settings, inputs, 1});
}

class seam_batch final : public lone_batch {
 public:
  seam_batch(std::unique_ptr<device> on, std::size_t bytes)
      : device_(std::move(on)),
        bytes_(bytes),
        pinned_input_(device_->allocate_pinned(bytes)),
        pinned_output_(device_->allocate_pinned(bytes)),
        input_(device_->allocate(bytes)),
        output_(device_->allocate(bytes)),
        kernel_(compile_affine(*device_, static_cast<std::int64_t>(bytes / sizeof(float)))),
        scratch_(device_->allocate(std::max<std::size_t>(kernel_->scratch_bytes(), 1))),
        stream_(device_->open_stream(stream_priority::normal)),
        done_(device_->open_event(false)),
        operands_{input_.get()},
        launch_{.inputs = operands_,
                .output = output_.get(),
                .scratch = scratch_.get(),
                .extent = {1, static_cast<std::int64_t>(bytes / sizeof(float))},
                .session = {}} {
    keep_off_interrupts();
  }

  double p50_us(completion_mode how, std::size_t count) override {
    std::vector<double> took;
    for (std::size_t at = 0; at < count; ++at) {
      const clock::time_point begin = clock::now();
      require(stream_->copy_in(input_.get(), pinned_input_.get(), bytes_));
      require(stream_->launch(*kernel_, launch_));
      require(stream_->copy_out(pinned_output_.get(), output_.get(), bytes_));
      if (how == completion_mode::callback) {
        await_callback();
      } else {
        await_event();
      }
      took.push_back(std::chrono::duration<double, std::micro>(clock::now() - begin).count());
    }
    return quantile(std::move(took), 0.5);
  }

 private:
  // As the daemon does, so that both are measured without the interrupt's handler in the way.
  void keep_off_interrupts() {
    device_interrupts interrupts({device_->facts().pci_bus_id});
    provoke_interrupts(*device_);
    thread_mask().keep_off(interrupts.look(), processors_to_spare);
  }

  void await_callback() {
    told_.store(false, std::memory_order_relaxed);
    require(stream_->on_complete(
        [](void* context, fault /*status*/) noexcept {
          static_cast<std::atomic<bool>*>(context)->store(true, std::memory_order_release);
        },
        &told_));
    while (!told_.load(std::memory_order_acquire)) {
    }
  }

  void await_event() {
    require(stream_->record(*done_));
    fault why;
    while (done_->query(why) == event::state::pending) {
    }
    require(why);
  }

  std::unique_ptr<device> device_;
  std::size_t bytes_;
  device_memory pinned_input_;
  device_memory pinned_output_;
  device_memory input_;
  device_memory output_;
  std::unique_ptr<operation> kernel_;
  device_memory scratch_;
  std::unique_ptr<stream> stream_;
  std::unique_ptr<event> done_;
  std::array<const void*, 1> operands_;
  operation_arguments launch_;
  std::atomic<bool> told_{false};  // written by p50_us() and by the device's thread
};

}  // namespace

std::unique_ptr<lone_batch> open_lone_batch(const std::string& backend, std::size_t bytes) {
  return std::make_unique<seam_batch>(backend == "cuda" ? open_cuda_device(0) : open_host_device(1), bytes);
}

}  // namespace penstock::bench
