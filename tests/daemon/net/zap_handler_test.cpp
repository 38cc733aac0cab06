#include "daemon/net/zap_handler.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/net/router_socket.hpp"
#include "tests/daemon/net/key_folder.hpp"

namespace penstock {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::key_folder;
using testing::key_pair;

/// A socket with keys, of which one client's is listed.
class ZapHandler : public ::testing::Test {
 protected:
  [[nodiscard]] zmq::socket_t connect_with(const key_pair& client, const std::string& server_key) {
    zmq::socket_t made(outside_, zmq::socket_type::dealer);
    made.set(zmq::sockopt::linger, 0);
    made.set(zmq::sockopt::reconnect_ivl, -1);  // it comes once
    made.set(zmq::sockopt::curve_serverkey, server_key);
    made.set(zmq::sockopt::curve_publickey, client.public_key());
    made.set(zmq::sockopt::curve_secretkey, client.secret_key());
    made.connect(router_.endpoints().front());
    // Not waited for: one that is refused already has nobody to send it to, and never will.
    (void)made.send(zmq::str_buffer("hello"), zmq::send_flags::dontwait);
    return made;
  }
  /// Whether a message comes out of the router before `enough` is true.
  template <typename Condition>
  [[nodiscard]] bool comes_through(Condition enough) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    zmq::message_t part;
    while (std::chrono::steady_clock::now() < deadline && !enough()) {
      if (router_.get().recv(part, zmq::recv_flags::dontwait)) {
        while (part.more()) {
          (void)router_.get().recv(part);
        }
        return true;
      }
      std::this_thread::yield();
    }
    return false;
  }
  [[nodiscard]] std::uint64_t refused(handshake_refusal why) const {
    return router_.handshakes().refused[static_cast<std::size_t>(why)];
  }
  /// Asks the zap handler as libzmq does. The answer's status.
  [[nodiscard]] std::string ask(zmq::context_t& context, const std::vector<std::string>& question) {
    zmq::socket_t asks(context, zmq::socket_type::req);
    asks.set(zmq::sockopt::linger, 0);
    asks.set(zmq::sockopt::rcvtimeo, 20000);
    asks.connect("inproc://zeromq.zap.01");
    for (std::size_t part = 0; part < question.size(); ++part) {
      const auto more = part + 1 < question.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
      (void)asks.send(zmq::buffer(question[part]), more);
    }
    std::vector<std::string> answer;
    zmq::message_t part;
    do {
      if (!asks.recv(part)) {
        return "no answer";
      }
      answer.push_back(part.to_string());
    } while (part.more());
    return answer.size() == 6 ? answer[2] : "not six parts";
  }

  key_folder folder_;
  key_pair server_;
  key_pair listed_;
  keyring keys_{folder_.write("server.key", server_.secret_key()), folder_.write("list", listed_.public_key() + " me")};
  router_socket router_{{.listen = {"tcp://127.0.0.1:*"}, .max_part_bytes = 1U << 20U, .keys = &keys_}};
  zmq::context_t outside_;
};

TEST_F(ZapHandler, LetsAListedKeyIn) {
  const zmq::socket_t client = connect_with(listed_, server_.public_key());
  EXPECT_TRUE(comes_through([] { return false; }));
  EXPECT_EQ(router_.handshakes().refused, (std::array<std::uint64_t, handshake_refusals>{}));
}

TEST_F(ZapHandler, RefusesAnUnlistedKeyAndCountsItOnce) {
  const zmq::socket_t client = connect_with(key_pair(), server_.public_key());
  EXPECT_FALSE(comes_through([&] { return refused(handshake_refusal::unlisted_key) > 0; }));
  EXPECT_EQ(refused(handshake_refusal::unlisted_key), 1U);
}

TEST_F(ZapHandler, LetsAKeyInThatIsListedLater) {
  const key_pair later;
  const zmq::socket_t early = connect_with(later, server_.public_key());
  EXPECT_FALSE(comes_through([&] { return refused(handshake_refusal::unlisted_key) == 1; }));
  keys_.authorize(authorized_keys::parse(later.public_key(), "list"));
  const zmq::socket_t again = connect_with(later, server_.public_key());
  EXPECT_TRUE(comes_through([] { return false; }));
  const zmq::socket_t former = connect_with(listed_, server_.public_key());
  EXPECT_FALSE(comes_through([&] { return refused(handshake_refusal::unlisted_key) == 2; }));
}

TEST_F(ZapHandler, CountsWhoTakesAnotherKeyForTheDaemons) {
  const zmq::socket_t client = connect_with(listed_, key_pair().public_key());
  EXPECT_FALSE(comes_through([&] { return refused(handshake_refusal::wrong_server_key) > 0; }));
  EXPECT_GT(refused(handshake_refusal::wrong_server_key), 0U);
}

