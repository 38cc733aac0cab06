#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "client/cpp/arena.hpp"
#include "client/cpp/credit_gate.hpp"

namespace penstock::link {

/// The arena that callers write into, if there is one. Writer: the connection's thread. Readers: any thread.
class arena_slot {
 public:
  /// nullptr while there is none.
  [[nodiscard]] std::shared_ptr<arena> current() const;
  /// Why there is none; "" while there is one, or nothing is known.
  [[nodiscard]] std::string absence() const;
  /// As current, but where nothing is known it waits for that, at most until `deadline`.
  [[nodiscard]] std::shared_ptr<arena> wait(time_point deadline) const;

  /// How often something has changed, or could not: for `wait_for_change`.
  [[nodiscard]] std::uint64_t changes() const;
  /// Until there have been more than that, at most until `deadline`.
  void wait_for_change(std::uint64_t seen, time_point deadline) const;

  void put(std::shared_ptr<arena> what);
  /// There will be no other for now.
  void stay();
  void refuse(std::string why);
  /// Nothing is known any more.
  void forget();

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable settled_;
  std::shared_ptr<arena> arena_;
  std::string absence_;
  std::uint64_t changes_ = 0;
};

}  // namespace penstock::link
