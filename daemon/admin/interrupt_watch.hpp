#pragma once

#include <cstddef>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/shard/interrupts.hpp"
#include "daemon/shard/thread_mask.hpp"

namespace penstock {

/// Keeps the daemon's threads, the driver's among them, off the processors that take the devices' interrupts: for as
/// long as such an interrupt is handled, some 30 us of a GPU's, a thread there stands still, and it comes just when a
/// batch is done (docs/decisions/0027-off-the-interrupts.md). Where interrupts go is looked up again every ten seconds,
/// since something may move them. Thread: the admin's.
class interrupt_watch {
 public:
  /// Looks at once, so the devices should have been provoked (provoke_interrupts) since `devices` was made. `least`:
  /// the processors that must be left; with fewer nothing is done. `admin` outlives it.
  interrupt_watch(boost::asio::io_context& admin, device_interrupts devices, std::size_t least);

 private:
  void look();

  device_interrupts devices_;
  std::size_t least_;
  thread_mask threads_;
  std::vector<int> off_;
  boost::asio::steady_timer timer_;
};

}  // namespace penstock
