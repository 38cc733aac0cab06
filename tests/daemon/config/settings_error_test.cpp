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

/// Lines 1 to 4 of a file are the version and a pipeline's head; `lines` begin on line 5.
std::string in_pipeline(const std::string& lines) {
  return "config_version = 1\n[[pipeline]]\nname = 'p'\ninput = { dtype = 'cu8', shape = [64] }\n" + lines;
}

/// After a good first stage 'iq' (lines 5 to 8), the [[pipeline.stage]] of line 9; `lines` begin on line 10.
std::string in_stage(const std::string& lines) {
  return in_pipeline("[[pipeline.stage]]\nname = 'iq'\nop = 'convert'\nto = 'cf32'\n[[pipeline.stage]]\n" + lines);
}

struct wrong_text {
  std::string text;
  const char* complaint;  ///< after "penstock.toml:"
};
void PrintTo(const wrong_text& wrong, std::ostream* out) {
  *out << wrong.complaint;
}

class pipeline_refuse : public testing::TestWithParam<wrong_text> {};

TEST_P(pipeline_refuse, TheText) {
  EXPECT_THAT(complaint_about(GetParam().text), StartsWith(std::string("penstock.toml:") + GetParam().complaint));
}

std::string head(const std::string& lines) {
  return "config_version = 1\n[[pipeline]]\n" + lines;
}

INSTANTIATE_TEST_SUITE_P(
    heads, pipeline_refuse,
    testing::Values(
        wrong_text{head("input = 5"), "2: pipeline '#1', field 'name': is missing"},
        wrong_text{head("name = 5"), "3: pipeline '#1', field 'name': 5 is given; allowed is a string"},
        wrong_text{head("name = 'p'"), "2: pipeline 'p', field 'input': is missing"},
        wrong_text{head("name = 'p'\ninput = 'cu8'"), "4: pipeline 'p', field 'input': \"cu8\" is given; allowed is a"},
        wrong_text{head("name = 'p'\ninput = { shape = [1] }"), "4: pipeline 'p', field 'input.dtype': is missing"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u32', shape = [1] }"),
                   "4: pipeline 'p', field 'input.dtype': \"u32\" is given; allowed is one of u8, u16, i8, i16, "
                   "i32, i64, f16, bf16, f32, f64, cf32, cu8, ci8, ci16, bool"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8' }"), "4: pipeline 'p', field 'input.shape': is missing"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = 5 }"),
                   "4: pipeline 'p', field 'input.shape': 5 is given; allowed is an array of whole numbers"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [] }"),
                   "4: pipeline 'p', field 'input.shape': an"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [4, 0] }"),
                   "4: pipeline 'p', field 'input.shape': 0 is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [4.0] }"),
                   "4: pipeline 'p', field 'input.shape': 4.0 is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [4, 'max 2'] }"),
                   "4: pipeline 'p', field 'input.shape': \"max 2\" is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = ['max 2x'] }"),
                   "4: pipeline 'p', field 'input.shape': \"max 2x\" is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = ['max 0'] }"),
                   "4: pipeline 'p', field 'input.shape': \"max 0\" is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [9223372036854775807] }"),
                   "4: pipeline 'p', field 'input.shape': 9223372036854775807 is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [1], type = 5 }"),
                   "4: pipeline 'p', field 'input.type': there is no such key; did you mean 'dtype'?"}));

INSTANTIATE_TEST_SUITE_P(
    pipelines, pipeline_refuse,
    testing::Values(
        wrong_text{in_pipeline("batch = 5"), "5: pipeline 'p', field 'batch': 5 is given; allowed is a table"},
        wrong_text{in_pipeline("batch = { max_frames = 0 }"), "5: pipeline 'p', field 'batch.max_frames': 0 is given"},
        wrong_text{in_pipeline("[pipeline.batch]\nmax_frames = 5\nmax_bytes = '8Mb'"),
                   "7: pipeline 'p', field 'batch.max_bytes': \"8Mb\" is given; allowed is a size from \"1 B\" to"},
        wrong_text{in_pipeline("batch = { max_delay = '1d' }"), "5: pipeline 'p', field 'batch.max_delay': \"1d\" is"},
        wrong_text{in_pipeline("batch = { max_frame = 1 }"),
                   "5: pipeline 'p', field 'batch.max_frame': there is no such key; did you mean 'max_frames'?"},
        wrong_text{in_pipeline("\nbatch = { max_bytes = 127 }\n[[pipeline.stage]]\nname = 'a'\nop = 'moments'"),
                   "6: pipeline 'p', field 'batch.max_bytes': a batch holds 127 bytes, less than one input frame of "
                   "cu8[64]"},
        wrong_text{in_pipeline("priority = 'urgent'"),
                   "5: pipeline 'p', field 'priority': \"urgent\" is given; allowed is one of low, normal, high"},
        wrong_text{in_pipeline("overflow = 'drop'"),
                   "5: pipeline 'p', field 'overflow': \"drop\" is given; allowed is one of reject, drop-oldest"},
        wrong_text{in_pipeline("ordered = 1"),
                   "5: pipeline 'p', field 'ordered': 1 is given; allowed is true or false"},
        wrong_text{in_pipeline("prio = 'high'"), "5: pipeline 'p', field 'prio': there is no such key; known: name, "},
        wrong_text{in_pipeline(""), "2: pipeline 'p', field 'stage': has no stage; add a [[pipeline.stage]]"},
        wrong_text{in_pipeline("[pipeline.stage]\nname = 'a'"), "5: pipeline 'p', field 'stage': a table is given"},
        wrong_text{in_pipeline("outputs = ['sq']\n[[pipeline.stage]]\nname = 'iq'\nop = 'convert'\nto = 'cf32'"),
                   "5: pipeline 'p', field 'outputs': there is no stage 'sq'; did you mean 'iq'?"},
        wrong_text{in_pipeline("outputs = ['iq', 'iq']\n[[pipeline.stage]]\nname = 'iq'\nop = 'convert'\nto = 'cf32'"),
                   "5: pipeline 'p', field 'outputs': 'iq' is given twice"},
        wrong_text{in_pipeline("outputs = 'input'\n[[pipeline.stage]]\nname = 'iq'\nop = 'convert'\nto = 'cf32'"),
                   "5: pipeline 'p', field 'outputs': there is no stage 'input'"},
        wrong_text{in_pipeline("outputs = []"), "5: pipeline 'p', field 'outputs': an empty array is given"},
        wrong_text{head("name = 'a/b'\ninput = { dtype = 'u8', shape = [1] }"),
                   "3: pipeline 'a/b', field 'name': 'a/b' is not a name; a name is 1 to 64 of A-Z a-z 0-9 _ . -"}));

