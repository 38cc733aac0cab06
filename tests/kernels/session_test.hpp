#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/operation_test.hpp"
#include "tests/support/session_run.hpp"
#include "tests/support/test_backend.hpp"

namespace penstock {

/// A test of an operator that keeps state, on each backend. A device is opened once a suite.
class session_test : public testing::TestWithParam<std::string> {
 public:
  static void TearDownTestSuite() { runners().clear(); }

 protected:
  /// Takes each of the signals through the operator as a session of its own; see session_runner.
  template <class Out, class In>
  [[nodiscard]] std::vector<std::vector<Out>> run(const session_case& what,
                                                  const std::vector<std::vector<In>>& signals) {
    return runner().run<Out>(what, signals);
  }

 private:
  static std::map<std::string, std::unique_ptr<session_runner>>& runners() {
    static std::map<std::string, std::unique_ptr<session_runner>> open;
    return open;
  }
  [[nodiscard]] static session_runner& runner() {
    std::unique_ptr<session_runner>& held = runners()[GetParam()];
    if (held == nullptr) {
      held = std::make_unique<session_runner>(open_test_backend(GetParam()));
    }
    return *held;
  }
};

}  // namespace penstock
