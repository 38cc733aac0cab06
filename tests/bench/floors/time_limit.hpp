#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace penstock::bench {

/// How long something may take altogether, from the construction on. Whoever does it asks between its steps.
class time_limit {
 public:
  using clock = std::chrono::steady_clock;
  using seconds = std::chrono::duration<double>;

  explicit time_limit(seconds most, std::function<clock::time_point()> now = clock::now);

  [[nodiscard]] bool passed() const { return taken() > most_; }
  /// "79 s of at most 180 s", or that it took longer and what may be the reason.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] seconds taken() const { return now_() - begin_; }

  seconds most_;
  std::function<clock::time_point()> now_;
  clock::time_point begin_;
};

}  // namespace penstock::bench
