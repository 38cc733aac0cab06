#pragma once

#include <memory>
#include <vector>

namespace penstock::bench {

/// These numbers in memory of the current device, of which the last copy of the pointer lets go. Waits for the copy;
/// throws std::runtime_error.
[[nodiscard]] std::shared_ptr<const float> device_table(const std::vector<float>& numbers);

}  // namespace penstock::bench
