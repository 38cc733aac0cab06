// A request's timeout is one budget: EXPIRED comes on time while the device is busy for seconds.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::testing {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using wire::message_type;
using wire::status;

constexpr std::size_t samples = 1024;
constexpr std::size_t taps = 32768;
constexpr std::size_t requests = 250;
constexpr auto timeout = milliseconds{50};
constexpr auto limit = milliseconds{60};
// The daemon's budget starts when it turned to its sockets, which is a little before it took this very message.
constexpr auto earliest = milliseconds{40};
constexpr auto pause_between = milliseconds{2};
constexpr double wanted_seconds = 2;
constexpr std::uint64_t blocker = 1'000'000;

// A sanitizer makes the daemon slow in other places than the work: what is said of time does not hold with one.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

// Two sums of products, one behind the other, that cost some 1.1 thousand million products a row; one worker does them,
// so that the daemon and the test have a core.
std::string configuration(std::size_t rows) {
  std::string numbers = "1.0";
  for (std::size_t tap = 1; tap < taps; ++tap) {
    numbers += tap % 2 == 0 ? ",0.5" : ",-0.5";
  }
  std::string text =
      "config_version = 1\n[daemon]\ndrain_timeout = \"60s\"\n[device]\nstreams = 1\nslots = 4\nhost_threads = 1\n"
      "[clients]\ncredit_requests = 1024\ncredit_bytes = \"1 GiB\"\n"
      "[[pipeline]]\nname = \"slow\"\ninput = { dtype = \"f32\", shape = [" +
      std::to_string(rows) + ", " + std::to_string(samples) + "] }\nbatch = { max_frames = 1 }\n";
  for (const char* const stage : {"first", "second"}) {
    text += std::string("[[pipeline.stage]]\nname = \"") + stage +
            "\"\nop = \"correlate\"\nmethod = \"direct\"\ntemplate = [" + numbers + "]\n";
  }
  return text + "[[pipeline.stage]]\nname = \"sum\"\nop = \"moments\"\n";
}

// A frame of `rows` rows as a SUBMIT.
class frame_message {
 public:
  explicit frame_message(std::size_t rows) : payload_(rows * samples * sizeof(float), '\0') {
    for (std::size_t at = 0; at < payload_.size(); at += sizeof(float)) {
      const float value = static_cast<float>(at % 1009) / 1009.0F;
      std::memcpy(payload_.data() + at, &value, sizeof value);
    }
    header_.type = message_type::submit;
    header_.frames = 1;
    header_.tensors = 1;
    tensor_.type = wire::float32_type;
    tensor_.dimensions = 3;
    tensor_.shape = {1, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(samples)};
    tensor_.bytes = payload_.size();
  }

  [[nodiscard]] std::vector<std::string> parts(std::uint64_t id, milliseconds budget) {
    header_.request_id = id;
    header_.timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds{budget}.count());
    return {bytes_of(header_) + bytes_of(tensor_), payload_};
  }

 private:
  wire::message_header header_;
  wire::tensor_header tensor_;
  std::string payload_;
};

daemon_options options_for(std::size_t rows) {
  return {.backend = "host", .completion = "callback", .configuration = configuration(rows)};
}

// Rows for which this machine, as busy as it is now, takes about as long as wanted.
std::size_t calibrated_rows() {
  daemon_process daemon(options_for(1));
  raw_peer peer(daemon.endpoint());
  peer.hello();
  frame_message one(1);
  double least = 1e9;
  for (std::uint64_t id = 1; id <= 2; ++id) {
    const auto begin = clock::now();
    peer.send(one.parts(id, milliseconds{0}));
    const std::optional<raw_message> got = peer.receive(std::chrono::seconds{60});
    if (!got || got->header.type != message_type::result) {
      throw std::runtime_error("no result of one row: " + (got ? got->json().dump() : "nothing came"));
    }
    least = std::min(least, std::chrono::duration<double>(clock::now() - begin).count());
  }
  return static_cast<std::size_t>(std::max(1.0, std::ceil(wanted_seconds / least)));
}

struct expiry {
  double after_ms = 0;
  std::string step;
};

// One run: the device gets work for seconds, then requests with deadlines follow every other millisecond.
struct deadline_run {
  std::map<std::uint64_t, expiry> expired;
  std::map<std::uint64_t, status> otherwise;  ///< terminal replies that were not EXPIRED
  std::size_t before_the_blocker = 0;         ///< EXPIRED that came while the device was at its first work
  double blocker_seconds = 0;
  nlohmann::json counters;
  int exit_code = -1;

  [[nodiscard]] std::size_t on_time() const {
    std::size_t count = 0;
    for (const auto& [id, each] : expired) {
      count += each.after_ms <= static_cast<double>(limit.count()) ? 1U : 0U;
    }
    return count;
  }
  [[nodiscard]] double slowest_ms() const {
    double slowest = 0;
    for (const auto& [id, each] : expired) {
      slowest = std::max(slowest, each.after_ms);
    }
    return slowest;
  }
};

