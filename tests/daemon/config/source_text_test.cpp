#include "daemon/config/source_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/config/settings.hpp"
#include "tests/daemon/pipeline/configuration_text.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// A whole file, whose line 9 begins a source.
std::string with_source(const std::string& lines, const std::string& security = "") {
  return "config_version = 1\n" + security +
         "[[pipeline]]\nname = 'p'\ninput = { dtype = 'cf32', shape = ['max 4096'] }\n[[pipeline.stage]]\nname = "
         "'s'\nop = 'magnitude'\n[[source]]\n" +
         lines;
}

std::string complaint_about_source(const std::string& lines) {
  return complaint_about(with_source("name = 'north'\npipeline = 'p'\n" + lines));
}

TEST(source_text, ReadsAllThatASourceSays) {
  const settings read = parse_settings(with_source(R"(name = "north"
type = "zmq-sub"
connect = ["tcp://127.0.0.1:5555", "ipc:///tmp/x"]
framing = "gnuradio-tags"
dtype = "cf32"
sample_rate = 2.4e6
pipeline = "p"
session = "{topic}"
block = 2048
gap = { policy = "fill", max_fill = "50ms", beyond = "splice", discard = true }
overrun = "drop-newest"
queue = "1 MiB"
stall = "0ns"
max_streams = 3
)"),
                                       "penstock.toml");
  ASSERT_EQ(read.sources.size(), 1U);
  const source_declaration& north = read.sources[0];
  EXPECT_EQ(north.type, source_type::zmq_sub);
  EXPECT_EQ(north.connect.size(), 2U);
  EXPECT_EQ(north.framing, source_framing::gnuradio_tags);
  EXPECT_EQ(north.sample_rate, 2.4e6);
  EXPECT_EQ(north.block, 2048);
  EXPECT_EQ(north.sample_bytes, 8U);
  EXPECT_EQ(north.gap.beyond, gap_policy::splice);
  EXPECT_TRUE(north.gap.discard);
  EXPECT_EQ(north.overrun, overrun_policy::drop_newest);
  EXPECT_EQ(north.queue, std::size_t{1} << 20U);
  EXPECT_EQ(north.max_streams, 3U);
  const settings again = parse_settings(print_settings(read), "penstock.toml");
  ASSERT_EQ(again.sources.size(), 1U);
  EXPECT_TRUE(same_source(again.sources[0], north));
  EXPECT_EQ(configuration_hash(again), configuration_hash(read));
}

TEST(source_text, LeavesOutWhatATypeDoesNotHave) {
  for (const char* const lines :
       {"type = 'file'\npath = 'x.npy'", "type = 'stdin'", "type = 'tcp'\nconnect = 'localhost:1234'",
        "type = 'udp'\nlisten = '127.0.0.1:4991'\nframing = 'vita49'\nreorder = { window = 64 }\nsample_rate = 1000",
        "type = 'udp'\nlisten = '127.0.0.1:4991'\ninterface = 'lo'\nkernel_times = true\nsocket_buffer = '1 MiB'",
        "type = 'zmq-sub'\nconnect = 'tcp://a:1'\ntopics = ['x', 'y']\nserver_key = "
        "'0000000000000000000000000000000000000000'\nsecret_key_file = 'own.key'",
        "type = 'zmq-pull'\nbind = 'tcp://*:1'\nsecret_key_file = 'own.key'\nauthorized_keys_file = 'list'"}) {
    const settings read =
        parse_settings(with_source(std::string("name = 'n'\npipeline = 'p'\n") + lines), "/etc/p/penstock.toml");
    const settings again = parse_settings(print_settings(read), "/etc/p/penstock.toml");
    EXPECT_TRUE(same_source(again.sources.at(0), read.sources.at(0))) << print_source(read.sources[0]);
  }
}

TEST(source_text, FillsGapsWithNan) {
  const auto read = [](const std::string& lines) {
    return parse_settings(with_source("name = 'n'\npipeline = 'p'\ntype = 'stdin'\n" + lines), "penstock.toml");
  };
  const settings filled = read("gap = { policy = 'nan', max_fill = '1s', beyond = 'splice' }\n");
  EXPECT_EQ(filled.sources.at(0).gap.policy, gap_policy::nan);
  EXPECT_TRUE(same_source(parse_settings(print_settings(filled), "penstock.toml").sources.at(0), filled.sources[0]));
  std::string whole = with_source("name = 'n'\npipeline = 'p'\ntype = 'stdin'\ngap = { policy = 'nan' }\n");
  whole.replace(whole.find("cf32"), 4, "ci16");
  whole.replace(whole.find("magnitude"), 9, "convert");
  EXPECT_THAT(complaint_about(whole), HasSubstr("policy = \"nan\" needs floating samples; pipeline 'p' takes ci16"));
}

