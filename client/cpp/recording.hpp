#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/client.hpp>

namespace penstock::link {

/// How a recording is cut into the requests of a session.
struct recording_cut {
  std::size_t frame_bytes = 0;
  std::size_t row_bytes = 0;      ///< of one sample: a frame's first dimension
  std::uint32_t frames = 1;       ///< of one request
  std::size_t in_flight = 1;      ///< requests at once
  std::size_t whole_frames = 0;   ///< of the recording
  std::int64_t tail_samples = 0;  ///< that fill no frame
};

/// Cuts so many bytes. Throws request_error where they are no whole number of samples.
[[nodiscard]] recording_cut cut_recording(const pipeline_info& pipeline, const server_info& server, std::size_t bytes);

/// The results of a recording, one behind the other.
class joined_results {
 public:
  explicit joined_results(const pipeline_info& pipeline);

  /// The next part.
  void add(const result& next);
  /// All of it, as result::outputs says of session::run.
  [[nodiscard]] static result take(std::shared_ptr<joined_results> all);

 private:
  struct output {
    tensor_info info;
    std::int64_t entries = 0;  ///< of its first dimension
    std::vector<std::byte> bytes{};
  };

  std::vector<output> outputs_;
  std::uint64_t last_id_ = 0;
  std::uint32_t frames_ = 0;
};

}  // namespace penstock::link
