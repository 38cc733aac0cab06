#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace penstock::bench {

/// The configuration of a daemon whose pipelines do next to nothing: `affine` stages on f32, as many bytes out as
/// in. Clients get credits for whatever a benchmark keeps in flight.
struct affine_configuration {
  std::vector<std::size_t> floats{64};  ///< of a frame, a pipeline each
  std::size_t frames = 1;               ///< that a request may have: batches have room for it
  int streams = 8;
  int shards = 1;
  int stages = 1;  ///< of a pipeline, one behind the other

  [[nodiscard]] std::string text() const;
};

}  // namespace penstock::bench
