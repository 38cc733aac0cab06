#pragma once

#include <complex>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/operation_runner.hpp"
#include "tests/support/test_backend.hpp"

namespace penstock {

/// An operator test that runs on each backend. A device is opened once a suite.
class operation_test : public testing::TestWithParam<std::string> {
 public:
  static void TearDownTestSuite() { runners().clear(); }

 protected:
  /// Runs the operator over `samples` and gives its output as elements of Out.
  template <class Out, class In>
  [[nodiscard]] std::vector<Out> run(const operation_case& what, const std::vector<In>& samples) {
    return elements_of<Out>(runner().run(what, std::as_bytes(std::span{samples})));
  }
  /// The same with several inputs, in their order.
  template <class Out, class In>
  [[nodiscard]] std::vector<Out> run(const operation_case& what, const std::vector<std::vector<In>>& inputs) {
    std::vector<std::span<const std::byte>> bytes;
    for (const std::vector<In>& samples : inputs) {
      bytes.push_back(std::as_bytes(std::span{samples}));
    }
    return elements_of<Out>(runner().run(what, input_bytes{bytes}));
  }

 private:
  template <class Out>
  [[nodiscard]] static std::vector<Out> elements_of(const std::vector<std::byte>& bytes) {
    std::vector<Out> out(bytes.size() / sizeof(Out));
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(Out));
    return out;
  }
  static std::map<std::string, std::unique_ptr<operation_runner>>& runners() {
    static std::map<std::string, std::unique_ptr<operation_runner>> open;
    return open;
  }
  [[nodiscard]] static operation_runner& runner() {
    std::unique_ptr<operation_runner>& held = runners()[GetParam()];
    if (held == nullptr) {
      held = std::make_unique<operation_runner>(open_test_backend(GetParam()));
    }
    return *held;
  }
};

[[nodiscard]] inline std::string backend_name(const testing::TestParamInfo<std::string>& backend) {
  return backend.param;
}

}  // namespace penstock

/// Makes the suite run on every backend to be tested.
#define PENSTOCK_ON_EACH_BACKEND(suite) \
  INSTANTIATE_TEST_SUITE_P(backends, suite, testing::ValuesIn(penstock::test_backends()), penstock::backend_name)
