#include "client/cli/admin_http.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "client/cli/child_output.hpp"

namespace penstock::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace asio = boost::asio;

// Answers one request with this text, and keeps what was asked. Without a text it never answers.
template <class Protocol>
class one_answer {
 public:
  one_answer(const typename Protocol::endpoint& endpoint, std::string text)
      : acceptor_(io_, endpoint), thread_([this, text = std::move(text)] { answer(text); }) {}
  ~one_answer() { join(); }

  [[nodiscard]] typename Protocol::endpoint address() const { return acceptor_.local_endpoint(); }
  std::string asked() {
    join();
    return asked_;
  }

 private:
  void join() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  void answer(const std::string& text) {
    typename Protocol::socket peer(io_);
    acceptor_.accept(peer);
    boost::system::error_code ended;
    asio::read_until(peer, asio::dynamic_buffer(asked_), "\r\n\r\n", ended);
    asio::write(peer, asio::buffer(text), ended);
    std::string rest;
    if (text.empty()) {
      asio::read_until(peer, asio::dynamic_buffer(rest), "never", ended);  // until the client gives up
    }
  }

  asio::io_context io_;
  typename Protocol::acceptor acceptor_;
  std::string asked_;
  std::thread thread_;
};

using tcp_answer = one_answer<asio::ip::tcp>;
using local_answer = one_answer<asio::local::stream_protocol>;

const asio::ip::tcp::endpoint any_port{asio::ip::make_address("127.0.0.1"), 0};

admin_address address_of(const tcp_answer& server) {
  return {"127.0.0.1", std::to_string(server.address().port())};
}

TEST(AdminHttp, AddressesAreReadInEveryForm) {
  EXPECT_EQ(parse_admin_address("127.0.0.1:7680"), (admin_address{"127.0.0.1", "7680"}));
  EXPECT_EQ(parse_admin_address("http://gpu-3:80/"), (admin_address{"gpu-3", "80"}));
  EXPECT_EQ(parse_admin_address("[::1]:7680"), (admin_address{"::1", "7680"}));
  EXPECT_EQ(parse_admin_address("unix:/run/penstock/admin"), (admin_address{"", "", "/run/penstock/admin"}));
  for (const char* const wrong : {"", ":7680", "host", "host:", "host:x", "host:70000", "::1:80", "unix:", "[]:1"}) {
    EXPECT_FALSE(parse_admin_address(wrong)) << wrong;
  }
  for (const char* const text : {"127.0.0.1:7680", "[::1]:7680", "unix:/run/admin"}) {
    EXPECT_EQ(text_of(*parse_admin_address(text)), text);
  }
}

TEST(AdminHttp, AsksAndGivesBackTheAnswer) {
  tcp_answer server(any_port, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
  const http_answer got = admin_get(address_of(server), "/api/v1/status", 5s);
  EXPECT_EQ(got.status, 200U);
  EXPECT_EQ(got.body, "hi");
  EXPECT_THAT(server.asked(), StartsWith("GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n"));
}

TEST(AdminHttp, WhatChangesTheDaemonCarriesItsHeader) {
  tcp_answer server(any_port, "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(admin_post(address_of(server), "/api/v1/reload", 5s).status, 422U);
  EXPECT_THAT(server.asked(), StartsWith("POST /api/v1/reload HTTP/1.1\r\n"));
  EXPECT_THAT(server.asked(), HasSubstr("\r\nX-Penstock: 1\r\n"));
}

TEST(AdminHttp, SpeaksOverAUnixSocket) {
  const std::string path = std::filesystem::temp_directory_path() / ("penstock-admin-" + std::to_string(::getpid()));
  std::filesystem::remove(path);
  {
    local_answer server(path, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    EXPECT_EQ(admin_get({"", "", path}, "/livez", 5s).body, "hi");
  }
  std::filesystem::remove(path);
}

std::string complaint(const admin_address& address, std::chrono::nanoseconds timeout) {
  try {
    (void)admin_get(address, "/livez", timeout);
  } catch (const admin_unreachable& failed) {
    return failed.what();
  }
  return "none";
}

TEST(AdminHttp, ADaemonThatNeverAnswersIsGivenUp) {
  tcp_answer server(any_port, "");
  EXPECT_THAT(complaint(address_of(server), 100ms), HasSubstr("does not answer"));
}

TEST(AdminHttp, WhatIsNoHttpOrNotThereIsUnreachable) {
  tcp_answer server(any_port, "220 mail.example ready\r\n\r\n");
  const admin_address address = address_of(server);
  EXPECT_THAT(complaint(address, 5s), HasSubstr("127.0.0.1:" + address.port));
  EXPECT_THAT(complaint({"", "", "/nowhere/admin"}, 5s), HasSubstr("unix:/nowhere/admin"));
}

TEST(ChildOutput, GivesTheOutputAndTheExitCode) {
  const child_output said = output_of({"sh", "-c", "echo $0; exit 3", "two words"});
  EXPECT_EQ(said.text, "two words\n");
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_EQ(output_of({"sh", "-c", "kill -9 $$"}).exit_code, 137);
  EXPECT_THROW((void)output_of({"/nowhere/penstockd"}), std::system_error);
}

TEST(AdminAddress, IsTheOneThatTheDaemonNames) {
  const auto chosen = [](const char* listed, const char* url) {
    return text_of(choose_admin_address(std::string(R"({"admin":)") + listed + "}", url));
  };
  EXPECT_EQ(chosen(R"(["http://127.0.0.1:7681"])", "tcp://127.0.0.1:18420"), "127.0.0.1:7681");
  EXPECT_EQ(chosen(R"(["http://[::1]:7681"])", "tcp://localhost:18420"), "[::1]:7681");
  EXPECT_EQ(chosen(R"(["unix:/run/a"])", "ipc:///run/data"), "unix:/run/a");
  EXPECT_EQ(chosen(R"(["http://0.0.0.0:7681"])", "tcp://gpu-3:7600"), "gpu-3:7681");
  EXPECT_EQ(chosen(R"(["http://[::]:7681"])", "tcp://[fe80::7]:7600"), "[fe80::7]:7681");
  EXPECT_EQ(chosen(R"(["unix:/run/a","http://10.0.0.3:7681"])", "tcp://10.0.0.3:7600"), "10.0.0.3:7681");
}

TEST(AdminAddress, IsRefusedWhereThereIsNoneForTheCaller) {
  const auto refusal = [](const char* status, const char* url) -> std::string {
    try {
      return "took " + text_of(choose_admin_address(status, url));
    } catch (const std::runtime_error& refused) {
      return refused.what();
    }
  };
  EXPECT_NE(refusal(R"({"admin":[]})", "tcp://a:1").find("has no admin HTTP"), std::string::npos);
  EXPECT_NE(refusal("{}", "tcp://a:1").find("does not say where its admin HTTP is"), std::string::npos);
  EXPECT_NE(refusal("nonsense", "tcp://a:1").find("give --admin"), std::string::npos);
  EXPECT_NE(refusal(R"({"admin":["http://127.0.0.1:7680"]})", "tcp://10.0.0.3:1").find("for its own machine alone"),
            std::string::npos);
}

}  // namespace
}  // namespace penstock::cli