TEST(source_text, GivesFilesAndPipesWhatSuitsThem) {
  const auto read = [](const std::string& lines) {
    return parse_settings(with_source("name = 'n'\npipeline = 'p'\n" + lines), "/etc/p/penstock.toml").sources.at(0);
  };
  const source_declaration file = read("type = 'file'\npath = 'x.npy'\n");
  EXPECT_EQ(file.overrun, overrun_policy::block);
  EXPECT_EQ(file.pace.times, 1);
  EXPECT_EQ(file.block, 4096);
  EXPECT_EQ(file.file(), "/etc/p/x.npy");
  EXPECT_EQ(read("type = 'stdin'\n").pace.times, 0);
  EXPECT_EQ(read("type = 'file'\npath = 'x'\npace = '2.5x'\n").pace.times, 2.5);
  EXPECT_EQ(read("type = 'file'\npath = 'x'\npace = 'free'\n").pace.times, 0);
  EXPECT_EQ(read("type = 'tcp'\nconnect = 'localhost:1234'\n").overrun, overrun_policy::drop_oldest);
}

TEST(source_text, NamesFileLineSourceAndField) {
  EXPECT_THAT(complaint_about_source("type = 'file'\npath = 'x'\nblock = 5000\n"),
              StartsWith("penstock.toml:13: source 'north', field 'block': 5000 is given; pipeline 'p' takes at most "
                         "4096 samples"));
}

TEST(source_text, RefusesWhatIsWrong) {
  struct wrong {
    const char* lines;
    const char* complaint;
  };
  for (const auto& [lines, complaint] :
       {wrong{"type = 'file'\npath = 'x'\npaht = 'y'", "field 'paht': there is no such key; did you mean 'path'?"},
        wrong{"type = 'file'", "field 'path': is missing; a source of type \"file\" needs the file's path"},
        wrong{"type = 'zmq-sub'", "field 'connect': is missing"},
        wrong{"type = 'udp'", "field 'listen': is missing"},
        wrong{"type = 'udp'\nlisten = '127.0.0.1:4991'\nmax_streams = 33", "a client has 32 at most"},
        wrong{"type = 'tcp'", "field 'connect': is missing"},
        wrong{"type = 'carrier-pigeon'", "field 'type': \"carrier-pigeon\" is given; allowed is one of zmq-sub"},
        wrong{"type = 'file'\npath = 'x'\nconnect = 'tcp://a:1'", "field 'connect': a source of type \"file\" has no"},
        wrong{"type = 'zmq-sub'\nconnect = 'tcp://127.0.0.1:1'\nframing = 'vita49'",
              "field 'framing': a source of type \"zmq-sub\" has no framing \"vita49\""},
        wrong{"type = 'file'\npath = 'x'\ndtype = 'f32'", "field 'dtype': \"f32\" is given; pipeline 'p' takes"},
        wrong{"type = 'file'\npath = 'x'\npace = '0x'", "field 'pace': \"0x\" is given; allowed is \"free\""},
        wrong{"type = 'file'\npath = 'x'\nqueue = '64 KiB'", "field 'queue': 64 KiB is less than 4 blocks of 32 KiB"},
        wrong{"type = 'file'\npath = 'x'\nsession = ''", "field 'session': a session's name has 1 to 48 bytes"},
        wrong{"type = 'file'\npath = 'x'\ngap = 'fill'", "field 'gap': \"fill\" is given; allowed is a table"},
        wrong{"type = 'file'\npath = 'x'\ngap = { max = '1s' }", "field 'gap.max': there is no such key"},
        wrong{"type = 'file'\npath = 'x'\ngap = { beyond = 'fill' }", "field 'gap.beyond': \"fill\" is given"},
        wrong{"type = 'zmq-sub'\nconnect = 'http://a:1'", "field 'connect': \"http://a:1\" is given; allowed is tcp"},
        wrong{"type = 'udp'\nlisten = '127.0.0.1'", "field 'listen': \"127.0.0.1\" is given; allowed is HOST:PORT"},
        wrong{"type = 'tcp'\nconnect = ['a:1', 'b:1']", "has one server"},
        wrong{"type = 'zmq-pull'\nconnect = 'tcp://127.0.0.1:1'\ntopics = 'x'", "field 'topics': a source of type"},
        wrong{"type = 'tcp'\nconnect = 'a:1'\nsecret_key_file = 'x'", "field 'secret_key_file': a source of type"},
        wrong{"type = 'zmq-sub'\nconnect = 'tcp://a:1'\nsecret_key_file = 'x'", "field 'server_key': is missing"},
        wrong{"type = 'zmq-sub'\nconnect = 'tcp://a:1'\nsecret_key_file = 'x'\nserver_key = 'short'",
              "field 'server_key': is no public key"},
        wrong{"type = 'zmq-sub'\nbind = 'tcp://*:1'\nsecret_key_file = 'x'",
              "field 'authorized_keys_file': is missing"},
        wrong{"type = 'zmq-sub'\nbind = 'tcp://127.0.0.1:1'\nauthorized_keys_file = 'x'",
              "field 'authorized_keys_file': is given without secret_key_file"},
        wrong{"type = 'zmq-sub'\nbind = 'tcp://*:1'\nconnect = 'tcp://a:1'\nsecret_key_file = 'x'",
              "field 'secret_key_file': a source with keys has connect or bind, and not both"},
        wrong{"type = 'file'\npath = 'x'\nsample_rate = -1", "field 'sample_rate': -1 is given"}}) {
    EXPECT_THAT(complaint_about_source(lines), HasSubstr(complaint)) << lines;
  }
  EXPECT_THAT(complaint_about(with_source("type = 'stdin'\npipeline = 'p'")), HasSubstr("source '#1', field 'name'"));
  EXPECT_THAT(complaint_about(with_source("name = 'a'\ntype = 'stdin'\npipeline = 'q'")),
              HasSubstr("there is no pipeline 'q'; did you mean 'p'?"));
  EXPECT_THAT(complaint_about(with_source("name = 'a'\ntype = 'stdin'\npipeline = 'p'\n[[source]]\nname = 'a'\ntype = "
                                          "'stdin'\npipeline = 'p'")),
              HasSubstr("source 'a', field 'name': a source of this name is on line 8 already"));
  EXPECT_THAT(complaint_about(with_source("").substr(0, with_source("").size() - 11) + "[source]\nname = 'a'\n"),
              HasSubstr("allowed is [[source]] tables, in double brackets"));
}

