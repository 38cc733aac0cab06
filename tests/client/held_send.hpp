#pragma once

#include "proto/message.hpp"

namespace penstock::test {

/// Until it is let go, whoever sends a message of that type through libzmq is held right behind it, as by a scheduler
/// that gives the processor to somebody else: the message is on its way already. One at a time.
class held_send {
 public:
  explicit held_send(wire::message_type type) noexcept;
  held_send(const held_send&) = delete;
  held_send& operator=(const held_send&) = delete;
  ~held_send() { let_go(); }

  /// Thread: any.
  void let_go() noexcept;
};

}  // namespace penstock::test
