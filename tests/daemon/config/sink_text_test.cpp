#include "daemon/config/sink_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/config/settings.hpp"
#include "tests/daemon/pipeline/configuration_text.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A whole file with a pipeline 'p' of outputs 'm' (in time) and 's' (not), fed by source 'north', and 'q.r' of 'v'.
std::string with_sink(const std::string& lines, const std::string& security = "") {
  return "config_version = 1\n" + security + R"(
[[pipeline]]
name = 'p'
input = { dtype = 'f32', shape = [4096] }
outputs = ['m', 's']
[[pipeline.stage]]
name = 'm'
op = 'fir'
taps = [1.0, 1.0]
decimation = 4
[[pipeline.stage]]
name = 's'
op = 'moments'
from = 'input'
[[pipeline]]
name = 'q.r'
input = { dtype = 'f32', shape = ['max 16'] }
[[pipeline.stage]]
name = 'v'
op = 'convert'
to = 'i64'
[[source]]
name = 'north'
type = 'stdin'
pipeline = 'p'
sample_rate = 48000
[[sink]]
)" + lines;
}

sink_declaration sink_of(const std::string& lines) {
  return parse_settings(with_sink("name = 'out'\n" + lines), "/etc/p/penstock.toml").sinks.at(0);
}

std::string complaint_about_sink(const std::string& lines) {
  return complaint_about(with_sink("name = 'out'\n" + lines));
}

constexpr const char* pub = "type = 'zmq-pub'\nbind = 'tcp://127.0.0.1:7700'\n";

TEST(sink_text, ReadsAllThatASinkSaysAndPrintsItAgain) {
  const settings read = parse_settings(with_sink(R"(name = "out"
type = "zmq-push"
connect = ["tcp://127.0.0.1:7700", "ipc:///tmp/x"]
from = ["north.m", "q.r"]
sessions = ["air*"]
framing = "gnuradio-tags"
topic = "{session}"
sample_rate = 1e6
queue = "1 MiB"
on_full = "drop"
[[sink]]
name = "disk"
type = "sigmf"
path = "x/{session}.{output}.sigmf-meta"
from = "p"
[[sink]]
name = "far"
type = "udp"
to = "127.0.0.1:4000"
framing = "sequence"
datagram = "1000 B"
from = "p.m"
)"),
                                       "penstock.toml");
  ASSERT_EQ(read.sinks.size(), 3U);
  const sink_declaration& out = read.sinks[0];
  EXPECT_EQ(out.type, sink_type::zmq_push);
  EXPECT_EQ(out.framing, sink_framing::gnuradio_tags);
  EXPECT_EQ(out.on_full, full_policy::drop);
  EXPECT_EQ(out.queue, std::size_t{1} << 20U);
  EXPECT_EQ(out.feeds.at(0).sample_rate, 1e6);
  EXPECT_EQ(read.sinks[1].on_full, full_policy::block);
  EXPECT_EQ(read.sinks[2].on_full, full_policy::drop);
  const settings again = parse_settings(print_settings(read), "penstock.toml");
  ASSERT_EQ(again.sinks.size(), 3U);
  for (std::size_t each = 0; each < 3; ++each) {
    EXPECT_TRUE(same_sink(again.sinks[each], read.sinks[each])) << print_sink(read.sinks[each]);
  }
  EXPECT_EQ(configuration_hash(again), configuration_hash(read));
}

TEST(sink_text, FindsPipelinesOutputsAndSources) {
  const sink_declaration all = sink_of(std::string(pub) + "from = ['p', 'q.r', 'north.s']\n");
  ASSERT_EQ(all.feeds.size(), 3U);
  const sink_feed& p = all.feeds[0];
  EXPECT_EQ(p.pipeline, "p");
  EXPECT_EQ(p.source, "");
  EXPECT_THAT(p.sources, ElementsAre("north"));
  EXPECT_EQ(p.sample_rate, 48000);
  ASSERT_EQ(p.outputs.size(), 2U);
  EXPECT_TRUE(p.outputs[0].is_in_time);
  EXPECT_EQ(p.outputs[0].steps, 4);
  EXPECT_EQ(p.outputs[0].item_bytes(), 4U);
  EXPECT_FALSE(p.outputs[1].is_in_time);
  EXPECT_EQ(p.outputs[1].steps, 4096) << "a frame";
  EXPECT_EQ(p.outputs[1].items(3, 5), 3);
  EXPECT_EQ(all.feeds[1].pipeline, "q.r");
  EXPECT_EQ(all.feeds[1].outputs.at(0).item_bytes(), 8U);
  EXPECT_EQ(all.feeds[2].source, "north");
  EXPECT_EQ(all.feeds[2].outputs.size(), 1U);
  EXPECT_EQ(sink_of(std::string(pub) + "from = ['p.m', 'p.s', 'p.m']\n").feeds.at(0).outputs.size(), 2U);
}

