#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "daemon/device/host/device.hpp"
#include "daemon/exec/scheduler.hpp"
#include "tests/daemon/exec/made_up_plan.hpp"
#include "tests/support/hand_made_plan.hpp"
#include "tests/support/scheduler_rig.hpp"

namespace penstock::testing {

/// Looks at every reply as it comes: results against what was worked out when the request was sent, the order of their
/// session, and that there is one.
class checked_results : public reply_port {
 public:
  struct expectation {
    std::string payload;
    std::vector<std::int32_t> totals;  ///< of its session behind each frame
  };

  void result(const request& request, slot& slot) override {
    const expectation expected = take(request);
    const plan& what = *request.pipeline;
    const auto* const output = slot.pinned_output.get();
    const auto first = static_cast<std::size_t>(request.first_frame);
    for (const std::size_t branch : {0U, 1U}) {
      std::vector<std::int32_t> totals(request.frames);
      std::memcpy(totals.data(), output + what.outputs[branch].pinned_offset + first * sizeof(std::int32_t),
                  request.frames * sizeof(std::int32_t));
      EXPECT_EQ(totals, expected.totals) << "request " << request.id << " of session " << request.session->number
                                         << ", branch " << branch;
    }
    const std::byte* const next =
        output + what.outputs[2].pinned_offset + first * what.input().bytes(slot.work.leading);
    EXPECT_EQ(std::memcmp(next, next_of(expected.payload).data(), expected.payload.size()), 0)
        << "request " << request.id;
    if (what.declaration.ordered) {
      std::uint64_t& at_least = next_sequence_[request.session->number];
      EXPECT_GE(request.sequence, at_least) << "session " << request.session->number;
      at_least = request.sequence + request.frames;
    }
    ++results;
  }
  void released(const request& /*of*/) override {}
  void error(const request& request, wire::status code, const wire::error_body& /*why*/) override {
    (void)take(request);
    EXPECT_TRUE(code == wire::status::cancelled || code == wire::status::expired) << wire::name_of(code);
    ++errors;
  }

  std::map<std::uint64_t, expectation> awaited;  ///< by request id
  std::uint64_t results = 0;
  std::uint64_t errors = 0;

 private:
  expectation take(const request& request) {
    const auto found = awaited.find(request.id);
    if (found == awaited.end()) {
      ADD_FAILURE() << "a second reply to request " << request.id;
      return {};
    }
    expectation made = std::move(found->second);
    awaited.erase(found);
    return made;
  }

  std::map<std::uint32_t, std::uint64_t> next_sequence_;  // by session
};

/// Sessions over the streams of a host device: the middle of the path, with operators of any duration. Two branches
/// keep state, each on a lane of its own.
class session_run_rig {
 public:
  static constexpr std::int64_t longest = 16;
  static constexpr std::int64_t max_frames = 64;

  /// Two pipelines, whose results come in the order of their sessions (0) and as they finish (1).
  explicit session_run_rig(completion_mode mode) {
    slots_.emplace(device_, 16, size_for(plans_), mode == completion_mode::poll, completed_, signal_);
    states_.emplace(device_, plans_, sessions.places());
    const stream_class classes[] = {stream_priority::normal};
    stream_pool_.emplace(device_, 8, classes, mode, *states_);
    scheduler_.emplace(plans_, *slots_, *stream_pool_, completed_, tracker_, payloads_, timeline_);
  }

