#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/pipeline/plan.hpp"
#include "daemon/request/clients.hpp"
#include "daemon/request/counters.hpp"
#include "daemon/request/request.hpp"
#include "daemon/request/sessions.hpp"
#include "proto/control.hpp"
#include "proto/message.hpp"
#include "proto/status.hpp"

namespace penstock {

/// Receives the terminal replies of requests. Implemented by reply_sender, and by tests. Thread: the shard.
class reply_port {
 public:
  reply_port() = default;
  reply_port(const reply_port&) = delete;
  reply_port& operator=(const reply_port&) = delete;
  virtual ~reply_port() = default;

  /// Sends the outputs of the request, which lie in the slot's pinned output or in the client's arena. May take a
  /// reference to the slot.
  virtual void result(const request& done, slot& slot) = 0;
  virtual void error(const request& ended, wire::status code, const wire::error_body& why) = 0;
  /// The shared memory of a request that ended with an ERROR is no longer in use (error_body::holds).
  virtual void released(const request& ended) = 0;
};

/// Ensures that every accepted request gets exactly one terminal reply: `open` accepts it, `settle_result` or
/// `settle_error` answers it. Only the tracker charges credits, sets deadlines and counts outcomes. Thread: the shard.
class request_tracker {
 public:
  request_tracker(std::size_t pipelines, reply_port& replies, account& counters)
      : replies_(replies), counters_(counters), by_pipeline_(pipelines), open_(pipelines) {}

  /// What admission found out about a SUBMIT or SUBMIT_SHARED.
  struct submission {
    const plan* pipeline = nullptr;
    session_record* session = nullptr;  ///< nullptr: none
    std::int64_t leading = 0;           ///< leading dimension of its frames
    std::size_t bytes = 0;              ///< of the payload
    shared_frames shared{};
    std::optional<wire::sample_account> account{};
    tuned_numbers numbers{};
  };

  /// Accepts a request: takes its credits, starts its deadline, counts it.
  [[nodiscard]] request& open(client_record& client, const wire::message_header& header, const submission& admitted,
                              time_point now);
  /// Sends the terminal reply. Call one of the two, once for each request.
  void settle_result(request& done, slot& slot);
  void settle_error(request& ended, wire::status code, const wire::error_body& why);
  /// Keeps a settled request in its queue: its frames must still update the session's state.
  void abandon(request& settled) noexcept;
  /// Returns a settled request to the pool. Nothing may refer to it any more.
  void release(request& settled) noexcept;

  /// An open request whose deadline has passed, or nullptr.
  [[nodiscard]] request* due(time_point now) const noexcept { return deadlines_.due(now); }
  [[nodiscard]] time_point next_deadline() const noexcept { return deadlines_.earliest(); }

  /// A plan that a reload adds.
  void add(const plan& later);
  /// Requests of the plan that were opened and not released.
  [[nodiscard]] std::size_t open_of(const plan& pipeline) const noexcept { return open_[pipeline.place]; }

  [[nodiscard]] pipeline_account& of_pipeline(std::uint32_t id) noexcept { return by_pipeline_[id]; }
  [[nodiscard]] const std::vector<pipeline_account>& by_pipeline() const noexcept { return by_pipeline_; }

 private:
  void close(request& ended, wire::status_kind kind) noexcept;

  reply_port& replies_;
  account& counters_;
  request_pool pool_;
  deadline_heap deadlines_;
  std::vector<pipeline_account> by_pipeline_;  // by id
  std::vector<std::size_t> open_;              // by plan::place
};

/// The name of a step in an ERROR: "queued", "batched", "executing", "held".
[[nodiscard]] std::string_view name_of(request_step step) noexcept;

}  // namespace penstock
