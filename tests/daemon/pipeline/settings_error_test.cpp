#include <ostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/pipeline/configuration_text.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct wrong_line {
  const char* table;
  const char* line;
  const char* complaint;  ///< after "penstock.toml:3: "
};
void PrintTo(const wrong_line& wrong, std::ostream* out) {
  *out << wrong.complaint;
}

class settings_refuse : public testing::TestWithParam<wrong_line> {};

TEST_P(settings_refuse, TheLine) {
  const auto& [table, line, complaint] = GetParam();
  EXPECT_THAT(complaint_about(in_table(table, line)), StartsWith(std::string("penstock.toml:3: ") + complaint));
}

INSTANTIATE_TEST_SUITE_P(
    security, settings_refuse,
    testing::Values(
        wrong_line{"security", "secret_key_file = 'a'", "field 'security.secret_key_file': a key without"},
        wrong_line{"security", "authorized_keys_file = 'a'", "field 'security.authorized_keys_file': a list"},
        wrong_line{"security", "ipc_mode = 660", "field 'security.ipc_mode': 660 is given"},
        wrong_line{"security", "ipc_mode = '0680'", "field 'security.ipc_mode': \"0680\" is given"},
        wrong_line{"security", "ipc_mode = '4660'", "field 'security.ipc_mode': \"4660\" is given"},
        wrong_line{"shared_memory", "socket = 'run/arenas'", "field 'shared_memory.socket': \"run/arenas\" is given"},
        wrong_line{"shared_memory", "socket = '@'", "field 'shared_memory.socket': \"@\" is given"},
        wrong_line{"shared_memory", "max_client_bytes = '1 KiB'", "field 'shared_memory.max_client_bytes'"},
        wrong_line{"security", "handshake_timeout = '1h'", "field 'security.handshake_timeout': \"1h\" is given"}));

INSTANTIATE_TEST_SUITE_P(
    daemon, settings_refuse,
    testing::Values(
        wrong_line{"daemon", "listen = 7600",
                   "field 'daemon.listen': 7600 is given; allowed is a string or an array of strings, at least one"},
        wrong_line{"daemon", "listen = []", "field 'daemon.listen': an empty array is given"},
        wrong_line{"daemon", "listen = ['ipc:///a', 5]", "field 'daemon.listen': 5 is given"},
        wrong_line{"daemon", "listen = 'localhost:7600'",
                   "field 'daemon.listen': \"localhost:7600\" is given; allowed"},
        wrong_line{"daemon", "listen = 'tcp://localhost'", "field 'daemon.listen': \"tcp://localhost\" is given"},
        wrong_line{"daemon", "listen = 'tcp://:7600'", "field 'daemon.listen': \"tcp://:7600\" is given"},
        wrong_line{"daemon", "listen = 'tcp://a:65536'", "field 'daemon.listen': \"tcp://a:65536\" is given"},
        wrong_line{"daemon", "listen = 'tcp://a:76x'", "field 'daemon.listen': \"tcp://a:76x\" is given"},
        wrong_line{"daemon", "listen = 'tcp://127.0.0.999:1'",
                   "field 'daemon.listen': \"tcp://127.0.0.999:1\" is given; allowed is tcp://HOST:PORT, ipc://PATH "
                   "('127.0.0.999' is no IPv4 address)"},
        wrong_line{"daemon", "drain_timeout = '1,5s'",
                   "field 'daemon.drain_timeout': \"1,5s\" is given; allowed is a duration from \"0ns\" to \"1h\", a "
                   "number of ns, us, ms, s, min or h (a fraction follows a point, not a comma)"},
        wrong_line{"daemon", "listen = 'ipc://'", "field 'daemon.listen': \"ipc://\" is given"},
        wrong_line{"daemon", "listen = ['ipc://a', 'ipc://a']", "field 'daemon.listen': \"ipc://a\" is given twice"},
        wrong_line{"daemon", "drain_timeout = 10",
                   "field 'daemon.drain_timeout': 10 is given; allowed is a duration from \"0ns\" to \"1h\""},
        wrong_line{"daemon", "drain_timeout = '2h'", "field 'daemon.drain_timeout': \"2h\" is given; allowed is"},
        wrong_line{"daemon", "drain_timeout = '10'", "field 'daemon.drain_timeout': \"10\" is given; allowed is"},
        wrong_line{"daemon", "log_level = 'loud'",
                   "field 'daemon.log_level': \"loud\" is given; allowed is one of trace, debug, info, warn, error"},
        wrong_line{"daemon", "log_level = true", "field 'daemon.log_level': true is given"},
        wrong_line{"daemon", "listen = 'ipc://@a'", "field 'daemon.listen': \"ipc://@a\" is given"},
        wrong_line{"daemon", "listen = 'tcp://*:7600'",
                   "field 'daemon.listen': \"tcp://*:7600\" can be reached from other machines"},
        wrong_line{"sessions", "max_per_client = 0", "field 'sessions.max_per_client': 0 is given"},
        wrong_line{"daemon", "lisen = 'ipc://a'",
                   "field 'daemon.lisen': there is no such key; did you mean 'listen'?"}));

