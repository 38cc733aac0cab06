#include "tests/daemon/device/host_gate.hpp"

#include <condition_variable>
#include <mutex>

namespace penstock::testing {
namespace {

constexpr const char* host_fault = "HOST_TEST_FAULT";

class host_gate final : public gate {
 public:
  void open() noexcept override {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  [[nodiscard]] bool entered() const noexcept override {
    const std::lock_guard lock(mutex_);
    return entered_;
  }

  fault run(void*, const operation_arguments&) noexcept override {
    std::unique_lock lock(mutex_);
    entered_ = true;
    changed_.wait(lock, [this] { return open_; });
    return {};
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool entered_ = false;
};

class host_gates final : public gate_maker {
 public:
  std::unique_ptr<gate> make() override { return std::make_unique<host_gate>(); }
  std::unique_ptr<operation> make_faulty() override {
    return std::make_unique<host_task>([] { return fault{host_fault}; });
  }
  [[nodiscard]] const char* fault_name() const noexcept override { return host_fault; }
};

}  // namespace

std::unique_ptr<gate_maker> make_host_gates() {
  return std::make_unique<host_gates>();
}

}  // namespace penstock::testing
