#pragma once

#include <string_view>

#include "daemon/timeline/time_histogram.hpp"

namespace penstock {

/// Where the time of one pipeline's requests goes. Thread: the shard.
struct pipeline_timing {
  // Of each request, by the host's clock.
  time_histogram queued;  ///< from being received to its batch's launch
  time_histogram device;  ///< from its batch's launch to its completion, as the shard saw it
  time_histogram total;   ///< from being received to its result

  // Of each batch that was timed, by the device's clock.
  time_histogram copy_in;
  time_histogram compute;   ///< from the first stage's begin to the last one's end
  time_histogram copy_out;  ///< its copies out added up

  /// Calls `with(name, histogram)` for each, in this order.
  template <typename Function>
  void for_each(Function&& with) const {
    with(std::string_view("queued"), queued);
    with(std::string_view("device"), device);
    with(std::string_view("total"), total);
    with(std::string_view("copy_in"), copy_in);
    with(std::string_view("compute"), compute);
    with(std::string_view("copy_out"), copy_out);
  }
};

}  // namespace penstock
