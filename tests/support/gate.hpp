#pragma once

#include <memory>

#include "kernels/operation.hpp"

namespace penstock::testing {

/// An operation that holds its stream from when the device comes to it until the test opens it. Serves one launch.
class gate : public operation {
 public:
  virtual void open() noexcept = 0;
  /// Whether the device has come to it.
  [[nodiscard]] virtual bool entered() const noexcept = 0;
};

/// Makes gates for one backend. A CUDA gate that the test forgets opens by itself after 20 seconds.
class gate_maker {
 public:
  gate_maker() = default;
  gate_maker(const gate_maker&) = delete;
  gate_maker& operator=(const gate_maker&) = delete;
  virtual ~gate_maker() = default;

  [[nodiscard]] virtual std::unique_ptr<gate> make() = 0;
  /// An operation that makes its device fail when it runs, and the name of the fault that it has then.
  [[nodiscard]] virtual std::unique_ptr<operation> make_faulty() = 0;
  [[nodiscard]] virtual const char* fault_name() const noexcept = 0;
};

/// Gates for CUDA device 0: kernels that spin on pinned memory. Everything they need is allocated and loaded here,
/// because doing that while a gate is shut may wait for the gate. Throws std::runtime_error.
[[nodiscard]] std::unique_ptr<gate_maker> make_cuda_gates();

}  // namespace penstock::testing