INSTANTIATE_TEST_SUITE_P(
    stages, pipeline_refuse,
    testing::Values(
        wrong_text{in_stage("op = 'moments'"), "9: pipeline 'p', stage '#2', field 'name': is missing"},
        wrong_text{in_stage("name = 'a'"), "9: pipeline 'p', stage 'a', field 'op': is missing"},
        wrong_text{in_stage("name = 'a'\nop = 5"), "11: pipeline 'p', stage 'a', field 'op': 5 is given; allowed is a"},
        wrong_text{in_stage("name = ''\nop = 'moments'"), "10: pipeline 'p', field 'name': '' is not a name"},
        wrong_text{in_stage("name = 'iq'\nop = 'moments'"),
                   "10: pipeline 'p', stage 'iq', field 'name': a stage of this name is on line 5 already"},
        wrong_text{in_stage("name = 'input'\nop = 'moments'"),
                   "10: pipeline 'p', stage 'input', field 'name': 'input' is the pipeline's own input"},
        wrong_text{in_stage("name = 'a'\nop = 'momentum'"),
                   "11: pipeline 'p', stage 'a', field 'op': there is no operator 'momentum'; did you mean 'moments'?"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nfrom = 'qi'"),
                   "12: pipeline 'p', stage 'a', field 'from': there is no stage 'qi'; did you mean 'iq'?"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nfrom = []"),
                   "12: pipeline 'p', stage 'a', field 'from': an empty array is given"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nfrom = ['a']"),
                   "12: pipeline 'p', stage 'a', field 'from': the stages go round in a circle: 'a' reads from 'a'"},
        wrong_text{in_stage("name = 'a'\nop = 'power_spectrum'\nwindw = 'hann'"),
                   "12: pipeline 'p', stage 'a', field 'windw': operator 'power_spectrum' has no such parameter; did "
                   "you mean 'window'?"},
        wrong_text{in_stage("name = 'a'\nop = 'power_spectrum'\nform = 'iq'"),
                   "12: pipeline 'p', stage 'a', field 'form': operator 'power_spectrum' has no such parameter; did "
                   "you mean 'from'?"},
        wrong_text{in_stage("name = 'a'\nop = 'power_spectrum'\nwindow = 'han'"),
                   "12: pipeline 'p', stage 'a', field 'window': "},
        wrong_text{in_stage("name = 'a'\nop = 'power_spectrum'\nwindow = 5"),
                   "12: pipeline 'p', stage 'a', field 'window': "},
        wrong_text{in_pipeline("[[pipeline.stage]]\nname = 'a'\nop = 'power_spectrum'"),
                   "5: pipeline 'p', stage 'a', field 'from': "},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nx = nan"),
                   "12: pipeline 'p', stage 'a', field 'x': nan is given; allowed is true or false, a finite number"},
        wrong_text{
            in_stage("name = 'a'\nop = 'moments'\nx = [1.5, '2']"),
            "12: pipeline 'p', stage 'a', field 'x': 1.5 is given; allowed is an array of strings and whole numbers"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nx = [[1]]"),
                   "12: pipeline 'p', stage 'a', field 'x': an array is given"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nx = 12:30:00"),
                   "12: pipeline 'p', stage 'a', field 'x': 12:30:00 is given"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nfrom = 'iq'\n[[pipeline.stage]]\nname = 'b'\nop = 'moments'\n"
                            "from = 'iq'\n"),
                   "9: pipeline 'p', stage 'a': nobody takes its result"}));

TEST(pipeline_names, AreUnique) {
  const std::string again =
      "[[pipeline]]\nname = 'p'\ninput = { dtype = 'f32', shape = [16] }\n"
      "[[pipeline.stage]]\nname = 's'\nop = 'moments'\n";
  EXPECT_EQ(complaint_about("config_version = 1\n" + again + again),
            "penstock.toml:9: pipeline 'p', field 'name': a pipeline of this name is on line 2 already");
}

}  // namespace

}  // namespace penstock
