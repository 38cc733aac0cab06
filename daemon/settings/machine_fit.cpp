#include "daemon/settings/machine_fit.hpp"

#include <algorithm>

namespace penstock {
namespace {

// A shard has no use for more: see docs/decisions/0019-threads-of-a-shard.md.
constexpr std::size_t most_io_threads = 4;

}  // namespace

settings fitted(settings what, std::size_t shards, std::size_t processors) {
  const std::size_t each = processors / std::max<std::size_t>(shards, 1);
  if (what.daemon.io_threads == 0) {
    what.daemon.io_threads = static_cast<int>(std::clamp<std::size_t>(each / 4, 1, most_io_threads));
  }
  if (each < processors_to_spare) {
    what.daemon.spin = std::chrono::nanoseconds{0};
  }
  if (each < 2 && what.wheel.completion == completion_mode::automatic) {
    what.wheel.completion = completion_mode::callback;
  }
  return what;
}

}  // namespace penstock
