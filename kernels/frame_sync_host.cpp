#include "kernels/frame_sync.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace penstock {
namespace {

class frame_sync_host final : public operation {
 public:
  explicit frame_sync_host(frame_sync_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    for (std::int32_t index = 0; index < arguments.extent.frames; ++index) {
      if (arguments.session.frames[index].previous < 0) {
        for (std::int64_t channel = 0; channel < settings_.channels; ++channel) {
          follow(arguments, index, channel);
        }
      }
    }
    return {};
  }

 private:
  /// One channel through all frames of a session, the first of which is `first`. Its state moves to the other half at
  /// once, and the frame under way grows there.
  void follow(const operation_arguments& arguments, std::int32_t first, std::int64_t channel) const noexcept {
    const session_arguments& session = arguments.session;
    const session_frame& start = session.frames[first];
    const std::size_t bytes = settings_.channel_state_bytes();
    const std::size_t place = static_cast<std::size_t>(channel) * bytes;
    std::byte* const written = session.half(start.place, 1 - start.half) + place;
    sync_state state;
    if (start.position > 0) {
      std::memcpy(written, session.half(start.place, start.half) + place, bytes);
      std::memcpy(&state, written, sizeof(state));
    }
    auto* const kept = reinterpret_cast<std::uint8_t*>(written + sizeof(state));
    const sync_search& search = settings_.search;
    for (std::int32_t index = first; index >= 0; index = session.frames[index].next) {
      const std::int64_t row = index * settings_.channels + channel;
      run_frame_sync(search, static_cast<const float*>(arguments.inputs[0]) + row * search.block_length, state, kept,
                     static_cast<double*>(arguments.output) + row * search.most * search.frame_numbers());
    }
    std::memcpy(written, &state, sizeof(state));
  }

  const frame_sync_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_frame_sync_host(const operation_request& request) {
  return std::make_unique<frame_sync_host>(parse_frame_sync(request.settings, request.inputs[0]));
}

}  // namespace penstock
