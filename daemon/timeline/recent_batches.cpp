#include "daemon/timeline/recent_batches.hpp"

namespace penstock {

recent_batches::recent_batches(std::size_t most, std::size_t steps, std::size_t lanes)
    : most_steps_(steps),
      most_lanes_(lanes),
      records_(most),
      references_(most * most_references),
      streams_(most * lanes),
      steps_(most * steps) {}

recent_batches::kept_batch recent_batches::place_of(std::uint64_t number) noexcept {
  const auto place = static_cast<std::size_t>(number % records_.size());
  return {records_[place], std::span(references_).subspan(place * most_references, most_references),
          std::span(streams_).subspan(place * most_lanes_, most_lanes_),
          std::span(steps_).subspan(place * most_steps_, most_steps_)};
}

recent_batches::kept_batch recent_batches::add() noexcept {
  const kept_batch added = place_of(next_);
  added.what = {};
  added.what.number = next_++;
  return added;
}

recent_batches::kept_batch recent_batches::at(std::uint64_t number) noexcept {
  const kept_batch found = place_of(number);
  return {found.what, found.references.first(found.what.references), found.streams.first(found.what.streams),
          found.steps.first(found.what.steps)};
}

std::uint64_t recent_batches::oldest() const noexcept {
  return next_ <= records_.size() ? 1 : next_ - records_.size();
}

}  // namespace penstock
