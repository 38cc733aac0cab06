#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tests/support/gate.hpp"

namespace penstock::testing {

/// Gates for the host backend: each shut gate takes a worker thread.
[[nodiscard]] std::unique_ptr<gate_maker> make_host_gates();

/// A host operation that calls a function of the test.
class host_task final : public operation {
 public:
  explicit host_task(std::function<fault()> what) : what_(std::move(what)) {}
  fault run(void*, const operation_arguments&) noexcept override { return what_(); }

 private:
  std::function<fault()> what_;
};

}  // namespace penstock::testing
