#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/device/device.hpp"
#include "tests/support/gate.hpp"

namespace penstock::testing {

/// Holds a stream until it is opened, at the latest when it goes out of scope. Declare it after its stream: a stream
/// that is destroyed waits for its work.
class hold {
 public:
  explicit hold(gate& shut) noexcept : gate_(shut) {}
  hold(const hold&) = delete;
  hold& operator=(const hold&) = delete;
  ~hold() { open(); }

  void open() noexcept { gate_.open(); }
  /// Waits until the device has come to it; false when that takes more than a minute.
  [[nodiscard]] bool await_entered() const;

 private:
  gate& gate_;
};

/// Gates for the host backend: each shut gate takes a worker thread.
[[nodiscard]] std::unique_ptr<gate_maker> make_host_gates();

/// A host operation that calls a function of the test.
class host_task final : public operation {
 public:
  explicit host_task(std::function<fault()> body) : body_(std::move(body)) {}
  fault run(void*, const operation_arguments&) noexcept override { return body_(); }

 private:
  std::function<fault()> body_;
};

/// What every backend keeps. The parameter is the backend's name; PENSTOCK_TEST_BACKENDS (a comma list) says which
/// ones must be there. Without it the host is tested, and CUDA where it opens.
class device_contract : public ::testing::TestWithParam<const char*> {
 protected:
  /// Worker threads of the host backend in these tests: more than a test shuts gates.
  static constexpr int host_threads = 4;

  void SetUp() override;

  [[nodiscard]] device& target() noexcept { return *device_; }
  [[nodiscard]] gate_maker& gates() noexcept { return *gates_; }

  [[nodiscard]] std::unique_ptr<stream> open_stream() { return device_->open_stream(stream_priority::normal); }
  [[nodiscard]] std::unique_ptr<event> open_event() { return device_->open_event(false); }
  /// Enqueues a gate.
  [[nodiscard]] std::unique_ptr<hold> shut(stream& queue);
  /// Sends bytes to the device and back on a stream and waits for it: what is independent of a held stream can do it.
  void make_a_round_trip(stream& queue);
  [[nodiscard]] static event::state state_of(event& which);

 private:
  std::unique_ptr<device> device_;
  std::unique_ptr<gate_maker> gates_;
  std::vector<std::unique_ptr<gate>> used_gates_;
  device_memory round_trip_pinned_;
  device_memory round_trip_device_;
};

/// Pinned or device memory as numbers.
[[nodiscard]] inline std::uint32_t* words(const device_memory& memory) noexcept {
  return reinterpret_cast<std::uint32_t*>(memory.get());
}

/// Fails the test when a call that only enqueues reports a fault.
#define EXPECT_ENQUEUED(call) EXPECT_STREQ((call).name, nullptr)

/// How gtest names the instances.
[[nodiscard]] inline std::string name_of_backend(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

}  // namespace penstock::testing
