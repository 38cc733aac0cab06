#include "daemon/admin/http/http_listener.hpp"

#include <filesystem>
#include <optional>
#include <stdexcept>

#include <boost/asio/local/stream_protocol.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

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
