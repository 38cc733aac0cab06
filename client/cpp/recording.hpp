#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/client.hpp>

namespace penstock::link {

/// How a recording is split into the requests of a session.
struct recording_cut {
  std::size_t frame_bytes = 0;
  std::size_t row_bytes = 0;      ///< bytes of one index of a frame's first dimension, if that is time, else of a frame
  std::uint32_t frames = 1;       ///< frames of one request
  std::size_t in_flight = 1;      ///< requests in flight
  std::size_t whole_frames = 0;   ///< whole frames of the recording
  std::int64_t tail_samples = 0;  ///< samples at the end that do not fill a frame
};

/// Splits `bytes`. Throws request_error when they are not a whole number of samples, or of frames.
[[nodiscard]] recording_cut cut_recording(const pipeline_info& pipeline, const server_info& server, std::size_t bytes);

/// Concatenates the results of a recording.
class joined_results {
 public:
  explicit joined_results(const pipeline_info& pipeline);

  /// Appends the next part.
  void add(const result& next);
  /// The whole, as documented for session::run; it keeps `all` alive.
  [[nodiscard]] static result take(std::shared_ptr<joined_results> all);

 private:
  struct output {
    tensor_info info;
    std::int64_t entries = 0;  ///< extent of the first dimension
    std::vector<std::byte> bytes{};
    std::int64_t index = 0;  ///< as in tensor_view
  };

  std::vector<output> outputs_;
  std::uint64_t last_id_ = 0;
  std::uint32_t frames_ = 0;
  std::optional<sample_account> account_;  ///< of the first part
};

}  // namespace penstock::link
