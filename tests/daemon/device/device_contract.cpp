#include "tests/daemon/device/device_contract.hpp"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "daemon/device/backend.hpp"

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

constexpr std::size_t round_trip_words = 1024;

bool is_named(std::string_view backend) {
  const char* const list = std::getenv("PENSTOCK_TEST_BACKENDS");
  std::istringstream names(list != nullptr ? list : "");
  for (std::string name; std::getline(names, name, ',');) {
    if (name == backend) {
      return true;
    }
  }
  return false;
}

std::unique_ptr<device> open_backend(std::string_view backend) {
  if (backend == "host") {
    return open_host_device(4);
  }
#ifdef PENSTOCK_TEST_CUDA
  return open_cuda_device(0);
#else
  throw device_error("this program was built where there is no CUDA toolkit");
#endif
}

std::unique_ptr<gate_maker> make_gates(std::string_view backend) {
#ifdef PENSTOCK_TEST_CUDA
  if (backend == "cuda") {
    return make_cuda_gates();
  }
#endif
  return backend == "host" ? make_host_gates() : throw std::logic_error("no gates for this backend");
}

}  // namespace

std::unique_ptr<gate_maker> make_host_gates() {
  return std::make_unique<host_gates>();
}

bool hold::await_entered() const {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (!gate_.entered()) {
    if (std::chrono::steady_clock::now() > give_up) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

void device_contract::SetUp() {
  const std::string backend = GetParam();
  const bool named = is_named(backend);
  if (std::getenv("PENSTOCK_TEST_BACKENDS") != nullptr && !named) {
    GTEST_SKIP() << "PENSTOCK_TEST_BACKENDS does not name " << backend;
  }
  try {
    device_ = open_backend(backend);
    gates_ = make_gates(backend);
    round_trip_pinned_ = device_->allocate_pinned(2 * round_trip_words * sizeof(std::uint32_t));
    round_trip_device_ = device_->allocate(round_trip_words * sizeof(std::uint32_t));
  } catch (const std::runtime_error& error) {
    if (named || backend == "host") {
      FAIL() << backend << " can't be tested: " << error.what();
    }
    GTEST_SKIP() << error.what();
  }
}

std::unique_ptr<hold> device_contract::shut(stream& queue) {
  gate& used = *used_gates_.emplace_back(gates_->make());
  EXPECT_ENQUEUED(queue.launch(used, {}));
  return std::make_unique<hold>(used);
}

void device_contract::make_a_round_trip(stream& queue) {
  std::uint32_t* const sent = words(round_trip_pinned_);
  std::uint32_t* const received = sent + round_trip_words;
  for (std::uint32_t at = 0; at < round_trip_words; ++at) {
    sent[at] += at + 1;
  }
  const std::size_t bytes = round_trip_words * sizeof(std::uint32_t);
  EXPECT_ENQUEUED(queue.copy_in(round_trip_device_.get(), sent, bytes));
  EXPECT_ENQUEUED(queue.copy_out(received, round_trip_device_.get(), bytes));
  EXPECT_ENQUEUED(queue.synchronize());
  EXPECT_EQ(std::vector(sent, sent + round_trip_words), std::vector(received, received + round_trip_words));
}

event::state device_contract::state_of(event& which) {
  fault why;
  const event::state state = which.query(why);
  EXPECT_EQ(why.name != nullptr, state == event::state::failed);
  return state;
}

}  // namespace penstock::testing
