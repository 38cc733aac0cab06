#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/operation.hpp"

namespace penstock {

/// A batch of frames of several sessions, as session_frame.hpp says that an operation gets them.
struct session_batch {
  std::vector<session_frame> frames;
  std::vector<std::size_t> owners;  ///< the session of each frame
  std::int64_t leading = 0;
};

/// Cuts sessions at random into frames and deals these into batches.
class session_cut {
 public:
  /// `remaining`: the steps of each session. `most`: the steps of the longest frame; `least` of the shortest, equal to
  /// `most` for a fixed input. `places`: of the pool, at least one a session.
  session_cut(std::uint64_t seed, std::vector<std::int64_t> remaining, std::int64_t least, std::int64_t most,
              step_rate rate, std::int32_t places);

  /// Empty once every session is at its end.
  [[nodiscard]] session_batch next(std::int64_t max_frames);
  [[nodiscard]] std::int64_t integer(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>{least, most}(engine_);
  }

 private:
  struct session {
    std::int64_t position = 0;
    std::int64_t remaining = 0;
    std::int32_t place = 0;
    std::int32_t half = 0;
    std::int32_t last = -1;  ///< its last frame in the batch that is being filled
  };
  [[nodiscard]] std::int32_t length(const session& of);
  void append(session_batch& batch, std::size_t owner);

  std::mt19937_64 engine_;
  std::vector<session> sessions_;
  std::int64_t least_;
  std::int64_t most_;
  step_rate rate_;
};

}  // namespace penstock