TEST_F(ZapHandler, RefusesQuestionsThatAreNone) {
  zmq::context_t context;
  zmq::socket_t door(context, zmq::socket_type::router);
  zap_handler keeps(context, door, &keys_);
  const std::string key(reinterpret_cast<const char*>(parse_curve_key(listed_.public_key())->data()), 32);
  const std::vector<std::string> good{"1.0", "1", "penstock", "127.0.0.1", "", "CURVE", key};
  EXPECT_EQ(ask(context, good), "200");
  for (std::size_t part = 0; part < good.size(); ++part) {
    if (part == 1 || part == 3 || part == 4) {
      continue;  // may be anything
    }
    std::vector<std::string> bad = good;
    bad[part] = part == 6 ? key.substr(1) : "other";
    EXPECT_EQ(ask(context, bad), "400") << part;
  }
  EXPECT_EQ(ask(context, {""}), "400");
  EXPECT_EQ(ask(context, {"1.0", "1", "penstock", "127.0.0.1", "", "NULL"}), "400");
  EXPECT_EQ(ask(context, {"1.0", "1", "penstock", "127.0.0.1", "", "CURVE", key, "more"}), "400");
  keeps.stop();
}

TEST(OpenDoor, LetsAnybodyInAndCountsIt) {
  router_socket router{{.listen = {"tcp://127.0.0.1:*"}, .max_part_bytes = 1024}};
  zmq::context_t outside;
  zmq::socket_t client(outside, zmq::socket_type::dealer);
  client.set(zmq::sockopt::linger, 0);
  client.connect(router.endpoints().front());
  (void)client.send(zmq::str_buffer("hello"));
  zmq::message_t part;
  EXPECT_TRUE(router.get().recv(part));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (router.handshakes().succeeded == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(router.handshakes().succeeded, 1U);
}

// For LeakSanitizer: an address of more than 33 characters is one that libzmq puts on the heap.
TEST(OpenDoor, FreesTheNewsOfConnectionsThatEndWithIt) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("penstock-zap-handler-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "data").string();
  sockaddr_un there{};
  there.sun_family = AF_UNIX;
  path.copy(there.sun_path, sizeof there.sun_path - 1);
  for (int round = 0; round < 50; ++round) {
    const router_socket router({.listen = {"ipc://" + path}, .max_part_bytes = 1024});
    const int pending_peer = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(pending_peer, reinterpret_cast<const sockaddr*>(&there), sizeof there), 0);
    char first = 0;
    EXPECT_EQ(::recv(pending_peer, &first, 1, 0), 1);  // its greeting
    ::close(pending_peer);
  }
  std::filesystem::remove_all(folder);
}

/// What is logged while it lives.
class RefusalLog : public ::testing::Test {
 protected:
  RefusalLog() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out_);
    auto log = std::make_shared<spdlog::logger>("test", std::move(sink));
    log->set_pattern("%v");
    spdlog::set_default_logger(std::move(log));
  }
  ~RefusalLog() override { spdlog::set_default_logger(before_); }

  [[nodiscard]] std::string taken() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }

  refusal_log log_;
  const refusal_log::time_point start_ = refusal_log::time_point{} + std::chrono::hours(1);

 private:
  std::ostringstream out_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST_F(RefusalLog, SaysTheFirstAtOnceAndTheOthersTogether) {
  log_.note(handshake_refusal::unlisted_key, "192.0.2.7", start_);
  EXPECT_THAT(taken(), HasSubstr("refused a connection from 192.0.2.7: the key is not in"));
  for (int each = 0; each < 1000; ++each) {
    log_.note(handshake_refusal::unlisted_key, "192.0.2.8", start_ + seconds(1));
  }
  log_.flush(start_ + seconds(2));
  EXPECT_EQ(taken(), "");
  EXPECT_EQ(log_.next(), start_ + refusal_log::interval);
  log_.flush(start_ + refusal_log::interval);
  EXPECT_THAT(taken(), HasSubstr("refused 1000 connections, the last from 192.0.2.8"));
  EXPECT_EQ(log_.next(), refusal_log::time_point::max());
}

TEST_F(RefusalLog, KeepsKindsApart) {
  log_.note(handshake_refusal::unlisted_key, "", start_);
  log_.note(handshake_refusal::wrong_mechanism, "", start_);
  EXPECT_THAT(taken(), ::testing::AllOf(HasSubstr("the key is not in"), HasSubstr("plain text")));
}

}  // namespace
}  // namespace penstock
