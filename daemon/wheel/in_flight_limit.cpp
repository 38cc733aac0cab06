#include "daemon/wheel/in_flight_limit.hpp"

#include <algorithm>
#include <chrono>

namespace penstock {

in_flight_limit::in_flight_limit(std::uint32_t most) noexcept
    : most_(most), limit_(most), trial_(most), measured_(most) {}

std::uint32_t in_flight_limit::fewer() const noexcept {
  return std::max(std::min(least, most_), limit_ * 3 / 4);
}

std::uint32_t in_flight_limit::more() const noexcept {
  return std::min(most_, 2 * limit_);
}

void in_flight_limit::done(std::size_t in_flight, double work, time_point at) noexcept {
  // Of several that are found done at once, only the first saw how many there were.
  busy_ = at == last_ ? busy_ : in_flight >= measured_;
  last_ = at;
  if (trial_ == limit_) {
    if (rest_ > 0) {
      --rest_;
    } else {
      begin_trial();
    }
    return;
  }
  // Without enough to do the rate says nothing: the turn begins again.
  if (!busy_ || in_flight > measured_) {
    begin_turn();
    return;
  }
  if (settling_ > 0) {
    --settling_;
    begin_ = at;
    return;
  }
  work_ += work;
  if (++counted_ >= batches_a_turn) {
    end_turn(at);
  }
}

void in_flight_limit::begin_trial() noexcept {
  const std::uint32_t wanted = downwards_ ? fewer() : more();
  if (wanted == limit_) {
    downwards_ = !downwards_;
    rest_ = shortest_rest;
    return;
  }
  trial_ = wanted;
  turn_ = 0;
  rates_ = {};
  begin_turn();
}

void in_flight_limit::begin_turn() noexcept {
  measured_ = turn_ % 2 == 0 ? limit_ : trial_;
  settling_ = measured_;
  counted_ = 0;
  work_ = 0;
}

void in_flight_limit::end_turn(time_point at) noexcept {
  rate& of = rates_[turn_ % 2];
  of.work += work_;
  of.seconds += std::chrono::duration<double>(at - begin_).count();
  if (++turn_ == turns) {
    judge();
  } else {
    begin_turn();
  }
}

void in_flight_limit::judge() noexcept {
  constexpr double as_good = 0.97;
  const bool went_down = trial_ < limit_;
  const double few = rates_[went_down ? 1 : 0].value();
  const double many = rates_[went_down ? 0 : 1].value();
  const bool few_do = few >= as_good * many;
  if (few_do == went_down) {
    limit_ = trial_;
    rest_ = 0;
    next_rest_ = shortest_rest;
  } else {
    rest_ = next_rest_;
    next_rest_ = std::min(2 * next_rest_, longest_rest);
    downwards_ = !downwards_;
  }
  trial_ = limit_;
  measured_ = limit_;
}

}  // namespace penstock