TEST(sink_text, TakesWholeFramesForItemsWhereTimeIsNotFirst) {
  std::string planar = with_sink("name = 'out'\n" + std::string(pub) + "from = 'z'\n");
  planar.insert(planar.find("[[source]]"), R"([[pipeline]]
name = 'z'
input = { dtype = 'f32', shape = [8, 1024] }
outputs = ['m', 't']
[[pipeline.stage]]
name = 'm'
op = 'fir'
taps = [1.0]
decimation = 4
axis = -1
[[pipeline.stage]]
name = 't'
op = 'transpose'
)");
  const sink_declaration out = parse_settings(planar, "/etc/p/penstock.toml").sinks.at(0);
  const std::vector<sink_output>& outputs = out.feeds.at(0).outputs;
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_FALSE(outputs[0].is_in_time);
  EXPECT_EQ(outputs[0].steps, 1024);
  EXPECT_TRUE(outputs[1].is_in_time) << outputs[1].spec.text();
  EXPECT_EQ(outputs[1].steps, 4);
}

TEST(sink_text, RefusesWhatCanNotBe) {
  const auto complaint = [](const std::string& lines) { return complaint_about_sink(lines); };
  EXPECT_THAT(complaint("type = 'zmq-pub'\nfrom = 'p'\n"), HasSubstr("sink 'out', field 'bind': is missing"));
  EXPECT_THAT(complaint(std::string(pub) + "from = 'x.m'\n"), HasSubstr("'x.m' begins with no pipeline and no source"));
  EXPECT_THAT(complaint(std::string(pub) + "from = 'p.n'\n"), HasSubstr("pipeline 'p' has no output 'n'"));
  EXPECT_THAT(complaint(std::string(pub)), HasSubstr("field 'from': is missing"));
  EXPECT_THAT(complaint(std::string(pub) + "from = 'p'\npath = 'x'\n"), HasSubstr("has no such key"));
  EXPECT_THAT(complaint(std::string(pub) + "from = 'p'\nframing = 'sequence'\n"), HasSubstr("has no framing"));
  EXPECT_THAT(complaint("type = 'file'\npath = 'x'\nfrom = 'p'\n"), HasSubstr("needs \"{output}\" in it"));
  EXPECT_THAT(complaint("type = 'file'\npath = '{output}'\nfrom = ['p', 'q.r']\n"), HasSubstr("\"{pipeline}\""));
  EXPECT_THAT(complaint("type = 'sigmf'\npath = 'x.sigmf-meta'\nfrom = 'p.m'\n"), HasSubstr("\"{session}\""));
  EXPECT_THAT(complaint("type = 'sigmf'\npath = '{session}'\nfrom = 'p.m'\n"), HasSubstr("\".sigmf-meta\""));
  EXPECT_THAT(complaint("type = 'sigmf'\npath = '{session}.sigmf-meta'\nfrom = 'q.r'\n"),
              HasSubstr("SigMF has no i64"));
  EXPECT_THAT(complaint("type = 'udp'\nto = '10.0.0.1:4000'\nfrom = 'p.m'\n"), HasSubstr("is beyond this machine"));
  EXPECT_THAT(complaint("type = 'zmq-pub'\nbind = 'tcp://*:7700'\nfrom = 'p'\n"), HasSubstr("give the sink keys"));
  EXPECT_THAT(complaint(std::string(pub) + "from = 'p'\n[[sink]]\nname = 'out'\n" + pub + "from = 'p'\n"),
              HasSubstr("a sink of this name is on line"));
}

TEST(sink_text, TakesAddressesBeyondThisMachineWhereThatIsSaid) {
  const std::string lines = "name = 'out'\ntype = 'udp'\nto = '239.1.1.7:4991'\nfrom = 'p.m'\n";
  EXPECT_NO_THROW((void)parse_settings(with_sink(lines, "[security]\ninsecure_plaintext_beyond_loopback = true\n"),
                                       "penstock.toml"));
}

TEST(sink_text, DoubtsWhatLosesResultsOrMixesThem) {
  EXPECT_TRUE(doubts_about(sink_of(std::string(pub) + "from = 'p.m'\n")).empty());
  EXPECT_THAT(doubts_about(sink_of(std::string(pub) + "from = 'p'\n")),
              ElementsAre(HasSubstr("nothing in its messages tells its outputs apart")));
  EXPECT_THAT(doubts_about(sink_of("type = 'file'\npath = 'x'\nfrom = 'q.r'\n")),
              ElementsAre(HasSubstr("a network client is not paused")));
}

}  // namespace
}  // namespace penstock
