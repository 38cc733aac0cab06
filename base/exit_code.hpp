#pragma once

namespace penstock {

/// Exit codes of penstockd. The service manager restarts it after `device_lost`, and not after `configuration`.
enum class exit_code : int {
  ok = 0,               ///< stopped and drained, or --check-config and the like found nothing wrong
  drain_cut_short = 3,  ///< stopped, but what was in flight at the drain timeout or second signal got SHUTDOWN
  usage = 64,           ///< the command line is wrong (EX_USAGE)
  unavailable = 69,     ///< a device, an endpoint or a file can't be had now (EX_UNAVAILABLE)
  internal = 70,        ///< a fault of ours (EX_SOFTWARE)
  out_of_memory = 71,   ///< no memory, or no more (EX_OSERR)
  device_lost = 75,     ///< the device failed or hung: everything in flight was answered FAILED (EX_TEMPFAIL)
  configuration = 78,   ///< the configuration is wrong (EX_CONFIG)
};

}  // namespace penstock
