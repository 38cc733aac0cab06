#pragma once

#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/shard/shard.hpp"
#include "tests/support/hand_made_plan.hpp"
#include "tests/support/manual_device.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::testing {

/// What a test may change about a shard.
struct shard_wish {
  completion_mode mode = completion_mode::callback;
  std::vector<plan_wish> plans{{}};
  int streams = 1;
  int slots = 2;
  std::uint32_t credit_requests = 8;
  std::size_t credit_bytes = std::size_t{1} << 20U;
  std::uint32_t max_clients = 4;
  std::size_t max_request_bytes = std::size_t{1} << 16U;
  std::chrono::nanoseconds hang_timeout = std::chrono::seconds{60};
  std::chrono::nanoseconds drain_timeout = std::chrono::seconds{60};
  std::uint32_t max_sessions = 8;
  std::size_t reply_cache_bytes = std::size_t{1} << 20U;
  bool held = false;  ///< whether the device waits for the test
};

/// A shard on a thread of its own, over a manual device, and what it takes to talk to it.
class shard_rig {
 public:
  explicit shard_rig(const shard_wish& wish = {}) : plans_(hand_made_plans(wish.plans)) {
    settings how;
    how.daemon.listen = {"tcp://127.0.0.1:*"};
    how.daemon.drain_timeout = wish.drain_timeout;
    how.stream_pool.completion = wish.mode;
    how.stream_pool.streams = wish.streams;
    how.stream_pool.slots = wish.slots;
    how.stream_pool.hang_timeout = wish.hang_timeout;
    how.clients.credit_requests = wish.credit_requests;
    how.clients.credit_bytes = wish.credit_bytes;
    how.clients.max_clients = wish.max_clients;
    how.clients.max_request_bytes = wish.max_request_bytes;
    how.clients.reply_cache_bytes = wish.reply_cache_bytes;
    how.sessions.max_sessions = wish.max_sessions;
    how.pipelines.resize(plans_.size());
    if (!wish.held) {
      device.let_run();
    }
    std::promise<shard*> made;
    thread_ = std::thread([this, how, &made] {
      shard running(how, device, plans_, memory_);
      made.set_value(&running);
      ending_ = running.run();
      over_ = true;
      let_go_.get_future().wait();
      // Streams wait for their work when they are destroyed: the test may not have finished it.
      device.let_run();
    });
    shard_ = made.get_future().get();
    endpoint_ = shard_->endpoints().front();
  }
  ~shard_rig() {
    if (thread_.joinable()) {
      device.let_run();
      stop();
      stop();
      (void)join();
    }
  }
  shard_rig(const shard_rig&) = delete;
  shard_rig& operator=(const shard_rig&) = delete;

  /// As often as a test likes, until it joins.
  void stop() { shard_->stop(); }
  /// Blocks until the shard's run has ended, while its guests listen to it, then lets go of it.
  [[nodiscard]] shard_ending join() {
    while (!over_) {
      for (raw_peer* const each : guests_) {
        each->take_in();
      }
      std::this_thread::yield();
    }
    let_go_.set_value();
    thread_.join();
    return ending_;
  }
  [[nodiscard]] const std::string& endpoint() const noexcept { return endpoint_; }
  /// Sources must be gone before this is.
  [[nodiscard]] void* inner_context() noexcept { return shard_->inner_context(); }
  void greet(raw_peer& guest) { guests_.push_back(&guest); }
  void see_off(raw_peer& guest) { guests_.erase(std::find(guests_.begin(), guests_.end(), &guest)); }

  manual_device device;

 private:
  std::vector<plan> plans_;
  memory_budget memory_{std::size_t{1} << 32U};
  shard* shard_ = nullptr;
  std::vector<raw_peer*> guests_;
  std::atomic<bool> over_{false};
  std::promise<void> let_go_;
  std::string endpoint_;
  shard_ending ending_ = shard_ending::drained;
  std::thread thread_;
};

/// What a client sends for frames of u8[16], right unless a test changes it.
struct submit_draft {
  wire::message_header header;
  wire::tensor_header tensor;
  std::string payload;

  explicit submit_draft(std::uint64_t id, std::uint32_t frames = 1, std::uint32_t pipeline = 0) {
    header.type = wire::message_type::submit;
    header.request_id = id;
    header.pipeline = pipeline;
    header.frames = frames;
    header.tensors = 1;
    tensor.type = wire::uint8_type;
    tensor.dimensions = 2;
    tensor.shape = {frames, 16};
    tensor.bytes = std::uint64_t{16} * frames;
    payload = payload_of(tensor.bytes, id);
  }
  /// The next frames of a session that has had so many.
  submit_draft& of(std::uint32_t session, std::uint64_t sequence) {
    header.session = session;
    header.sequence = sequence;
    return *this;
  }
  [[nodiscard]] std::vector<std::string> parts() const { return {bytes_of(header) + bytes_of(tensor), payload}; }
  [[nodiscard]] std::vector<std::string> in_one_part() const { return {bytes_of(header) + bytes_of(tensor) + payload}; }
};

/// A client that has said HELLO.
class guest : public raw_peer {
 public:
  explicit guest(shard_rig& of) : raw_peer(of.endpoint()), host_(of) {
    welcome = hello();
    host_.greet(*this);
  }
  ~guest() { host_.see_off(*this); }
  guest(const guest&) = delete;
  guest& operator=(const guest&) = delete;

  std::string submit(std::uint64_t id, std::uint32_t frames = 1, std::uint32_t pipeline = 0) {
    const submit_draft draft(id, frames, pipeline);
    send(draft.parts());
    return draft.payload;
  }
  /// OPEN; what comes back.
  raw_message open(const std::string& name, std::uint32_t pipeline = 0) {
    send_control(wire::message_type::open_session, 5000, wire::encode(wire::open_session{pipeline, name}));
    return next();
  }
  /// Frames of a session; their payload.
  std::string submit_to(std::uint32_t session, std::uint64_t sequence, std::uint64_t id, std::uint32_t frames = 1,
                        std::uint32_t pipeline = 0) {
    submit_draft draft(id, frames, pipeline);
    send(draft.of(session, sequence).parts());
    return draft.payload;
  }
  void close(std::uint32_t session) {
    wire::message_header header;
    header.type = wire::message_type::close_session;
    header.session = session;
    send({bytes_of(header)});
  }
  /// The next message; throws when none comes.
  raw_message next() { return receive().value(); }
  /// Whether nothing was on its way to it.
  bool has_nothing() {
    send_control(wire::message_type::ping, 987654);
    const raw_message got = next();
    return got.header.type == wire::message_type::pong && got.header.request_id == 987654;
  }

  wire::welcome welcome;

 private:
  shard_rig& host_;
};

/// An ERROR to this request, with a reason.
inline void expect_error(const raw_message& got, wire::status code, std::uint64_t id) {
  EXPECT_EQ(got.header.type, wire::message_type::error);
  EXPECT_EQ(wire::name_of(got.header.code), wire::name_of(code));
  EXPECT_EQ(got.header.request_id, id);
  EXPECT_FALSE(got.json().at("reason").get<std::string>().empty());
}

}  // namespace penstock::testing
