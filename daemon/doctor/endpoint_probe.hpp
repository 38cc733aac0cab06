#pragma once

#include <string>

#include "daemon/doctor/facts.hpp"

namespace penstock {

/// Whether a daemon could listen on this endpoint just now: "tcp://…" or "ipc://…". It is free for a moment's try;
/// where it is taken, whoever answers is asked for ZeroMQ's greeting, for at most half a second.
[[nodiscard]] endpoint_facts probe_data_endpoint(const std::string& endpoint);
/// The same for the admin endpoint, "HOST:PORT" or "unix:PATH"; whoever answers is asked whether it is alive.
[[nodiscard]] endpoint_facts probe_admin_endpoint(const std::string& address);

}  // namespace penstock
