// How a shard ends: by a drain, cut short or not, or because the device is lost.
#include <algorithm>
#include <chrono>

#include <spdlog/spdlog.h>

#include "daemon/shard/shard.hpp"

namespace penstock {
namespace {

using clock = std::chrono::steady_clock;

// A drain ends when nothing has come in for so long: what clients had sent before they could know gets its answer.
constexpr auto quiet_interval = std::chrono::milliseconds{100};
constexpr auto longest_wait_for_quiet = std::chrono::seconds{1};
// So long clients may take to answer the farewell.
constexpr auto parting_time = std::chrono::seconds{2};

}  // namespace

void shard::begin_drain() {
  state_ = state::draining;
  stay_quiet(clock::now());
  drain_until_ = clock::now() + how_.daemon.drain_timeout;
  spdlog::info("draining: {} requests in flight, at most {} ms", counters_.requests.in_flight,
               std::chrono::duration_cast<std::chrono::milliseconds>(how_.daemon.drain_timeout).count());
  reception_.close(wire::status::shutdown, "the daemon is stopping");
  dispatcher_.drain();
}

void shard::stay_quiet(time_point now) {
  quiet_at_ = now + quiet_interval;
}

void shard::check_end(time_point now) {
  if (dispatcher_.lost()) {
    end_with_loss(now);
  } else if (state_ == state::draining) {
    const bool idle = dispatcher_.idle() && egress_.idle();
    idle_since_ = idle ? std::min(idle_since_, now) : never;
    if (idle && now >= next_end()) {
      begin_parting(now);
    } else if (now >= drain_until_ && dispatcher_.idle()) {
      begin_parting(now);  // all is answered; only clients that do not read still have replies to take
    } else if (now >= drain_until_) {
      spdlog::warn("drain cut short: {} requests are answered SHUTDOWN", counters_.requests.in_flight);
      dispatcher_.end_all(wire::status::shutdown, {.reason = "the daemon stopped before the request was done",
                                                   .step = "executing",
                                                   .stage = "",
                                                   .device_error = ""});
      egress_.flush();
      ending_ = shard_ending::cut_short;
      begin_parting(now);
    }
  }
}

// When a drain that has nothing left to finish may end, whoever still sends; `never` while there is something, which
// wakes the shard itself.
time_point shard::next_end() const noexcept {
  return state_ == state::draining && idle_since_ != never ? std::min(quiet_at_, idle_since_ + longest_wait_for_quiet)
                                                           : never;
}

void shard::end_with_loss(time_point now) {
  const device_loss& loss = *dispatcher_.lost();
  const std::string at_stage = loss.stage.empty() ? "" : fmt::format(" at stage '{}'", loss.stage);
  const std::string of_pipeline = loss.pipeline.empty() ? "" : fmt::format(" of pipeline '{}'", loss.pipeline);
  spdlog::error("device lost: {}{}{}; {} requests are answered FAILED, then the daemon exits to be restarted",
                loss.error, at_stage, of_pipeline, counters_.requests.in_flight);
  reception_.close(wire::status::device_failed, "the device is lost: " + loss.error);
  dispatcher_.end_all(
      wire::status::device_failed,
      {.reason = "the device is lost", .step = "executing", .stage = loss.stage, .device_error = loss.error});
  egress_.flush();
  ending_ = shard_ending::device_lost;
  begin_parting(now);
}

// What failed may have left a request half accepted, so that a drain might never end. Such a request has no answer: its
// client sends it again to the daemon that comes.
void shard::end_without_memory(time_point now) {
  ending_ = shard_ending::out_of_memory;
  spdlog::error("out of memory: {} requests are answered FAILED, then the daemon exits to be restarted",
                counters_.requests.in_flight);
  reception_.close(wire::status::failed, "the daemon is out of memory");
  dispatcher_.end_all(wire::status::failed,
                      {.reason = "the daemon is out of memory", .step = "executing", .stage = "", .device_error = ""});
  egress_.flush();
  begin_parting(now);
}

// A reply that ZeroMQ still has, or the kernel, can be lost when the socket closes. Whoever has answered the farewell
// has read everything before it.
void shard::begin_parting(time_point now) {
  part_until_ = now + parting_time;
  state_ = reception_.say_goodbye() ? state::parting : state::ended;
}

bool shard::part(time_point now) {
  const bool progress = reception_.receive(now, clients_.size()) > 0;
  if (now >= part_until_ || reception_.alone()) {
    state_ = state::ended;
  }
  return egress_.flush() || progress;
}

}  // namespace penstock
