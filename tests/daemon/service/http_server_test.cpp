#include "daemon/service/http_server.hpp"

#include <filesystem>
#include <functional>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::testing {
namespace http = boost::beast::http;
using http_answer = http::response<http::string_body>;

/// A client that sends what it is told, byte by byte, and waits for at most ten seconds.
class http_peer {
 public:
  explicit http_peer(std::uint16_t port) : socket_(io_) {
    socket_.connect({boost::asio::ip::address_v4::loopback(), port});
    const timeval patience{10, 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }

  void send(const std::string& bytes) {
    boost::system::error_code gone;  // the server may refuse before it has read all
    boost::asio::write(socket_, boost::asio::buffer(bytes), gone);
  }
  /// nullopt when the server closed the connection instead.
  std::optional<http_answer> receive(bool to_head = false) {
    http::response_parser<http::string_body> parser;
    parser.skip(to_head);
    boost::system::error_code closed;
    http::read(socket_, buffer_, parser, closed);
    return closed ? std::nullopt : std::optional(parser.release());
  }
  std::optional<http_answer> ask(const std::string& request) {
    send(request);
    return receive(request.starts_with("HEAD"));
  }
  /// Waits until the server closes the connection; false when it sends something.
  bool is_closed() {
    char one = 0;
    boost::system::error_code error;
    const std::size_t got = socket_.read_some(boost::asio::buffer(&one, 1), error);
    return got == 0 && (error == boost::asio::error::eof || error == boost::asio::error::connection_reset);
  }

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
};

/// A server on a free port, whose io_context runs on a thread of its own.
class http_rig {
 public:
  explicit http_rig(http_handler handler, http_limits limits = {}, admin_settings how = {.listen = {"127.0.0.1:0"}})
      : server_(io_, how, std::move(handler), limits) {
    server_.start();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~http_rig() {
    io_.stop();
    thread_.join();
  }
  http_rig(const http_rig&) = delete;
  http_rig& operator=(const http_rig&) = delete;

  [[nodiscard]] std::uint16_t port() const {
    const std::string name = server_.addresses().at(0);
    return static_cast<std::uint16_t>(std::stoi(name.substr(name.rfind(':') + 1)));
  }
  /// On the server's thread.
  void post(std::function<void()> what) { boost::asio::post(io_, std::move(what)); }
  [[nodiscard]] http_server& server() noexcept { return server_; }

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ = boost::asio::make_work_guard(io_);
  http_server server_;
  std::thread thread_;
};

namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const std::string plain_get = "GET /path?last=5s&x HTTP/1.1\r\nHost: localhost\r\n\r\n";

// Says what it was asked.
void echo(const http_request& asked, const std::function<void(http_reply)>& done) {
  std::string text = asked.method + " " + asked.path;
  for (const auto& [key, value] : asked.query) {
    text.append(" ").append(key).append("=").append(value);
  }
  done({.body = text});
}

unsigned status_of(const std::optional<http_answer>& answer) {
  return answer ? answer->result_int() : 0;
}

TEST(HttpServer, AnswersWhatTheHandlerSays) {
  http_rig rig(echo);
  http_peer peer(rig.port());
  const auto answer = peer.ask(plain_get);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->result_int(), 200U);
  EXPECT_EQ(answer->body(), "GET /path last=5s x=");
  EXPECT_EQ((*answer)["Content-Type"], "text/plain; charset=utf-8");
  EXPECT_EQ((*answer)["X-Content-Type-Options"], "nosniff");
  EXPECT_EQ(answer->count("Access-Control-Allow-Origin"), 0U);
}

TEST(HttpServer, KeepsTheConnectionForTheNextRequest) {
  http_rig rig(echo);
  http_peer peer(rig.port());
  for (int each = 0; each < 3; ++each) {
    EXPECT_EQ(status_of(peer.ask(plain_get)), 200U);
  }
  peer.send(plain_get + plain_get);
  EXPECT_EQ(status_of(peer.receive()), 200U);
  EXPECT_EQ(status_of(peer.receive()), 200U);
}

TEST(HttpServer, ClosesTheConnectionWhenItIsAskedTo) {
  http_rig rig(echo);
  for (const std::string last :
       {"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"}) {
    http_peer peer(rig.port());
    EXPECT_EQ(status_of(peer.ask(last)), 200U);
    EXPECT_TRUE(peer.is_closed());
  }
}

TEST(HttpServer, SendsNoBodyForHeadAndSaysHowLongItWouldBe) {
  http_rig rig(echo);
  http_peer peer(rig.port());
  const auto answer = peer.ask("HEAD /path HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(answer);
  EXPECT_EQ((*answer)["Content-Length"], "9");
  EXPECT_TRUE(answer->body().empty());
  EXPECT_EQ(status_of(peer.ask(plain_get)), 200U) << "the connection goes on";
}

TEST(HttpServer, RefusesWhatIsNoRequest) {
  struct refused {
    std::string request;
    unsigned status;
  };
  const std::string host = "Host: localhost\r\n";
  http_rig rig(echo);
  for (const auto& [request, status] : std::vector<refused>{
           {"nonsense\r\n\r\n", 400},
           {"GET  HTTP/1.1\r\n\r\n", 400},
           {std::string("\0\x16\x03\x01\r\n\r\n", 8), 400},
           {"GET / HTTP/1.1\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\n" + host + host + "\r\n", 400},
           {"GET http://localhost/ HTTP/1.1\r\n" + host + "\r\n", 400},
           {"POST / HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", 403},
           {"DELETE / HTTP/1.1\r\n" + host + "\r\n", 403},
           {"POST / HTTP/1.1\r\n" + host + "X-Penstock: 1\r\nContent-Length: 5000\r\n\r\n" + std::string(5000, 'x'),
            413},
           {"GET / HTTP/1.1\r\n" + host + "X: " + std::string(20'000, 'x') + "\r\n\r\n", 431},
           {"GET /" + std::string(20'000, 'x') + " HTTP/1.1\r\n" + host + "\r\n", 431}}) {
    http_peer peer(rig.port());
    EXPECT_EQ(status_of(peer.ask(request)), status) << request.substr(0, 60);
  }
}

TEST(HttpServer, TakesWhatChangesSomethingOnlyWithItsHeader) {
  http_rig rig(echo);
  http_peer peer(rig.port());
  const auto answer = peer.ask("POST /x HTTP/1.1\r\nHost: localhost\r\nX-Penstock: 1\r\nContent-Length: 2\r\n\r\n{}");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body(), "POST /x");
}

TEST(HttpServer, RefusesAHostThatIsANameThatItDoesNotKnow) {
  http_rig rig(echo, {}, {.listen = {"127.0.0.1:0"}, .names = {"penstock.lan"}});
  const auto status_for = [&](const std::string& host) {
    http_peer peer(rig.port());
    return status_of(peer.ask("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"));
  };
  for (const char* good : {"localhost", "LOCALHOST:7680", "127.0.0.1", "127.0.0.1:80", "192.0.2.1:80", "[::1]:80",
                           "[::1]", "penstock.lan", "Penstock.LAN:7680"}) {
    EXPECT_EQ(status_for(good), 200U) << good;
  }
  for (const char* wrong : {"evil.example",
                            "localhost.evil.example:80",
                            "127.0.0.1.evil.example",
                            "penstock",
                            "[::1",
                            "[evil]",
                            ":80",
                            "[::1]evil.example",
                            "[::1].evil.example:80",
                            "[::1]:80.evil.example",
                            "[::1]:",
                            "[::1]:65536",
                            "[::1]:-1",
                            "[::1]80",
                            "[]",
                            "[127.0.0.1]",
                            "[::1%evil.example]",
                            "::1",
                            "::1]:80",
                            "localhost:",
                            "localhost:80:80",
                            "localhost:80evil",
                            "localhost:+80",
                            "evil@localhost",
                            "localhost@evil.example",
                            "localhost/evil",
                            "localhost,evil",
                            "127.0.0.1:80@evil.example",
                            "127.1",
                            "0x7f.0.0.1",
                            "local host",
                            "localhost#",
                            "localhost."}) {
    EXPECT_EQ(status_for(wrong), 421U) << wrong;
  }
}

TEST(HttpServer, ClosesWhoDoesNotFinishItsRequest) {
  http_rig rig(echo, {.read_timeout = 50ms});
  http_peer silent(rig.port());
  http_peer slow(rig.port());
  slow.send("GET / HTTP/1.1\r\nHo");
  EXPECT_TRUE(slow.is_closed());
  EXPECT_TRUE(silent.is_closed());
}

TEST(HttpServer, GivesTheLongestWaitersPlaceToANewConnection) {
  http_rig rig(echo, {.connections = 4});
  std::list<http_peer> silent;
  for (int each = 0; each < 4; ++each) {
    silent.emplace_back(rig.port()).send("GET / HTTP/1.1\r\n");
  }
  for (int each = 0; each < 4; ++each) {
    http_peer peer(rig.port());
    EXPECT_EQ(status_of(peer.ask(plain_get)), 200U);
  }
  EXPECT_TRUE(silent.front().is_closed());
}

// Holds the answers until they are let go.
class held_answers {
 public:
  [[nodiscard]] http_handler handler() {
    return [this](const http_request&, std::function<void(http_reply)> done) {
      held_.push_back(std::move(done));
      asked_.set_value();
      asked_ = std::promise<void>();
    };
  }
  // To be taken before the request is sent.
  [[nodiscard]] std::future<void> next() { return asked_.get_future(); }
  void let_go() {
    for (const auto& done : std::exchange(held_, {})) {
      done({.body = "late"});
    }
  }

 private:
  std::vector<std::function<void(http_reply)>> held_;
  std::promise<void> asked_;
};

TEST(HttpServer, TakesNobodyMoreWhileAllAreBeingAnswered) {
  held_answers answers;
  http_rig rig(answers.handler(), {.connections = 1});
  auto asked = answers.next();
  http_peer first(rig.port());
  first.send(plain_get);
  ASSERT_EQ(asked.wait_for(10s), std::future_status::ready);
  http_peer second(rig.port());
  EXPECT_TRUE(second.is_closed());
  rig.post([&] { answers.let_go(); });
  EXPECT_EQ(status_of(first.receive()), 200U);
}

TEST(HttpServer, SendsTheAnswersThatAreBeingMadeBeforeItStops) {
  held_answers answers;
  http_rig rig(answers.handler(), {.stop_timeout = 20s});
  auto asked = answers.next();
  http_peer busy(rig.port());
  http_peer idle(rig.port());
  busy.send(plain_get);
  ASSERT_EQ(asked.wait_for(10s), std::future_status::ready);
  std::promise<void> stopped;
  rig.post([&] { rig.server().stop([&] { stopped.set_value(); }); });
  EXPECT_TRUE(idle.is_closed());
  EXPECT_THROW(http_peer(rig.port()), boost::system::system_error);
  rig.post([&] { answers.let_go(); });
  EXPECT_EQ(busy.receive().value().body(), "late");
  EXPECT_TRUE(busy.is_closed());
  EXPECT_EQ(stopped.get_future().wait_for(10s), std::future_status::ready);
}

TEST(HttpServer, DoesNotWaitForEverWhenItStops) {
  held_answers answers;
  http_rig rig(answers.handler(), {.stop_timeout = 10ms});
  auto asked = answers.next();
  http_peer busy(rig.port());
  busy.send(plain_get);
  ASSERT_EQ(asked.wait_for(10s), std::future_status::ready);
  std::promise<void> stopped;
  rig.post([&] { rig.server().stop([&] { stopped.set_value(); }); });
  EXPECT_EQ(stopped.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_TRUE(busy.is_closed());
  std::promise<void> late;
  rig.post([&] {
    answers.let_go();
    late.set_value();
  });
  EXPECT_EQ(late.get_future().wait_for(10s), std::future_status::ready) << "an answer that comes too late is nothing";
}

TEST(HttpServer, HasNoAddressWhereNoneIsGiven) {
  boost::asio::io_context io;
  http_server server(io, {.listen = {}}, echo);
  server.start();
  EXPECT_TRUE(server.addresses().empty());
}

}  // namespace

}  // namespace penstock::testing

namespace penstock {
namespace {

using testing::HasSubstr;
using ::testing::MatchesRegex;
namespace fs = std::filesystem;

class HttpListener : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string complaint_about(const admin_address& where) {
    try {
      http_listener made(io_, where);
      made.listen();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no complaint";
  }

  fs::path folder_ = fs::temp_directory_path() / ("penstock-listener-" + std::to_string(::getpid()));
  std::string path_ = folder_ / "admin";
  boost::asio::io_context io_;
};

TEST_F(HttpListener, NamesThePortThatItGot) {
  http_listener four(io_, {.host = "127.0.0.1"});
  EXPECT_THAT(four.name(), MatchesRegex("http://127\\.0\\.0\\.1:[1-9][0-9]*"));
  http_listener six(io_, {.host = "::1"});
  EXPECT_THAT(six.name(), MatchesRegex("http://\\[::1\\]:[1-9][0-9]*"));
}

TEST_F(HttpListener, SaysWhichAddressIsInUse) {
  http_listener first(io_, {.host = "127.0.0.1"});
  first.listen();
  const std::string name = first.name();
  const auto port = static_cast<std::uint16_t>(std::stoi(name.substr(name.rfind(':') + 1)));
  EXPECT_THAT(complaint_about({.host = "127.0.0.1", .port = port}), HasSubstr(name + ": Address already in use"));
}

TEST_F(HttpListener, LetsTheGroupConnectToAUnixSocketAndNobodyElse) {
  http_listener made(io_, {.path = path_});
  made.listen();
  EXPECT_EQ(made.name(), "unix:" + path_);
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms{0660});
}

TEST_F(HttpListener, TakesItsFileAwayAtTheEnd) {
  { http_listener made(io_, {.path = path_}); }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(HttpListener, TakesThePlaceOfASocketThatADeadProcessLeft) {
  { boost::asio::local::stream_protocol::acceptor dead(io_, boost::asio::local::stream_protocol::endpoint(path_)); }
  ASSERT_TRUE(fs::exists(path_));
  EXPECT_EQ(complaint_about({.path = path_}), "no complaint");
}

TEST_F(HttpListener, LeavesASocketAloneThatSomebodyListensOn) {
  http_listener first(io_, {.path = path_});
  first.listen();
  EXPECT_THAT(complaint_about({.path = path_}), HasSubstr("unix:" + path_ + ": Address already in use"));
  EXPECT_TRUE(fs::exists(path_));
}

TEST_F(HttpListener, LeavesAFileAloneThatIsNoSocket) {
  fs::create_directory(path_);
  EXPECT_THAT(complaint_about({.path = path_}), HasSubstr("Address already in use"));
  EXPECT_TRUE(fs::is_directory(path_));
}

}  // namespace

}  // namespace penstock