  [[nodiscard]] session_record* open(const std::string& client, std::uint32_t pipeline, const std::string& name) {
    return sessions.open(*clients.admit(client, now), plans_[pipeline], name, now);
  }
  void submit(session_record& session, std::uint32_t frames, std::int64_t leading, std::chrono::nanoseconds timeout) {
    const plan& what = *session.pipeline;
    wire::message_header header;
    header.request_id = ++ids_;
    header.frames = frames;
    header.timeout_ns = static_cast<std::uint64_t>(timeout.count());
    const std::size_t bytes = frames * what.input().bytes(leading);
    checked_results::expectation& sent = replies.awaited[ids_];
    sent.payload = payload_of(bytes, ids_);
    std::uint32_t& total = totals_[session.number];
    for (const std::int32_t each : sums_of(sent.payload, frames)) {
      total += static_cast<std::uint32_t>(each);
      sent.totals.push_back(static_cast<std::int32_t>(total));
    }
    client_record& from = *clients.find(session.client->identity);
    request& made = tracker_.open(
        from, header, {.pipeline = &what, .session = &session, .leading = leading, .bytes = bytes, .shared = {}}, now);
    if (scheduler_->submit(made, std::as_bytes(std::span(sent.payload))) != submit_outcome::batched) {
      payloads_.park(made.index, sent.payload);
    }
  }
  /// Ends a request, if it is still in flight.
  void cancel(const std::string& client, std::uint64_t id) {
    if (request* const found = clients.find(client)->in_flight.find(id)) {
      scheduler_->end(*found, wire::status::cancelled, "cancelled");
    }
  }
  /// Time goes on; what is due ends, what is done is answered. Blocks while nothing can be done.
  [[nodiscard]] bool turn(std::chrono::nanoseconds later) {
    now += later;
    while (request* const due = tracker_.due(now)) {
      scheduler_->end(*due, wire::status::expired, "too late");
    }
    if (scheduler_->turn(now)) {
      return true;
    }
    if (stream_pool_->polling()) {
      std::this_thread::yield();
      return true;
    }
    signal_.prepare();
    pollfd descriptor{signal_.descriptor(), POLLIN, 0};
    const bool nothing = completed_.empty() && !slots_->has_returned() && stream_pool_->in_flight() > 0;
    const bool woken = !nothing || ::poll(&descriptor, 1, 20000) == 1;
    signal_.awake();
    return woken;
  }
  /// Everything is answered and nothing is lost.
  void expect_rest() {
    EXPECT_EQ(counters.requests.in_flight, 0U);
    EXPECT_TRUE(counters.requests.balanced());
    EXPECT_TRUE(replies.awaited.empty());
    EXPECT_EQ(counters.requests.accepted, ids_);
    EXPECT_EQ(slots_->free(), slots_->size());
    EXPECT_EQ(payloads_.size(), 0U);
  }
  [[nodiscard]] bool at_rest() {
    return counters.requests.in_flight == 0 && payloads_.size() == 0 && scheduler_->idle() &&
           slots_->free() == slots_->size();
  }
  [[nodiscard]] std::uint64_t last_id() const noexcept { return ids_; }
  [[nodiscard]] std::uint64_t batches() { return tracker_.of_pipeline(0).batches + tracker_.of_pipeline(1).batches; }

  time_point now{std::chrono::hours{1}};
  account counters;
  client_table clients{8, 1024};
  session_table sessions{48, std::chrono::minutes{10}, 7};
  checked_results replies;

 private:
  static std::vector<plan> make_plans() {
    const tensor_spec input{element_type::u8, {longest}, true};
    const tensor_spec total{element_type::i32, {1}, false};
    std::vector<plan> made;
    for (const bool ordered : {true, false}) {
      const auto id = static_cast<std::uint32_t>(made.size());
      std::vector<made_up_stage> stages;
      for (const char* const branch : {"total", "again"}) {
        stages.push_back({branch,
                          {"input"},
                          std::make_unique<delayed_operation>(make_session_total(input), id + stages.size() + 1),
                          total,
                          session_traits{}});
      }
      stages.push_back({"next", {"input"}, std::make_unique<delayed_operation>(make_next(input), id + 10), {}, {}});
      made.push_back(made_up_plan(id, input, max_frames, std::move(stages), {"total", "again", "next"}, 8));
      made.back().declaration.ordered = ordered;
      // The totals go by their frames' own lengths, "next" may do what it likes with the gaps.
      made.back().mixes_lengths = true;
    }
    return made;
  }

  host_device device_{4};
  std::vector<plan> plans_ = make_plans();
  wake_event signal_;
  completion_queue completed_{signal_};
  std::optional<slot_ring> slots_;
  std::optional<state_pool> states_;
  std::optional<stream_pool> stream_pool_;
  request_tracker tracker_{2, replies, counters};
  parked_payloads payloads_;
  clock_pool clocks_{device_, plans_, 16};
  recorder timeline_{device_, clocks_, plans_, 16, timing_settings{}, [this] { return now; }};
  std::optional<scheduler> scheduler_;
  std::uint64_t ids_ = 0;
  std::map<std::uint32_t, std::uint32_t> totals_;  // by session number
};

}  // namespace penstock::testing