class deadline_measurement {
 public:
  explicit deadline_measurement(std::size_t rows)
      : daemon_(options_for(rows)), peer_(daemon_.endpoint()), frame_(rows), sent_at_(requests + 1) {
    peer_.hello();
  }

  deadline_run run() {
    peer_.send(frame_.parts(blocker, milliseconds{0}));
    blocked_at_ = clock::now();
    for (std::uint64_t id = 1; id <= requests; ++id) {
      auto parts = frame_.parts(id, timeout);
      sent_at_[id] = clock::now();
      peer_.send(parts);
      while (take_reply(until(sent_at_[id] + pause_between))) {
      }
    }
    while (run_.expired.size() + run_.otherwise.size() < requests || run_.blocker_seconds == 0) {
      if (!take_reply(std::chrono::seconds{60})) {
        break;
      }
    }
    run_.counters = peer_.status();
    run_.exit_code = daemon_.stop();
    return run_;
  }

 private:
  static milliseconds until(clock::time_point when) {
    return std::max(milliseconds{0}, std::chrono::ceil<milliseconds>(when - clock::now()));
  }

  bool take_reply(milliseconds patience) {
    const std::optional<raw_message> message = peer_.receive(patience);
    if (!message) {
      return false;
    }
    const auto now = clock::now();
    const std::uint64_t id = message->header.request_id;
    if (id == blocker) {
      EXPECT_EQ(message->header.type, message_type::result);
      run_.blocker_seconds = std::chrono::duration<double>(now - blocked_at_).count();
    } else if (message->header.code == status::expired) {
      const double after = std::chrono::duration<double, std::milli>(now - sent_at_.at(id)).count();
      EXPECT_TRUE(run_.expired.emplace(id, expiry{after, message->json().at("step").get<std::string>()}).second)
          << "request " << id << " was answered twice";
      run_.before_the_blocker += run_.blocker_seconds == 0 ? 1U : 0U;
    } else {
      run_.otherwise.emplace(id, message->header.code);
    }
    return true;
  }

  daemon_process daemon_;
  raw_peer peer_;
  frame_message frame_;
  std::vector<clock::time_point> sent_at_;
  clock::time_point blocked_at_;
  deadline_run run_;
};

// Timeliness is a measurement, and other programs take this machine's cores when they like: it may be taken three
// times. What is not about time holds in each.
TEST(Deadline, ExpiredComesOnTimeWhileTheDeviceIsBusyForSeconds) {
  std::size_t rows = calibrated_rows();
  std::string measured;
  bool timely = false;
  for (int attempt = 0; attempt < 3 && !timely; ++attempt) {
    const deadline_run run = deadline_measurement(rows).run();
    ASSERT_EQ(run.expired.size(), requests) << run.otherwise.size() << " were answered otherwise";
    if (run.blocker_seconds < 1 && attempt < 2) {  // the machine was busier while it was calibrated
      rows = static_cast<std::size_t>(std::ceil(static_cast<double>(rows) * wanted_seconds / run.blocker_seconds));
      continue;
    }
    EXPECT_GE(run.blocker_seconds, 1) << "the device was not busy for long enough to show anything";
    EXPECT_TRUE(sanitized || run.before_the_blocker == requests)
        << "the device was not busy all the while: " << run.before_the_blocker << " of " << requests << " came before";
    std::set<std::string> steps;
    for (const auto& [id, each] : run.expired) {
      EXPECT_GE(each.after_ms, static_cast<double>(earliest.count())) << "request " << id << " expired too early";
      steps.insert(each.step);
    }
    EXPECT_THAT(steps, ::testing::IsSubsetOf({"queued", "batched", "executing"}));
    EXPECT_THAT(steps, ::testing::IsSupersetOf({"queued", "executing"}));
    EXPECT_TRUE(run.counters.at("balanced")) << run.counters.dump(1);
    EXPECT_EQ(run.counters.at("requests").at("errors").at("EXPIRED"), requests) << run.counters.dump(1);
    EXPECT_EQ(run.counters.at("requests").at("results"), 1);
    EXPECT_EQ(run.counters.at("requests").at("in_flight"), 0);
    EXPECT_EQ(run.exit_code, 0) << "it did not drain";
    timely = sanitized || 100 * run.on_time() >= 99 * requests;
    measured += std::to_string(run.on_time()) + " of " + std::to_string(requests) +
                " within 60 ms, the slowest after " + std::to_string(run.slowest_ms()) + " ms; ";
    RecordProperty("measured", measured);
  }
  EXPECT_TRUE(timely) << measured;
}

}  // namespace
}  // namespace penstock::testing
