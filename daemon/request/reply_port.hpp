#pragma once

#include "proto/control.hpp"
#include "proto/status.hpp"

namespace penstock {

struct request;
struct slot;

/// Where terminal replies go: egress, or a test. Thread: the shard.
class reply_port {
 public:
  reply_port() = default;
  reply_port(const reply_port&) = delete;
  reply_port& operator=(const reply_port&) = delete;
  virtual ~reply_port() = default;

  /// The request's frames of every output, from the slot's pinned output. The port may hold a reference on the slot.
  virtual void result(const request& of, slot& from) = 0;
  virtual void error(const request& of, wire::status code, const wire::error_body& why) = 0;
  /// After an error with `holds`: nothing uses the request's shared memory any more.
  virtual void released(const request& of) = 0;
};

}  // namespace penstock
