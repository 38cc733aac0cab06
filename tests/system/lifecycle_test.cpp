// Start and stop of the real daemon: configuration errors, drain, signals, exit codes.

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::testing {
namespace {

using ::testing::HasSubstr;
using wire::message_type;
using wire::status;

constexpr const char* lifecycle_configuration = R"(config_version = 1
[daemon]
drain_timeout = "20s"
[device]
streams = 1
slots = 4
[clients]
credit_bytes = "256 MiB"
[[pipeline]]
name = "heavy"
input = { dtype = "cu8", shape = [65536] }
batch = { max_frames = 8 }
[[pipeline.stage]]
name = "iq"
op = "convert"
[[pipeline.stage]]
name = "psd"
op = "power_spectrum"
)";

// Products for each sample. A batch of them takes a worker much longer than a busy machine keeps the daemon from a
// signal, and with a sanitizer that is told of each still only seconds.
#if defined(__SANITIZE_ADDRESS__)
constexpr int slow_taps = 512;
#else
constexpr int slow_taps = 2048;
#endif

// A direct correlation behind the others.
std::string slow_stage() {
  std::string taps = "1";
  for (int tap = 1; tap < slow_taps; ++tap) {
    taps += ", 1";
  }
  return "[[pipeline.stage]]\nname = \"slow\"\nop = \"correlate\"\nmode = \"same\"\nmethod = \"direct\"\ntemplate = [" +
         taps + "]\n";
}

// A file for the time of a test.
class scratch_file {
 public:
  explicit scratch_file(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("penstock-" + std::to_string(::getpid()) + "-" + std::to_string(next_++) + ".toml")) {
    std::ofstream(path_) << text;
  }
  ~scratch_file() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  static inline int next_ = 0;  // one test may hold several

  std::filesystem::path path_;
};

class Lifecycle : public ::testing::TestWithParam<std::string> {
 protected:
  daemon_options options_{.backend = GetParam(), .completion = "callback", .configuration = lifecycle_configuration};
};

TEST_P(Lifecycle, SigtermFinishesWhatIsInFlightAnswersTheRestAndExitsZero) {
  daemon_process daemon(options_);
  raw_peer peer(daemon.endpoint());
  peer.hello();
  constexpr std::uint64_t sent = 60;
  for (std::uint64_t id = 1; id <= sent; ++id) {
    peer.send(raw_submit::of_iq(id, 0, 8, 65536, 'x').parts());
  }
  // The first result shows that the path is full behind it.
  auto message = peer.receive();
  ASSERT_TRUE(message);
  daemon.signal(SIGTERM);
  std::uint64_t results = 0;
  std::uint64_t stopped = 0;
  while (results + stopped < sent) {
    ASSERT_TRUE(message) << results << " results and " << stopped << " SHUTDOWN of " << sent << "\n" << daemon.log();
    results += message->header.type == message_type::result ? 1U : 0U;
    stopped += message->header.code == status::shutdown ? 1U : 0U;
    if (results + stopped < sent) {
      message = peer.receive();
    }
  }
  EXPECT_GE(results, 1U);
  EXPECT_EQ(daemon.wait(), 0) << daemon.log();
  EXPECT_THAT(daemon.log(), HasSubstr("draining"));
  EXPECT_THAT(daemon.log(), HasSubstr("stopped"));
}

TEST_P(Lifecycle, IdleDaemonStopsAtOnce) {
  daemon_process daemon(options_);
  EXPECT_EQ(daemon.stop(), 0) << daemon.log();
}

TEST_P(Lifecycle, LogSaysWhichBackendItTookAndWhenItIsReady) {
  daemon_process daemon(options_);
  EXPECT_THAT(daemon.log(), HasSubstr("device: " + GetParam() + " backend"));
  EXPECT_THAT(daemon.log(), HasSubstr("ready: 1 pipeline on"));
  EXPECT_EQ(daemon.stop(), 0);
}

TEST_P(Lifecycle, HasAsManyIoThreadsForAShardAsItIsTold) {
  std::string text = lifecycle_configuration;
  text.replace(text.find("[device]"), 0, "io_threads = 3\n");
  const daemon_process daemon({.backend = GetParam(), .configuration = text});
  std::size_t threads = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/" + std::to_string(daemon.pid()) + "/task")) {
    std::string name;
    std::getline(std::ifstream(each.path() / "comm") >> std::ws, name);
    threads += name.starts_with("ZMQbg/IO/") ? 1U : 0U;
  }
  EXPECT_EQ(threads, 3U);
  EXPECT_THAT(daemon.log(), HasSubstr("3 I/O threads each"));
}

// On any other thread a signal would interrupt calls of libraries that do not expect it.
TEST_P(Lifecycle, LeavesSignalsToItsMainThread) {
  const daemon_process daemon(options_);
  std::size_t others = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/" + std::to_string(daemon.pid()) + "/task")) {
    if (each.path().filename() == std::to_string(daemon.pid())) {
      continue;
    }
    ++others;
    std::ifstream status(each.path() / "status");
    std::string word;
    while (status >> word && word != "SigBlk:") {
    }
    std::uint64_t blocked = 0;
    ASSERT_TRUE(status >> std::hex >> blocked);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPROF, SIGUSR1, SIGCHLD}) {
      EXPECT_NE(blocked & (std::uint64_t{1} << static_cast<unsigned>(signal - 1)), 0U) << signal;
    }
  }
  EXPECT_GE(others, 4U);
}

