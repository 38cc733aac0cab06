// What is read from the machine: units' limits, endpoints that somebody holds.

#include "daemon/doctor/facts.hpp"

#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/net/router_socket.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

TEST(DoctorFacts, LimitsOfAUnitAreReadAsSystemdDoes) {
  EXPECT_EQ(parse_unit_limit("infinity"), no_limit);
  EXPECT_EQ(parse_unit_limit(" 1024 "), 1024U);
  EXPECT_EQ(parse_unit_limit("8M"), 8U << 20U);
  EXPECT_EQ(parse_unit_limit("4G:infinity"), std::uint64_t{4} << 30U);
  EXPECT_FALSE(parse_unit_limit("much"));
  EXPECT_FALSE(parse_unit_limit("8X"));
  unit_facts unit;
  add_unit_limits("[Service]\nExecStart=/bin/x --a=b\nLimitMEMLOCK = infinity\n#LimitNOFILE=1\n", unit);
  EXPECT_EQ(unit.locked_bytes, no_limit);
  EXPECT_FALSE(unit.open_files);
  add_unit_limits("LimitNOFILE=8192\nLimitMEMLOCK=1M", unit);
  EXPECT_EQ(unit.open_files, 8192U);
  EXPECT_EQ(unit.locked_bytes, 1U << 20U);
}

/// A socket that listens and never says a word.
class silent_listener {
 public:
  silent_listener() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof where;
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&where), length), 0);
    EXPECT_EQ(::listen(descriptor_, 1), 0);
    EXPECT_EQ(::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&where), &length), 0);
    port_ = ntohs(where.sin_port);
  }
  ~silent_listener() { ::close(descriptor_); }
  [[nodiscard]] std::string port() const { return std::to_string(port_); }

 private:
  int descriptor_;
  std::uint16_t port_ = 0;
};

TEST(DoctorFacts, AnEndpointIsFreeTakenOrServed) {
  EXPECT_EQ(probe_data_endpoint("tcp://127.0.0.1:*").state, endpoint_state::free);
  std::string freed;
  {
    const silent_listener silent;
    freed = silent.port();
    EXPECT_EQ(probe_data_endpoint("tcp://127.0.0.1:" + freed).state, endpoint_state::taken);
    EXPECT_EQ(probe_admin_endpoint("127.0.0.1:" + freed).state, endpoint_state::taken);
  }
  EXPECT_EQ(probe_data_endpoint("tcp://127.0.0.1:" + freed).state, endpoint_state::free);
  const router_socket daemon({.listen = {"tcp://127.0.0.1:*"}, .max_part_bytes = 1024, .replies_under_way = 1});
  EXPECT_EQ(probe_data_endpoint(daemon.endpoints().front()).state, endpoint_state::served);
}

TEST(DoctorFacts, AnEndpointThatCantBeHadSaysWhy) {
  const endpoint_facts elsewhere = probe_data_endpoint("tcp://192.0.2.1:7600");  // an address of no machine
  EXPECT_EQ(elsewhere.state, endpoint_state::refused);
  EXPECT_FALSE(elsewhere.detail.empty());
  EXPECT_EQ(probe_data_endpoint("ipc:///nowhere/at/all/data").state, endpoint_state::refused);
  EXPECT_EQ(probe_data_endpoint("ipc:///" + std::string(200, 'x')).state, endpoint_state::refused);
}

TEST(DoctorFacts, AFileEndpointIsFreeServedOrInTheWay) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("penstock-doctor-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string endpoint = "ipc://" + (folder / "data").string();
  EXPECT_EQ(probe_data_endpoint(endpoint).state, endpoint_state::free);
  {
    const router_socket daemon({.listen = {endpoint}, .max_part_bytes = 1024, .replies_under_way = 1});
    EXPECT_EQ(probe_data_endpoint(endpoint).state, endpoint_state::served);
  }
  std::ofstream(folder / "data") << "no socket";
  EXPECT_THAT(probe_data_endpoint(endpoint).detail, HasSubstr("no socket"));
  std::filesystem::remove_all(folder);
}

TEST(DoctorFacts, TheDeviceIsTriedWithWhatTheConfigurationTakes) {
  const settings how = parse_settings(R"(config_version = 1
[device]
backend = "host"
shards = 2
slots = 4
[[pipeline]]
name = "p"
input = { dtype = "f32", shape = [256] }
batch = { max_frames = 8 }
[[pipeline.stage]]
name = "s"
op = "affine"
)",
                                      "p.toml");
  doctor_facts facts{.configuration = {.file = "p.toml"}};
  try_device(how, facts);
  EXPECT_EQ(facts.device.error, "");
  EXPECT_EQ(facts.device.backend, "host");
  EXPECT_EQ(facts.load.shards, 2U);
  ASSERT_TRUE(facts.memory);
  // 2 shards × 4 slots × 8 frames × 256 floats, in and out.
  EXPECT_EQ(facts.memory->pinned_bytes, 2U * 4 * 2 * 8 * 256 * 4);
  EXPECT_TRUE(facts.memory->was_tried);
  EXPECT_EQ(facts.memory->error, "");
  EXPECT_GE(facts.memory->device_bytes, 2U * 4 * 8 * 256 * 4);
}

TEST(DoctorFacts, ThisMachineIsRead) {
  EXPECT_GT(read_limits().open_files, 0U);
}

}  // namespace
}  // namespace penstock
