#include "daemon/config/endpoint.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Endpoint, AddressesOfBothKindsInterfacesAndFilesAreTaken) {
  for (const char* good :
       {"tcp://127.0.0.1:7600", "tcp://[::1]:7600", "tcp://[fe80::1%eth0]:7600", "tcp://[::]:7600", "tcp://*:7600",
        "tcp://localhost:7600", "tcp://eth0:*", "tcp://eth0.100:0", "ipc:///run/penstock/data", "inproc://x"}) {
    EXPECT_EQ(fault_of_endpoint(good), "") << good;
  }
}

TEST(Endpoint, FaultSaysWhichPartIsWrong) {
  struct wrong {
    const char* text;
    const char* fault;
  };
  for (const wrong& each :
       {wrong{"tcp://127.0.0.999:7600", "'127.0.0.999' is no IPv4 address"},
        {"tcp://127.1:7600", "'127.1' is no IPv4 address"},
        {"tcp://::1:7600", "an IPv6 address stands in brackets: [::1]"},
        {"tcp://[::1:7600", "'[::1' is no IPv6 address"},
        {"tcp://[127.0.0.1]:7600", "'[127.0.0.1]' is no IPv6 address"},
        {"tcp://gpu.example.org.:7600", "'gpu.example.org.' is neither an address nor the name of an interface"},
        {"tcp://:7600", "there is no host"},
        {"tcp://127.0.0.1", "it does not end with a port, from 0 to 65535 or *"},
        {"tcp://[::1]", "it does not end with a port, from 0 to 65535 or *"},
        {"tcp://127.0.0.1:65536", "it does not end with a port, from 0 to 65535 or *"},
        {"ipc://@a", "an ipc endpoint is the path of a file"},
        {"http://127.0.0.1:7600", "it is of no known transport"}}) {
    EXPECT_EQ(fault_of_endpoint(each.text), each.fault) << each.text;
  }
}

TEST(Endpoint, LoopbackIsKnownInEveryForm) {
  for (const char* near : {"tcp://127.0.0.1:1", "tcp://127.8.9.1:1", "tcp://[::1]:1", "tcp://[0:0:0:0:0:0:0:1]:1",
                           "tcp://[::ffff:127.0.0.1]:1", "tcp://localhost:1", "tcp://lo:1", "ipc://x"}) {
    EXPECT_FALSE(is_beyond_loopback(near)) << near;
  }
  for (const char* far : {"tcp://*:1", "tcp://0.0.0.0:1", "tcp://[::]:1", "tcp://10.0.0.1:1", "tcp://[fe80::1]:1",
                          "tcp://[::ffff:10.0.0.1]:1", "tcp://eth0:1", "tcp://127.evil:1"}) {
    EXPECT_TRUE(is_beyond_loopback(far)) << far;
  }
}

TEST(Endpoint, AdminAddressesAreReadTheSameWay) {
  EXPECT_TRUE(parse_admin_address("[::1]:7680")->is_local());
  EXPECT_TRUE(parse_admin_address("[::ffff:127.0.0.1]:7680")->is_local());
  EXPECT_TRUE(parse_admin_address("localhost:7680")->is_local());
  EXPECT_FALSE(parse_admin_address("[::]:7680")->is_local());
  EXPECT_FALSE(parse_admin_address("127.0.0.999:7680"));
}

}  // namespace
}  // namespace penstock
