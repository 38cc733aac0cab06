#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "daemon/config/settings.hpp"
#include "tests/daemon/pipeline/configuration_text.hpp"

namespace penstock {
namespace {

/// Random settings that parse_settings would accept, with one pipeline.
settings random_settings(std::mt19937_64& random) {
  const auto pick = [&](auto least, auto most) {
    return std::uniform_int_distribution<std::int64_t>(static_cast<std::int64_t>(least),
                                                       static_cast<std::int64_t>(most))(random);
  };
  settings made = parse_settings(with_pipeline("config_version = 1"), "penstock.toml");
  made.daemon.listen = {"tcp://*:" + std::to_string(pick(0, 65535)), "ipc:///run/\"odd\" \\ \x01 name"};
  made.security.insecure_plaintext_beyond_loopback = true;
  if (pick(0, 1) == 1) {
    made.security.secret_key_file = "/etc/penstock/\"odd\".key";
    made.security.authorized_keys_file = "/etc/penstock/authorized_keys";
    made.security.insecure_plaintext_beyond_loopback = pick(0, 1) == 1;
  }
  made.shared_memory.max_bytes = static_cast<std::size_t>(pick(0, 1'000'000));
  made.shared_memory.max_client_bytes = static_cast<std::size_t>(pick(4096, 1'000'000));
  made.shared_memory.socket = pick(0, 1) == 0 ? "" : "@arenas";
  made.security.ipc_mode = static_cast<std::uint32_t>(pick(0, 0777));
  made.security.ipc_group = pick(0, 1) == 1 ? "penstock" : "";
  made.security.handshake_timeout = std::chrono::milliseconds(pick(100, 60'000));
  made.daemon.drain_timeout = std::chrono::nanoseconds(pick(0, 3'600'000'000'000));
  made.daemon.log_level = pick(0, 1) == 0 ? "trace" : "error";
  made.daemon.io_threads = static_cast<int>(pick(0, 16));
  made.daemon.spin = std::chrono::nanoseconds(pick(0, 10'000'000));
  made.device.backend = static_cast<backend_choice>(pick(0, 2));
  made.device.every_device = pick(0, 3) == 0;
  if (!made.device.every_device) {
    made.device.ids = {static_cast<int>(pick(0, 31)), static_cast<int>(pick(32, 63))};
  }
  made.device.shards = static_cast<int>(pick(1, 64));
  made.device.host_threads = static_cast<int>(pick(0, 99));
  made.stream_pool.streams = static_cast<int>(pick(1, 64));
  made.stream_pool.slots = static_cast<int>(pick(2, 4096));
  made.stream_pool.completion = static_cast<completion_mode>(pick(0, 2));
  made.stream_pool.hang_timeout = std::chrono::milliseconds(pick(10, 99'999));
  made.clients.credit_requests = static_cast<std::uint32_t>(pick(1, 1 << 20));
  made.clients.credit_bytes = static_cast<std::size_t>(pick(1000, 1LL << 40));
  made.clients.max_clients = static_cast<std::uint32_t>(pick(1, 1 << 16));
  made.clients.max_request_bytes = static_cast<std::size_t>(pick(1, 1000)) << 10U;
  made.clients.reply_queue_bytes = static_cast<std::size_t>(pick(1, 1000)) << 20U;
  made.clients.reply_cache_bytes = static_cast<std::size_t>(pick(0, 1)) << 30U;
  made.limits.memory = static_cast<std::size_t>(pick(0, 1 << 30));
  made.clients.idle_timeout = std::chrono::seconds(pick(1, 9999));
  made.clients.resume_grace = std::chrono::seconds(pick(0, 3600));
  made.clients.max_subscriptions = static_cast<std::uint32_t>(pick(0, 1 << 16));
  made.sessions.max_per_client = static_cast<std::uint32_t>(pick(1, 1 << 16));
  made.sessions.max_sessions = static_cast<std::uint32_t>(pick(1, 1 << 16));
  made.sessions.idle_timeout = std::chrono::milliseconds(pick(1000, 99'999));
  made.timing.batches_per_second = static_cast<std::uint32_t>(pick(0, 1'000'000));
  made.timing.recent_batches = static_cast<std::uint32_t>(pick(16, 1 << 20));
  made.admin.listen.assign(static_cast<std::size_t>(pick(0, 1)), "0.0.0.0:" + std::to_string(pick(0, 65535)));
  made.admin.names.assign(static_cast<std::size_t>(pick(0, 1)), "penstock-" + std::to_string(pick(0, 9)));
  made.admin.insecure_beyond_loopback = true;
  pipeline_declaration& pipeline = made.pipelines[0];
  pipeline.input.variable = pick(0, 1) == 1;
  pipeline.batch = {pick(1, 999), static_cast<std::size_t>(pick(64, 1 << 30)), std::chrono::nanoseconds(pick(0, 1e9))};
  pipeline.priority = static_cast<stream_priority>(pick(0, 2));
  pipeline.overflow = static_cast<overflow_policy>(pick(0, 1));
  pipeline.ordered = pick(0, 1) == 1;
  return made;
}

void expect_same(const pipeline_declaration& left, const pipeline_declaration& right) {
  EXPECT_EQ(left.name, right.name);
  EXPECT_EQ(left.input, right.input);
  EXPECT_EQ(left.batch, right.batch);
  EXPECT_EQ(left.priority, right.priority);
  EXPECT_EQ(left.overflow, right.overflow);
  EXPECT_EQ(left.ordered, right.ordered);
  EXPECT_EQ(left.outputs, right.outputs);
  ASSERT_EQ(left.stages.size(), right.stages.size());
  for (std::size_t index = 0; index < left.stages.size(); ++index) {
    EXPECT_EQ(left.stages[index].name, right.stages[index].name);
    EXPECT_EQ(left.stages[index].op, right.stages[index].op);
    EXPECT_EQ(left.stages[index].from, right.stages[index].from);
    EXPECT_TRUE(std::equal(left.stages[index].settings.begin(), left.stages[index].settings.end(),
                           right.stages[index].settings.begin(), right.stages[index].settings.end()));
  }
}

void expect_same(const settings& left, const settings& right) {
  EXPECT_EQ(left.daemon, right.daemon);
  EXPECT_EQ(left.device, right.device);
  EXPECT_EQ(left.stream_pool, right.stream_pool);
  EXPECT_EQ(left.clients, right.clients);
  EXPECT_EQ(left.limits, right.limits);
  EXPECT_EQ(left.sessions, right.sessions);
  EXPECT_EQ(left.timing, right.timing);
  EXPECT_EQ(left.shared_memory, right.shared_memory);
  EXPECT_EQ(left.security, right.security);
  EXPECT_EQ(left.admin, right.admin);
  ASSERT_EQ(left.pipelines.size(), right.pipelines.size());
  for (std::size_t index = 0; index < left.pipelines.size(); ++index) {
    expect_same(left.pipelines[index], right.pipelines[index]);
  }
}

TEST(settings_printer, WritesWhatReadsBackTheSame) {
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 100; ++round) {
    const settings made = random_settings(random);
    const std::string text = print_settings(made);
    const settings again = parse_settings(text, "printed.toml");
    expect_same(made, again);
    EXPECT_EQ(print_settings(again), text);
  }
}

TEST(settings_printer, KeepsTheKindAndTheValueOfEveryParameter) {
  settings made = parse_settings(with_pipeline("config_version = 1"), "penstock.toml");
  made.pipelines[0].stages[0].op = "affine";
  parameters& given = made.pipelines[0].stages[0].settings;
  given.set("a", 1.0 / 3.0);
  given.set("b", 1e30);
  const settings again = parse_settings(print_settings(made), "printed.toml");
  EXPECT_EQ(again.pipelines[0].stages[0].settings.number("a"), 1.0 / 3.0);
  EXPECT_EQ(again.pipelines[0].stages[0].settings.number("b"), 1e30);
  given.set("a", std::int64_t{-3});
  given.set("b", 5.0);
  const std::string text = print_settings(made);
  EXPECT_NE(text.find("\na = -3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nb = 5.0\n"), std::string::npos) << text;
}

TEST(settings_printer, QuotesWhatTomlWouldNotTake) {
  settings made;
  made.pipelines.resize(1);
  made.pipelines[0].input.shape = {8};
  made.pipelines[0].stages.resize(1);
  parameters& given = made.pipelines[0].stages[0].settings;
  given.set("odd key", std::string("a\"b\\c\nd\x7F"));
  given.set("flag", true);
  given.set("numbers", std::vector<double>{1, 2.5, -1e-7});
  const std::string text = print_settings(made);
  EXPECT_NE(text.find("\"odd key\" = \"a\\\"b\\\\c\\u000Ad\\u007F\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("flag = true\n"), std::string::npos) << text;
  EXPECT_NE(text.find("numbers = [1.0, 2.5, -1e-07]\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace penstock
