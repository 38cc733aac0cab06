#pragma once

#include <map>
#include <string>

#include "tests/bench/statistics.hpp"

namespace penstock::bench {

/// Contenders that take turns under one load, and what their ratios are called. What is a process of its own is started
/// by the constructor, and nothing else: a fork would copy the locks of threads. So all trials are made before the
/// first of them connects.
class trial {
 public:
  trial() = default;
  trial(const trial&) = delete;
  trial& operator=(const trial&) = delete;
  virtual ~trial() = default;

  /// Connects, and warms up.
  virtual void connect() = 0;
  /// Every contender once.
  virtual void turn() = 0;
  /// The ratios of the turns so far, by name; the higher, the better.
  virtual void add_ratios(std::map<std::string, spread>& to) const = 0;
};

}  // namespace penstock::bench
