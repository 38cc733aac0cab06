#include "daemon/settings/settings.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/pipeline/configuration_text.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;
using names = std::vector<std::string>;

settings parse(const std::string& text) {
  return parse_settings(text, "penstock.toml");
}

TEST(settings, TakesDefaultsForWhatIsNotGiven) {
  const settings given = parse(with_pipeline("config_version = 1"));
  EXPECT_EQ(given.daemon.listen, names{"tcp://127.0.0.1:7600"});
  EXPECT_EQ(given.daemon.drain_timeout, 10s);
  EXPECT_EQ(given.device.backend, backend_choice::automatic);
  EXPECT_EQ(given.device.ids, std::vector<int>{0});
  EXPECT_FALSE(given.device.every_device);
  EXPECT_EQ(given.device.shards, 1);
  EXPECT_EQ(given.wheel.streams, 8);
  EXPECT_EQ(given.clients.max_request_bytes, 64U << 20U);
  EXPECT_EQ(given.clients.resume_grace, 10s);
  EXPECT_EQ(given.sessions.max_sessions, 64U);
  EXPECT_EQ(given.sessions.max_per_client, 32U);
  EXPECT_EQ(given.sessions.idle_timeout, 10min);
  EXPECT_FALSE(given.security.encrypts());
  EXPECT_FALSE(given.security.insecure_plaintext_beyond_loopback);
  EXPECT_EQ(given.security.ipc_mode, 0660U);
  EXPECT_EQ(given.security.handshake_timeout, 5s);
  EXPECT_EQ(given.shared_memory.max_bytes, std::size_t{1} << 30U);
  EXPECT_EQ(given.shared_memory.max_client_bytes, std::size_t{256} << 20U);
  EXPECT_EQ(given.shared_memory.socket, "");
  EXPECT_EQ(given.timing.batches_per_second, 200U);
  EXPECT_EQ(given.timing.recent_batches, 4096U);
  ASSERT_EQ(given.pipelines.size(), 1U);
  EXPECT_TRUE(given.pipelines[0].ordered);
  EXPECT_EQ(given.pipelines[0].batch.max_frames, 256);
  EXPECT_EQ(given.pipelines[0].priority, stream_priority::normal);
  EXPECT_EQ(given.pipelines[0].outputs, names{"s"});
}

TEST(settings, ReadsEveryKeyOfItsTables) {
  const settings given = parse(with_pipeline(R"(config_version = 1
[daemon]
listen = ["tcp://*:7600", "ipc:///run/penstock.sock"]
drain_timeout = "3s"
log_level = "debug"
io_threads = 2
spin = "15us"
avoid_interrupts = false
[device]
backend = "host"
ids = [2, 0]
shards = 6
host_threads = 3
streams = 4
slots = 5
completion = "poll"
hang_timeout = "6s"
[clients]
credit_requests = 7
credit_bytes = "8 MiB"
max_clients = 9
max_request_bytes = 4096
reply_queue_bytes = "11 KiB"
reply_cache_bytes = 0
idle_timeout = "12min"
resume_grace = "0s"
[sessions]
max_sessions = 13
idle_timeout = "14s"
max_per_client = 3
[security]
secret_key_file = "keys/server.key"
authorized_keys_file = "/etc/penstock/authorized_keys"
insecure_plaintext_beyond_loopback = true
ipc_mode = "0640"
ipc_group = "radio"
handshake_timeout = "17s"
[timing]
batches_per_second = 15
recent_batches = 16
)"));
  EXPECT_EQ(given.daemon.listen, (names{"tcp://*:7600", "ipc:///run/penstock.sock"}));
  EXPECT_EQ(given.daemon.drain_timeout, 3s);
  EXPECT_EQ(given.daemon.log_level, "debug");
  EXPECT_EQ(given.daemon.io_threads, 2);
  EXPECT_EQ(given.daemon.spin, 15us);
  EXPECT_FALSE(given.daemon.avoid_interrupts);
  EXPECT_EQ(given.device.backend, backend_choice::host);
  EXPECT_EQ(given.device.ids, (std::vector<int>{2, 0}));
  EXPECT_FALSE(given.device.every_device);
  EXPECT_EQ(given.device.shards, 6);
  EXPECT_EQ(given.device.host_threads, 3);
  EXPECT_EQ(given.wheel.streams, 4);
  EXPECT_EQ(given.wheel.slots, 5);
  EXPECT_EQ(given.wheel.completion, completion_mode::poll);
  EXPECT_EQ(given.wheel.hang_timeout, 6s);
  EXPECT_EQ(given.clients.credit_requests, 7U);
  EXPECT_EQ(given.clients.credit_bytes, 8U << 20U);
  EXPECT_EQ(given.clients.max_clients, 9U);
  EXPECT_EQ(given.clients.max_request_bytes, 4096U);
  EXPECT_EQ(given.clients.reply_queue_bytes, 11U << 10U);
  EXPECT_EQ(given.clients.reply_cache_bytes, 0U);
  EXPECT_EQ(given.clients.idle_timeout, 12min);
  EXPECT_EQ(given.clients.resume_grace, 0s);
  EXPECT_EQ(given.sessions.max_sessions, 13U);
  EXPECT_EQ(given.sessions.idle_timeout, 14s);
  EXPECT_EQ(given.sessions.max_per_client, 3U);
  EXPECT_EQ(given.security.secret_key_file, "keys/server.key");
  EXPECT_EQ(given.security.authorized_keys_file, "/etc/penstock/authorized_keys");
  EXPECT_TRUE(given.security.insecure_plaintext_beyond_loopback);
  EXPECT_EQ(given.security.ipc_mode, 0640U);
  EXPECT_EQ(given.security.ipc_group, "radio");
  EXPECT_EQ(given.security.handshake_timeout, 17s);
  EXPECT_EQ(given.timing.batches_per_second, 15U);
  EXPECT_EQ(given.timing.recent_batches, 16U);
}

TEST(settings, LooksForKeysBesideTheFile) {
  const std::string text =
      in_table("security", "secret_key_file = 'server.key'\nauthorized_keys_file = '/elsewhere/keys'");
  const settings given = parse_settings(text, "/etc/penstock/penstock.toml");
  EXPECT_EQ(given.security.secret_key_file, "/etc/penstock/server.key");
  EXPECT_EQ(given.security.authorized_keys_file, "/elsewhere/keys");
}

TEST(settings, TakesEveryDeviceWhereItIsAsked) {
  EXPECT_TRUE(parse(in_table("device", "ids = 'all'")).device.every_device);
}

TEST(settings, TimesNoBatchesWhereItIsAsked) {
  EXPECT_EQ(parse(in_table("timing", "batches_per_second = 0")).timing.batches_per_second, 0U);
}

constexpr const char* spectrum = R"(config_version = 1
[[pipeline]]
name     = "spectrum"
input    = { dtype = "cu8", shape = [1024] }
batch    = { max_frames = 64, max_bytes = "1 MiB", max_delay = "250us" }
priority = "high"
overflow = "drop-oldest"
ordered  = false
outputs  = ["psd", "stats"]

[[pipeline.stage]]
name = "iq"
op   = "convert"
to   = "cf32"

[[pipeline.stage]]
name = "psd"
op   = "power_spectrum"
from = "iq"
window = "hann"

[[pipeline.stage]]
name = "stats"
op   = "moments"
from = ["iq"]
)";

