#include "tests/support/session_cut.hpp"

#include <algorithm>
#include <numeric>

namespace penstock {

session_cut::session_cut(std::uint64_t seed, std::vector<std::int64_t> remaining, std::int64_t least, std::int64_t most,
                         step_rate rate, std::int32_t places)
    : engine_{seed}, sessions_(remaining.size()), least_{least}, most_{most}, rate_{rate} {
  std::vector<std::int32_t> free(static_cast<std::size_t>(places));
  std::iota(free.begin(), free.end(), 0);
  std::shuffle(free.begin(), free.end(), engine_);
  for (std::size_t index = 0; index < sessions_.size(); ++index) {
    sessions_[index] = {
        .remaining = remaining[index], .place = free[index], .half = static_cast<std::int32_t>(integer(0, 1))};
  }
}

session_batch session_cut::next(std::int64_t max_frames) {
  session_batch batch;
  for (std::int64_t wanted = integer(1, max_frames); wanted > 0; --wanted) {
    std::vector<std::size_t> waiting;
    for (std::size_t index = 0; index < sessions_.size(); ++index) {
      if (sessions_[index].remaining > 0) {
        waiting.push_back(index);
      }
    }
    if (waiting.empty()) {
      break;
    }
    append(batch, waiting[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(waiting.size()) - 1))]);
  }
  std::int64_t longest = 1;
  for (const session_frame& frame : batch.frames) {
    longest = std::max<std::int64_t>(longest, frame.steps);
  }
  batch.leading = integer(0, 1) == 0 ? longest : integer(longest, most_);
  for (session& each : sessions_) {
    each.half = each.last < 0 ? each.half : 1 - each.half;
    each.last = -1;
  }
  return batch;
}

/// Half of the frames are short, so that several lie within one history.
std::int32_t session_cut::length(const session& of) {
  const std::int64_t most = integer(0, 1) == 0 ? most_ : std::max(least_, most_ / 8);
  return static_cast<std::int32_t>(std::min(integer(least_, std::max<std::int64_t>(most, 1)), of.remaining));
}

void session_cut::append(session_batch& batch, std::size_t owner) {
  session& of = sessions_[owner];
  const auto index = static_cast<std::int32_t>(batch.frames.size());
  const std::int32_t steps = length(of);
  batch.frames.push_back(
      {.position = of.position,
       .steps = steps,
       .produced = static_cast<std::int32_t>(rate_.total(of.position + steps) - rate_.total(of.position)),
       .previous = of.last,
       .next = -1,
       .place = of.place,
       .half = of.half});
  batch.owners.push_back(owner);
  if (of.last >= 0) {
    batch.frames[static_cast<std::size_t>(of.last)].next = index;
  }
  of.last = index;
  of.position += steps;
  of.remaining -= steps;
}

}  // namespace penstock