INSTANTIATE_TEST_SUITE_P(
    device, settings_refuse,
    testing::Values(
        wrong_line{"device", "backend = 'gpu'",
                   "field 'device.backend': \"gpu\" is given; allowed is one of auto, cuda, host"},
        wrong_line{"device", "ids = [0, -1]",
                   "field 'device.ids': -1 is given; allowed is \"all\", or an array of whole numbers from 0 to 63"},
        wrong_line{"device", "ids = [64]", "field 'device.ids': 64 is given; allowed is"},
        wrong_line{"device", "ids = [0.0]", "field 'device.ids': 0.0 is given; allowed is"},
        wrong_line{"device", "ids = []", "field 'device.ids': an array is given; allowed is"},
        wrong_line{"device", "ids = 1", "field 'device.ids': 1 is given; allowed is"},
        wrong_line{"device", "ids = 'every'", "field 'device.ids': \"every\" is given; allowed is"},
        wrong_line{"device", "ids = [1, 2, 1]", "field 'device.ids': 1 is given twice"},
        wrong_line{"device", "id = 1", "field 'device.id': there is no such key; did you mean 'ids'?"},
        wrong_line{"daemon", "io_threads = 17",
                   "field 'daemon.io_threads': 17 is given; allowed is a whole number from 0 to 16"},
        wrong_line{"daemon", "spin = '11ms'", "field 'daemon.spin': \"11ms\" is given; allowed is"},
        wrong_line{"device", "shards = 0", "field 'device.shards': 0 is given; allowed is a whole number from 1 to 64"},
        wrong_line{"device", "shards = 65", "field 'device.shards': 65 is given"},
        wrong_line{"device", "host_threads = 1025", "field 'device.host_threads': 1025 is given; allowed is"},
        wrong_line{"device", "streams = 0",
                   "field 'device.streams': 0 is given; allowed is a whole number from 1 to 64"},
        wrong_line{"device", "streams = 65", "field 'device.streams': 65 is given"},
        wrong_line{"device", "streams = 4294967297", "field 'device.streams': 4294967297 is given"},
        wrong_line{"device", "streams = 8.0", "field 'device.streams': 8.0 is given"},
        wrong_line{"device", "streams = '8'", "field 'device.streams': \"8\" is given"},
        wrong_line{"device", "streams = 1979-05-27", "field 'device.streams': 1979-05-27 is given"},
        wrong_line{"device", "slots = 1", "field 'device.slots': 1 is given; allowed is a whole number from 2 to 4096"},
        wrong_line{"device", "completion = 'wait'",
                   "field 'device.completion': \"wait\" is given; allowed is one of callback, poll, auto"},
        wrong_line{"device", "hang_timeout = '1us'", "field 'device.hang_timeout': \"1us\" is given; allowed is a"},
        wrong_line{"device", "stream = 8", "field 'device.stream': there is no such key; did you mean 'streams'?"},
        wrong_line{"device", "colour = 8", "field 'device.colour': there is no such key; known: backend, ids, "}));

INSTANTIATE_TEST_SUITE_P(
    clients, settings_refuse,
    testing::Values(
        wrong_line{"clients", "credit_requests = 0", "field 'clients.credit_requests': 0 is given; allowed is a whole"},
        wrong_line{"clients", "credit_bytes = 0", "field 'clients.credit_bytes': 0 is given; allowed is a size from"},
        wrong_line{"clients", "credit_bytes = -1", "field 'clients.credit_bytes': -1 is given"},
        wrong_line{"clients", "credit_bytes = '64 mb'", "field 'clients.credit_bytes': \"64 mb\" is given"},
        wrong_line{"clients", "credit_bytes = '2 TiB'", "field 'clients.credit_bytes': \"2 TiB\" is given"},
        wrong_line{"clients", "max_clients = 0", "field 'clients.max_clients': 0 is given"},
        wrong_line{"clients", "max_request_bytes = 144", "field 'clients.max_request_bytes': 144 is given; allowed is"},
        wrong_line{"clients", "reply_queue_bytes = []", "field 'clients.reply_queue_bytes': an array is given"},
        wrong_line{"clients", "reply_cache_bytes = {}", "field 'clients.reply_cache_bytes': a table is given"},
        wrong_line{"clients", "idle_timeout = '999ms'", "field 'clients.idle_timeout': \"999ms\" is given"},
        wrong_line{"clients", "credits = 5", "field 'clients.credits': there is no such key"},
        wrong_line{"clients", "max_request_bytes = 207",
                   "field 'clients.max_request_bytes': 207 B is less than 208 B, which a request of one frame of "
                   "pipeline 'p' takes"},
        wrong_line{"clients", "credit_bytes = 207", "field 'clients.credit_bytes': 207 B is less than 208 B"},
        wrong_line{"clients", "reply_queue_bytes = 144",
                   "field 'clients.reply_queue_bytes': 144 B is less than 164 B, which the result of one frame of "
                   "pipeline 'p' takes"}));

