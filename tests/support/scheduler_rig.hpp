#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/exec/scheduler.hpp"
#include "daemon/request/payload_store.hpp"
#include "tests/support/hand_made_plan.hpp"
#include "tests/support/manual_device.hpp"

namespace penstock::testing {

/// One terminal reply as it came.
struct recorded_reply {
  wire::status code = wire::status::ok;
  wire::error_body why;
  std::string next;                  ///< bytes of the output "next"
  std::vector<std::int32_t> sums;    ///< of the output "sum", where there is one
  std::vector<std::int32_t> totals;  ///< of the output "total", where the pipeline keeps state
};

/// Keeps every reply, by client and request id. It can hold slots as ZeroMQ does with lent outputs.
class recorded_replies : public reply_port {
 public:
  using key = std::pair<std::string, std::uint64_t>;
  struct lent_output {
    slot* from;
    const std::byte* at;
    std::string bytes;  ///< what it held when the reply was made
  };

  void result(const request& request, slot& slot) override;
  void released(const request& /*of*/) override {}
  void error(const request& request, wire::status code, const wire::error_body& why) override;

  std::map<key, std::vector<recorded_reply>> all;
  std::vector<key> order;  ///< as they came
  std::size_t count = 0;
  bool lend = false;
  std::vector<lent_output> lent;

 private:
  void note(const request& request);
};

/// A payload store that counts what is left of the payloads that a test has put there.
class parked_payloads : public payload_store {
 public:
  void park(std::uint32_t index, const std::string& payload) {
    keep(index, zmq::message_t(payload));
    indices_.insert(index);
  }
  [[nodiscard]] std::size_t size() {
    return static_cast<std::size_t>(
        std::count_if(indices_.begin(), indices_.end(), [this](std::uint32_t index) { return !bytes(index).empty(); }));
  }

 private:
  std::set<std::uint32_t> indices_;
};

struct rig_shape {
  std::size_t slots = 4;
  int streams = 2;
  completion_mode mode = completion_mode::callback;
  std::uint32_t credits = 1024;
  std::uint32_t max_sessions = 16;
  timing_settings timing{.batches_per_second = 0, .recent_batches = 64};
  std::size_t in_place_bytes = SIZE_MAX;  ///< device_facts'
  std::int64_t inline_steps = 0;          ///< batches of up to so many steps are brief: done within their launch
};

/// What a request asks for, beside its client and its id.
struct rig_request {
  std::uint32_t frames = 1;
  std::uint32_t pipeline = 0;
  std::chrono::nanoseconds timeout{0};
  std::int64_t leading = 0;  ///< 0 takes the pipeline's own
  session_record* session = nullptr;
};

/// The middle of the path by itself: a scheduler over a manual device, with the time in the test's hand.
class scheduler_rig {
 public:
  explicit scheduler_rig(const rig_shape& shape = {}, const std::vector<plan_wish>& wishes = {{}});
  /// Whatever is still with the device is done; every slot must come back.
  ~scheduler_rig();

  client_record& client(const std::string& name = "client");
  session_record& session(const std::string& name, const std::string& owner = "client", std::uint32_t pipeline = 0);
  request& submit(std::uint64_t id, const rig_request& asked = {}, const std::string& sender = "client");
  /// Turns until nothing happens any more.
  void settle();
  /// Does the stream's next batch and takes its completion.
  void finish(std::size_t stream);
  /// Ends what is due, as the shard does.
  void expire();
  void drop_lent();

  /// The only reply to a request; fails the test when there is another number of them.
  [[nodiscard]] recorded_reply reply(std::uint64_t id, const std::string& sender = "client");
  [[nodiscard]] std::size_t replies(std::uint64_t id, const std::string& sender = "client");
  [[nodiscard]] std::string payload(std::uint64_t id, const std::string& sender = "client") const;
  [[nodiscard]] std::uint64_t closed(close_reason why, std::uint32_t pipeline = 0);
  /// Fails the test when a count does not add up, a request has two replies, or a result is not its payload's and its
  /// session's.
  void check();
  /// Everything is done, without faults; fails the test when something is left over.
  void end_in_peace();

  time_point now{std::chrono::hours{1}};
  manual_device device;
  std::vector<plan> plans;
  wake_event signal;
  completion_queue completed{signal};
  slot_ring slots;
  state_pool states;
  clock_pool clocks;
  stream_pool streams;
  account counters;
  client_table clients;
  session_table sessions;
  recorded_replies replied;
  request_tracker tracker;
  parked_payloads payloads;
  recorder timeline;
  scheduler scheduling;

 private:
  struct sent {
    std::string payload;
    std::vector<std::int32_t> sums;
    std::vector<std::int32_t> totals;
  };
  std::map<recorded_replies::key, sent> sent_;
  std::vector<recorded_replies::key> unchecked_;   // sent, and not seen by `check` with their reply
  std::map<std::uint32_t, std::uint32_t> totals_;  // by session number
};

}  // namespace penstock::testing
