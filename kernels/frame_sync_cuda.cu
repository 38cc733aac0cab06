#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/frame_sync.hpp"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

/// What a launch needs to know of the batch and the states.
struct sync_batch {
  session_arguments session;
  const float* input;
  double* output;
  std::int64_t frames;
  std::int64_t channels;
  std::int64_t state_bytes;  ///< of a channel
};

/// A thread follows one channel of a session through its frames of the batch, because whether a bit is searched depends
/// on the bits before it. Rows of the grid take frames in turn. The state moves to the other half at once, and the
/// frame under way grows there.
__global__ void __launch_bounds__(block_threads) follow_bits(sync_batch batch, sync_search search) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel >= batch.channels) {
    return;
  }
  for (auto first = static_cast<std::int64_t>(blockIdx.y); first < batch.frames;
       first += static_cast<std::int64_t>(gridDim.y)) {
    const session_frame& start = batch.session.frames[first];
    if (start.previous >= 0) {
      continue;
    }
    std::byte* const written = batch.session.half(start.place, 1 - start.half) + channel * batch.state_bytes;
    auto* const kept = reinterpret_cast<std::uint8_t*>(written + sizeof(sync_state));
    sync_state state{};
    if (start.position > 0) {
      const std::byte* const read = batch.session.half(start.place, start.half) + channel * batch.state_bytes;
      state = *reinterpret_cast<const sync_state*>(read);
      const auto* const bits = reinterpret_cast<const std::uint8_t*>(read + sizeof(sync_state));
      for (std::int64_t each = 0; each < state.taken; ++each) {
        kept[each] = bits[each];
      }
    }
    for (std::int32_t index = static_cast<std::int32_t>(first); index >= 0; index = batch.session.frames[index].next) {
      const std::int64_t row = index * batch.channels + channel;
      run_frame_sync(search, batch.input + row * search.block_length, state, kept,
                     batch.output + row * search.most * search.frame_numbers());
    }
    *reinterpret_cast<sync_state*>(written) = state;
  }
}

class frame_sync_cuda final : public operation {
 public:
  explicit frame_sync_cuda(frame_sync_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    if (arguments.extent.frames <= 0) {
      return {};
    }
    const int threads = threads_for(settings_.channels);
    const dim3 grid(static_cast<unsigned>(divide_up(settings_.channels, threads)),
                    static_cast<unsigned>(std::min<std::int64_t>(arguments.extent.frames, max_grid_rows)));
    const sync_batch batch{.session = arguments.session,
                           .input = static_cast<const float*>(arguments.inputs[0]),
                           .output = static_cast<double*>(arguments.output),
                           .frames = arguments.extent.frames,
                           .channels = settings_.channels,
                           .state_bytes = static_cast<std::int64_t>(settings_.channel_state_bytes())};
    return launch(stream, grid, dim3(static_cast<unsigned>(threads)), &follow_bits, batch, settings_.search);
  }

 private:
  const frame_sync_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_frame_sync_cuda(const operation_request& request) {
  return std::make_unique<frame_sync_cuda>(parse_frame_sync(request.settings, request.inputs[0]));
}

}  // namespace penstock