INSTANTIATE_TEST_SUITE_P(Backend, Lifecycle, ::testing::ValuesIn(backends_to_test()),
                         [](const auto& each) { return each.param; });

TEST(Drain, SecondSignalEndsTheDrainAndStillAnswersEverything) {
  // On the host: a GPU finishes what its slots hold before a second signal can arrive.
  daemon_options options{.backend = "host", .completion = "callback", .configuration = lifecycle_configuration};
  options.configuration.replace(options.configuration.find("max_frames = 8"), 14,
                                "max_frames = 64, max_bytes = \"8 MiB\"");
  options.configuration.replace(options.configuration.find("slots = 4"), 9, "slots = 4\nhost_threads = 1");
  options.configuration += slow_stage();
  daemon_process daemon(options);
  raw_peer peer(daemon.endpoint());
  peer.hello();
  constexpr std::uint64_t sent = 10;
  for (std::uint64_t id = 1; id <= sent; ++id) {
    peer.send(raw_submit::of_iq(id, 0, 64, 65536, 'x').parts());
  }
  // STATUS comes once the daemon has taken all of them; a few may be done by then. At the next result the worker has
  // just begun with another batch: a signal then has the whole of it to come in.
  peer.send_control(message_type::get_status, 0);
  std::uint64_t answers = 0;
  bool taken = false;
  for (bool begun = false; !begun;) {
    const auto message = peer.receive();
    ASSERT_TRUE(message) << answers << " of " << sent << " answered\n" << daemon.log();
    const bool is_status = message->header.type == message_type::status_report;
    begun = taken && !is_status;
    taken = taken || is_status;
    answers += is_status ? 0U : 1U;
  }
  ASSERT_LT(answers, sent) << "nothing is left to be cut short";
  daemon.signal(SIGTERM);
  daemon.signal(SIGINT);
  while (answers < sent) {
    ASSERT_TRUE(peer.receive()) << answers << " of " << sent << " answered\n" << daemon.log();
    ++answers;
  }
  EXPECT_EQ(daemon.wait(), 3) << daemon.log();
  EXPECT_THAT(daemon.log(), HasSubstr("drain cut short"));
}

TEST(Configuration, WrongOneEndsWithSeventyEightAndNamesThePlace) {
  std::string text = lifecycle_configuration;
  text.replace(text.find("\"power_spectrum\""), 16, "\"power_spektrum\"");
  const scratch_file file(text);
  std::string output;
  EXPECT_EQ(run_penstockd({"--config", file.path()}, output), 78);
  EXPECT_THAT(output, HasSubstr(file.path() + ":"));
  EXPECT_THAT(output, HasSubstr("'heavy'"));
  EXPECT_THAT(output, HasSubstr("'psd'"));
  EXPECT_THAT(output, HasSubstr("power_spectrum"));
}

TEST(Configuration, CheckAndPrintReadItWithoutServing) {
  const scratch_file file(lifecycle_configuration);
  std::string output;
  EXPECT_EQ(run_penstockd({"--config", file.path(), "--check-config"}, output), 0) << output;
  EXPECT_THAT(output, HasSubstr("good, 1 pipeline\n"));
  EXPECT_THAT(output, HasSubstr(": a batch has up to "));
  EXPECT_THAT(output, HasSubstr(" slots as large as the largest, and the states: "));
  ASSERT_EQ(run_penstockd({"--config", file.path(), "--print-config"}, output), 0) << output;
  EXPECT_THAT(output, HasSubstr("drain_timeout"));
  const scratch_file printed(output);
  std::string again;
  EXPECT_EQ(run_penstockd({"--config", printed.path(), "--print-config"}, again), 0);
  EXPECT_EQ(again, output);
}

TEST(Configuration, MissingFileIsAConfigurationError) {
  std::string output;
  EXPECT_EQ(run_penstockd({"--config", "/nonexistent/penstock.toml"}, output), 78);
  EXPECT_THAT(output, HasSubstr("/nonexistent/penstock.toml"));
}

TEST(Configuration, MorePipelinesThanAWelcomeHoldsEndWithSeventyEight) {
  std::string text = "config_version = 1\n[device]\nslots = 2\nstreams = 1\n";
  for (int index = 0; index < 1000; ++index) {
    text += "[[pipeline]]\nname = \"pipeline-" + std::to_string(index) +
            "\"\ninput = { dtype = \"f32\", shape = [4] }\n[[pipeline.stage]]\nname = \"y\"\nop = \"affine\"\n";
  }
  const scratch_file file(text);
  std::string output;
  EXPECT_EQ(run_penstockd({"--config", file.path(), "--backend", "host", "--listen", "ipc:///tmp/penstock-never",
                           "--admin", "none"},
                          output),
            78);
  EXPECT_THAT(output, HasSubstr("1000 pipelines"));
}

TEST(CommandLine, UnknownOptionIsAUsageError) {
  std::string output;
  EXPECT_EQ(run_penstockd({"--no-such-option"}, output), 64);
}

TEST(Endpoint, OneThatCannotBeBoundEndsWithSixtyNineAndIsNamed) {
  const scratch_file file(lifecycle_configuration);
  std::string output;
  EXPECT_EQ(run_penstockd({"--config", file.path(), "--backend", "host", "--listen", "ipc:///nonexistent/socket",
                           "--admin", "none"},
                          output),
            69);
  EXPECT_THAT(output, HasSubstr("ipc:///nonexistent/socket"));
}

}  // namespace
}  // namespace penstock::testing
