#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/pipeline/plan.hpp"
#include "daemon/request/account.hpp"
#include "daemon/request/client_table.hpp"
#include "daemon/request/reply_port.hpp"
#include "daemon/request/request.hpp"
#include "daemon/request/session_table.hpp"
#include "proto/message.hpp"

namespace penstock {

/// The exactly-one-reply account: requests are opened here when they are accepted and settled here with their one
/// terminal reply. Credits, deadlines and counters follow from these two. Thread: the shard.
class ledger {
 public:
  ledger(std::size_t pipelines, reply_port& replies, account& counters)
      : replies_(replies), counters_(counters), by_pipeline_(pipelines), open_(pipelines) {}

  /// A SUBMIT or SUBMIT_SHARED that passed its admission.
  struct admitted {
    const plan* pipeline = nullptr;
    session_record* session = nullptr;  ///< whose next it is, if it is of one
    std::int64_t leading = 0;
    std::size_t bytes = 0;  ///< of the payload
    shared_frames shared{};
  };

  /// Accepts a request: takes its credits, starts its deadline, counts it.
  [[nodiscard]] request& open(client_record& from, const wire::message_header& header, const admitted& what,
                              time_point now);
  /// The terminal replies; exactly one of them, once, for each request that was opened.
  void settle_result(request& done, slot& from);
  void settle_error(request& ended, wire::status code, const wire::error_body& why);
  /// A settled request stays in its queue, because its session's state still has to see its frames.
  void abandon(request& settled) noexcept;
  /// Nothing refers to a settled request any more.
  void release(request& settled) noexcept;

  /// A request whose deadline is due, nullptr when there is none.
  [[nodiscard]] request* due(time_point now) const noexcept { return deadlines_.due(now); }
  [[nodiscard]] time_point next_deadline() const noexcept { return deadlines_.earliest(); }

  /// A plan that comes later, of any name.
  void add(const plan& later);
  /// Requests of that plan that were opened and not released.
  [[nodiscard]] std::size_t open_of(const plan& which) const noexcept { return open_[which.place]; }

  [[nodiscard]] pipeline_account& of_pipeline(std::uint32_t id) noexcept { return by_pipeline_[id]; }
  [[nodiscard]] const std::vector<pipeline_account>& by_pipeline() const noexcept { return by_pipeline_; }

 private:
  void close(request& ended, wire::status_kind how) noexcept;

  reply_port& replies_;
  account& counters_;
  request_pool pool_;
  deadline_heap deadlines_;
  std::vector<pipeline_account> by_pipeline_;  // by id
  std::vector<std::size_t> open_;              // by the place of the plan
};

/// "queued", "batched", "executing", "held": how an ERROR names the step at which a request ended.
[[nodiscard]] std::string_view name_of(request_step step) noexcept;

}  // namespace penstock
