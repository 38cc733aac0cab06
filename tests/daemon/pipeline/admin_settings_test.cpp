#include <ostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/settings/admin_address.hpp"
#include "tests/daemon/pipeline/configuration_text.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using names = std::vector<std::string>;

admin_settings parse(const std::string& lines) {
  return parse_settings(in_table("admin", lines), "penstock.toml").admin;
}

TEST(admin_settings, ListenOnLoopbackAloneByDefault) {
  const admin_settings given = parse("");
  EXPECT_EQ(given.listen, names{"127.0.0.1:7680"});
  EXPECT_TRUE(given.names.empty());
  EXPECT_FALSE(given.insecure_beyond_loopback);
}

TEST(admin_settings, ReadEveryKey) {
  const admin_settings given =
      parse("listen = ['0.0.0.0:0', 'unix:/run/a b.sock']\nnames = ['penstock']\ninsecure_beyond_loopback = true");
  EXPECT_EQ(given.listen, (names{"0.0.0.0:0", "unix:/run/a b.sock"}));
  EXPECT_EQ(given.names, names{"penstock"});
  EXPECT_TRUE(given.insecure_beyond_loopback);
}

TEST(admin_settings, TakeNothingForNoEndpoint) {
  EXPECT_TRUE(parse("listen = ''").listen.empty());
  EXPECT_TRUE(parse("listen = []").listen.empty());
}

TEST(admin_settings, RefuseTheNetworkUnlessToldInPlainWords) {
  for (const std::string open : {"0.0.0.0:7680", "[::]:7680", "192.0.2.7:80", "[2001:db8::1]:80"}) {
    EXPECT_THAT(complaint_about(in_table("admin", "listen = '" + open + "'")),
                HasSubstr("if that is wanted, say insecure_beyond_loopback = true"));
    EXPECT_EQ(parse("listen = '" + open + "'\ninsecure_beyond_loopback = true").listen, names{open});
  }
  for (const std::string local : {"127.0.0.1:0", "127.9.9.9:80", "[::1]:80", "localhost:80", "unix:/run/a"}) {
    EXPECT_EQ(parse("listen = '" + local + "'").listen, names{local});
  }
}

TEST(admin_settings, AreCheckedWhereNoFileGaveThem) {
  EXPECT_NO_THROW(check_admin({.listen = {"127.0.0.1:0"}}));
  EXPECT_THROW(check_admin({.listen = {"0.0.0.0:0"}}), configuration_error);
  EXPECT_THROW(check_admin({.listen = {"nonsense"}}), configuration_error);
}

TEST(admin_settings, RefuseWhatIsNoAddress) {
  for (const std::string wrong :
       {"7680", ":7680", "penstock:7680", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:80x",
        "::1:80", "[127.0.0.1]:80", "unix:", "unix:run/a", "tcp://127.0.0.1:80", "*:80"}) {
    EXPECT_THAT(complaint_about(in_table("admin", "listen = '" + wrong + "'")),
                StartsWith("penstock.toml:3: field 'admin.listen': \"" + wrong + "\" is given; allowed is"))
        << wrong;
  }
  EXPECT_THAT(complaint_about(in_table("admin", "listen = 'unix:/" + std::string(120, 'a') + "'")),
              HasSubstr("allowed is"));
  EXPECT_THAT(complaint_about(in_table("admin", "listen = ['127.0.0.1:1', '127.0.0.1:1']")), HasSubstr("given twice"));
  EXPECT_THAT(complaint_about(in_table("admin", "names = 'Penstock:80'")), HasSubstr("hosts' names in small letters"));
  EXPECT_THAT(complaint_about(in_table("admin", "lisen = 'x'")), HasSubstr("did you mean 'listen'?"));
}

TEST(admin_address, SaysWhatItWasMadeOf) {
  const auto six = parse_admin_address("[::1]:7680");
  ASSERT_TRUE(six);
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->port, 7680);
  EXPECT_EQ(parse_admin_address("localhost:1")->host, "127.0.0.1");
  EXPECT_EQ(parse_admin_address("unix:/run/penstock/admin.sock")->path, "/run/penstock/admin.sock");
}

}  // namespace
}  // namespace penstock