TEST(settings, ReadsAPipelineWhole) {
  const pipeline_declaration given = parse(spectrum).pipelines.at(0);
  EXPECT_EQ(given.name, "spectrum");
  EXPECT_EQ(given.input, (tensor_spec{element_type::cu8, {1024}, false}));
  EXPECT_EQ(given.batch.max_frames, 64);
  EXPECT_EQ(given.batch.max_bytes, 1U << 20U);
  EXPECT_EQ(given.batch.max_delay, 250us);
  EXPECT_EQ(given.priority, stream_priority::high);
  EXPECT_EQ(given.overflow, overflow_policy::drop_oldest);
  EXPECT_FALSE(given.ordered);
  EXPECT_EQ(given.outputs, (names{"psd", "stats"}));
  EXPECT_EQ(given.position.line, 2U);
  ASSERT_EQ(given.stages.size(), 3U);
  EXPECT_EQ(given.stages[0].from, names{"input"});
  EXPECT_EQ(given.stages[1].settings.text("window"), "hann");
  EXPECT_EQ(given.stages[1].output, (tensor_spec{element_type::f32, {1024}, false}));
  EXPECT_EQ(given.stages[2].from, names{"iq"});
  EXPECT_EQ(given.stages[2].position.line, 22U);
  EXPECT_EQ(given.stages[2].position.file, "penstock.toml");
}

TEST(settings, ReadsAVariableLeadingDimension) {
  const settings given = parse(
      "config_version = 1\n[[pipeline]]\nname = 'p'\ninput = { dtype = 'i16', shape = ['max 512', 2] }\n"
      "[[pipeline.stage]]\nname = 's'\nop = 'convert'\nto = 'f32'\n");
  EXPECT_EQ(given.pipelines[0].input, (tensor_spec{element_type::i16, {512, 2}, true}));
}

TEST(settings, LoadsAFile) {
  const auto file = std::filesystem::path(testing::TempDir()) / "penstock_settings_test.toml";
  std::ofstream(file) << spectrum;
  EXPECT_EQ(load_settings(file).pipelines.at(0).position.file, file.string());
  std::filesystem::remove(file);
}

TEST(settings, SaysWhichFileItCannotRead) {
  const auto missing = std::filesystem::path(testing::TempDir()) / "there-is-no-such-file.toml";
  EXPECT_THAT(
      [&] { (void)load_settings(missing); },
      testing::ThrowsMessage<configuration_error>(missing.string() + ": can't be read: No such file or directory"));
  EXPECT_THAT([] { (void)load_settings(testing::TempDir()); },
              testing::ThrowsMessage<configuration_error>(testing::HasSubstr("can't be read: Is a directory")));
}

}  // namespace
}  // namespace penstock
