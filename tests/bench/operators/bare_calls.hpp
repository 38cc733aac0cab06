#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/operation.hpp"
#include "tests/bench/operators/operator_case.hpp"

namespace penstock::bench {

/// What a library does, called bare, beside an operator.
struct bare_counterpart {
  const char* key;                  ///< of the comparison: "of_cublas"
  std::string call;                 ///< in the words of the table: "cublasSgeam"
  std::unique_ptr<operation> what;  ///< on the operator's own inputs
  std::size_t output_bytes = 0;
  /// How far its numbers lie from those that the operator's say it should have made, relative to the largest.
  std::function<double(const std::vector<float>& made, const std::vector<float>& own)> difference;
};

struct bare_counterparts {
  std::vector<bare_counterpart> made;
  std::vector<std::string> missing;  ///< why others could not be made
};

/// Bare CUDA beside the operators. Nothing here must outlive the device. Thread: one.
class bare_calls {
 public:
  bare_calls() = default;
  bare_calls(const bare_calls&) = delete;
  bare_calls& operator=(const bare_calls&) = delete;
  virtual ~bare_calls() = default;

  /// Copies `bytes` from its input to its output, both on the device.
  [[nodiscard]] virtual std::unique_ptr<operation> copy(std::size_t bytes) const = 0;
  /// A launch of a kernel that does nothing.
  [[nodiscard]] virtual std::unique_ptr<operation> nothing() const = 0;
  /// Those that this operator has. Never throws because of a library.
  [[nodiscard]] virtual bare_counterparts beside(const operator_case& what) const = 0;
  /// The libraries' versions, 0 where there is none, and the bytes of the device's second-level cache.
  [[nodiscard]] virtual nlohmann::ordered_json facts() const = 0;
};

/// On the first device, which is open. nullptr in a build without CUDA.
[[nodiscard]] std::unique_ptr<bare_calls> open_bare_calls();

}  // namespace penstock::bench
