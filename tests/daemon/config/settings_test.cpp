#include "daemon/config/settings.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/config/endpoint.hpp"
#include "tests/daemon/pipeline/configuration_text.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;
using names = std::vector<std::string>;
using testing::HasSubstr;
using testing::StartsWith;

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
  EXPECT_EQ(given.stream_pool.streams, 8);
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
max_subscriptions = 18
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
  EXPECT_EQ(given.device.backend, backend_choice::host);
  EXPECT_EQ(given.device.ids, (std::vector<int>{2, 0}));
  EXPECT_FALSE(given.device.every_device);
  EXPECT_EQ(given.device.shards, 6);
  EXPECT_EQ(given.device.host_threads, 3);
  EXPECT_EQ(given.stream_pool.streams, 4);
  EXPECT_EQ(given.stream_pool.slots, 5);
  EXPECT_EQ(given.stream_pool.completion, completion_mode::poll);
  EXPECT_EQ(given.stream_pool.hang_timeout, 6s);
  EXPECT_EQ(given.clients.credit_requests, 7U);
  EXPECT_EQ(given.clients.credit_bytes, 8U << 20U);
  EXPECT_EQ(given.clients.max_clients, 9U);
  EXPECT_EQ(given.clients.max_request_bytes, 4096U);
  EXPECT_EQ(given.clients.reply_queue_bytes, 11U << 10U);
  EXPECT_EQ(given.clients.reply_cache_bytes, 0U);
  EXPECT_EQ(given.clients.idle_timeout, 12min);
  EXPECT_EQ(given.clients.resume_grace, 0s);
  EXPECT_EQ(given.clients.max_subscriptions, 18U);
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

TEST(settings, NeedARestartWhereAReloadCannotChangeThem) {
  const settings started;
  settings wanted;
  wanted.daemon.log_level = "debug";
  wanted.clients.credit_requests = 1;
  wanted.sessions.idle_timeout = 1s;
  wanted.stream_pool.hang_timeout = 1s;
  EXPECT_EQ(needs_restart(started, wanted), names{});
  wanted.stream_pool.streams = 4;
  wanted.admin.names = {"penstock"};
  EXPECT_EQ(needs_restart(started, wanted), (names{"[device] streams = 4", "[admin] names = [\"penstock\"]"}));
  EXPECT_EQ(needs_restart(wanted, started), (names{"[device] streams = 8", "[admin] names left out"}));
}

TEST(settings, NeedARestartForLargerRequestsAndForTimingFromNone) {
  settings started;
  started.timing.batches_per_second = 0;
  settings wanted = started;
  wanted.clients.max_request_bytes -= 1;
  EXPECT_EQ(needs_restart(started, wanted), names{});
  wanted.clients.max_request_bytes += 2;
  wanted.timing.batches_per_second = 1;
  EXPECT_EQ(needs_restart(started, wanted),
            (names{"[clients] max_request_bytes above 67108864", "[timing] batches_per_second from 0"}));
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

admin_settings parse_admin(const std::string& lines) {
  return parse_settings(in_table("admin", lines), "penstock.toml").admin;
}

TEST(admin_settings, ListenOnLoopbackAloneByDefault) {
  const admin_settings given = parse_admin("");
  EXPECT_EQ(given.listen, names{"127.0.0.1:7680"});
  EXPECT_TRUE(given.names.empty());
  EXPECT_FALSE(given.insecure_beyond_loopback);
}

TEST(admin_settings, ReadEveryKey) {
  const admin_settings given = parse_admin(
      "listen = ['0.0.0.0:0', 'unix:/run/a b.sock']\nnames = ['penstock']\ninsecure_beyond_loopback = true");
  EXPECT_EQ(given.listen, (names{"0.0.0.0:0", "unix:/run/a b.sock"}));
  EXPECT_EQ(given.names, names{"penstock"});
  EXPECT_TRUE(given.insecure_beyond_loopback);
}

TEST(admin_settings, TakeNothingForNoEndpoint) {
  EXPECT_TRUE(parse_admin("listen = ''").listen.empty());
  EXPECT_TRUE(parse_admin("listen = []").listen.empty());
}

TEST(admin_settings, RefuseTheNetworkUnlessToldInPlainWords) {
  for (const std::string open : {"0.0.0.0:7680", "[::]:7680", "192.0.2.7:80", "[2001:db8::1]:80"}) {
    EXPECT_THAT(complaint_about(in_table("admin", "listen = '" + open + "'")),
                HasSubstr("if that is wanted, say insecure_beyond_loopback = true"));
    EXPECT_EQ(parse_admin("listen = '" + open + "'\ninsecure_beyond_loopback = true").listen, names{open});
  }
  for (const std::string local : {"127.0.0.1:0", "127.9.9.9:80", "[::1]:80", "localhost:80", "unix:/run/a"}) {
    EXPECT_EQ(parse_admin("listen = '" + local + "'").listen, names{local});
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

TEST(MachineFit, GivesAShardMoreIoThreadsWhereThereAreProcessors) {
  for (const auto& [shards, processors, threads] : {std::array<std::size_t, 3>{1, 1, 1},
                                                    {1, 2, 1},
                                                    {1, 7, 1},
                                                    {1, 8, 2},
                                                    {1, 16, 4},
                                                    {1, 128, 4},
                                                    {4, 16, 1},
                                                    {4, 64, 4},
                                                    {8, 2, 1},
                                                    {0, 8, 2}}) {
    EXPECT_EQ(fitted({}, shards, processors).daemon.io_threads, static_cast<int>(threads))
        << shards << " shards, " << processors << " processors";
  }
}

TEST(MachineFit, LeavesANumberOfIoThreadsThatIsGiven) {
  settings given;
  given.daemon.io_threads = 3;
  EXPECT_EQ(fitted(given, 1, 1).daemon.io_threads, 3);
}

TEST(MachineFit, LetsAShardSpinOnlyWhereNobodyWaitsForItsProcessor) {
  EXPECT_EQ(fitted({}, 1, 4).daemon.spin, 100us);
  EXPECT_EQ(fitted({}, 1, 3).daemon.spin, 0us);
  EXPECT_EQ(fitted({}, 2, 7).daemon.spin, 0us);
}

TEST(MachineFit, LetsAShardPollByItselfOnlyWithAProcessorToSpare) {
  for (const completion_mode asked : {completion_mode::callback, completion_mode::poll, completion_mode::automatic}) {
    settings given;
    given.stream_pool.completion = asked;
    EXPECT_EQ(fitted(given, 2, 4).stream_pool.completion, asked);
    EXPECT_EQ(fitted(given, 2, 3).stream_pool.completion,
              asked == completion_mode::automatic ? completion_mode::callback : asked);
  }
}

}  // namespace

}  // namespace penstock