TEST(source_text, RefusesAPipelineWhoseTimeIsNotFirst) {
  std::string planar = with_source("name = 'a'\ntype = 'stdin'\npipeline = 'p'");
  const std::string shape = "shape = ['max 4096'] }\n[[pipeline.stage]]\nname = 's'\nop = 'magnitude'\n";
  planar.replace(planar.find(shape), shape.size(),
                 "shape = [8, 1024] }\n[[pipeline.stage]]\nname = 's'\nop = 'fir'\ntaps = [1.0]\naxis = -1\n");
  EXPECT_THAT(complaint_about(planar),
              HasSubstr("field 'pipeline': 'p' takes cf32[8, 1024] with time along axis 1, and "
                        "a source gives sample after sample"));
}

TEST(source_text, RefusesWhatIsBeyondThisMachineUnlessToldTo) {
  for (const char* const lines :
       {"type = 'zmq-sub'\nconnect = 'tcp://sdr:5555'", "type = 'zmq-sub'\nbind = 'tcp://[::]:1'",
        "type = 'zmq-pull'\nconnect = ['tcp://127.0.0.1:1', 'tcp://10.0.0.1:1']",
        "type = 'zmq-pull'\nbind = 'tcp://*:1'", "type = 'udp'\nlisten = '239.1.1.7:4991'",
        "type = 'udp'\nlisten = '0.0.0.0:1'", "type = 'tcp'\nconnect = 'pi:1234'"}) {
    EXPECT_THAT(complaint_about_source(lines), HasSubstr("insecure_plaintext_beyond_loopback = true")) << lines;
    EXPECT_NO_THROW((void)parse_settings(with_source(std::string("name = 'n'\npipeline = 'p'\n") + lines,
                                                     "[security]\ninsecure_plaintext_beyond_loopback = true\n"),
                                         "penstock.toml"));
  }
  for (const char* const lines :
       {"type = 'zmq-sub'\nconnect = 'tcp://localhost:5555'", "type = 'zmq-pull'\nbind = 'ipc:///run/x'",
        "type = 'udp'\nlisten = '127.0.0.1:4991'", "type = 'udp'\nlisten = '[::1]:4991'"}) {
    EXPECT_EQ(complaint_about_source(lines), "no complaint") << lines;
  }
}

}  // namespace
}  // namespace penstock