INSTANTIATE_TEST_SUITE_P(
    sessions, settings_refuse,
    testing::Values(
        wrong_line{"sessions", "max_sessions = 0",
                   "field 'sessions.max_sessions': 0 is given; allowed is a whole number from 1 to 65536"},
        wrong_line{"sessions", "max_sessions = 65537", "field 'sessions.max_sessions': 65537 is given"},
        wrong_line{"sessions", "idle_timeout = '999ms'",
                   "field 'sessions.idle_timeout': \"999ms\" is given; allowed is a duration from \"1s\" to \"8760h\""},
        wrong_line{"sessions", "idle_timeout = '8761h'", "field 'sessions.idle_timeout': \"8761h\" is given"},
        wrong_line{"sessions", "idle = '5s'", "field 'sessions.idle': there is no such key"}));

INSTANTIATE_TEST_SUITE_P(
    timing, settings_refuse,
    testing::Values(
        wrong_line{"timing", "batches_per_second = -1",
                   "field 'timing.batches_per_second': -1 is given; allowed is a whole number from 0 to 1000000"},
        wrong_line{"timing", "batches_per_second = 1000001", "field 'timing.batches_per_second': 1000001 is given"},
        wrong_line{"timing", "recent_batches = 15",
                   "field 'timing.recent_batches': 15 is given; allowed is a whole number from 16 to 1048576"},
        wrong_line{"timing", "recent_batches = 1048577", "field 'timing.recent_batches': 1048577 is given"},
        wrong_line{"timing", "batches = 1", "field 'timing.batches': there is no such key"}));

TEST(settings_errors, WantTheVersionFirst) {
  EXPECT_EQ(complaint_about(with_pipeline("")),
            "penstock.toml: field 'config_version': is missing; begin the file with config_version = 1");
  EXPECT_EQ(complaint_about(with_pipeline("\nconfig_version = 2")),
            "penstock.toml:2: field 'config_version': 2 is given; allowed is 1, the version that this daemon reads");
  EXPECT_THAT(complaint_about(with_pipeline("config_version = '1'")), HasSubstr("\"1\" is given"));
}

TEST(settings_errors, WantAPipeline) {
  EXPECT_EQ(complaint_about("config_version = 1"),
            "penstock.toml: field 'pipeline': there is none; add a [[pipeline]] table");
  EXPECT_THAT(complaint_about("config_version = 1\n[pipeline]\nname = 'p'"),
              StartsWith("penstock.toml:2: field 'pipeline': a table is given; allowed is [[pipeline]] tables"));
  EXPECT_THAT(complaint_about("config_version = 1\npipeline = []"), StartsWith("penstock.toml:2: field 'pipeline': "));
}

TEST(settings_errors, NameAnUnknownTable) {
  EXPECT_THAT(complaint_about(with_pipeline("config_version = 1\n[client]")),
              StartsWith("penstock.toml:2: field 'client': there is no such key; did you mean 'clients'?"));
  EXPECT_THAT(complaint_about(with_pipeline("config_version = 1\ndevice = 'cuda'")),
              StartsWith("penstock.toml:2: field 'device': \"cuda\" is given; allowed is a table: [device]"));
}

TEST(settings_errors, NameTheLineOfBrokenToml) {
  EXPECT_THAT(complaint_about("config_version = 1\n\n[daemon\n"), StartsWith("penstock.toml:3: not valid TOML: "));
  EXPECT_THAT(complaint_about("config_version = 99999999999999999999"),
              StartsWith("penstock.toml:1: not valid TOML: "));
  EXPECT_THAT(complaint_about("a = 1\na = 2\n"), StartsWith("penstock.toml:2: not valid TOML: "));
}

}  // namespace
}  // namespace penstock
