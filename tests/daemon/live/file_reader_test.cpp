#include "daemon/live/file_reader.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sndfile.h>
#include <unistd.h>

#include "base/descriptors.hpp"
#include "base/npy.hpp"
#include "base/sigmf.hpp"
#include "base/sound_file.hpp"

namespace penstock::live {
namespace {

using clock = std::chrono::steady_clock;
using testing::HasSubstr;

/// Takes the samples of one stream, as bytes by their index.
class kept_samples final : public sample_receiver {
 public:
  struct taken_run {
    std::int64_t at = 0;
    std::size_t bytes = 0;
    std::int64_t time_ns = 0;
    time_quality quality = time_quality::none;
  };

  std::optional<stream_number> stream(std::string_view /*name*/) override { return 0; }
  void samples(stream_number /*stream*/, const sample_run& run) override {
    all.append(reinterpret_cast<const char*>(run.bytes.data()), run.bytes.size());
    runs.push_back({run.at.value_or(-1), run.bytes.size(), run.time_ns, run.quality});
  }
  std::span<std::byte> room(stream_number /*stream*/) override { return {}; }
  void loss(stream_number /*stream*/, loss_kind /*kind*/, std::uint64_t /*samples*/) override {}
  void epoch(stream_number /*stream*/, std::string_view /*why*/) override { epochs.push_back(runs.size()); }
  void duplicate(stream_number /*stream*/, std::uint64_t /*samples*/) override {}
  void suspect(stream_number /*stream*/) override {}
  void malformed(std::string_view /*why*/) override {}
  void connected(bool /*stands*/, std::string_view /*what*/) override {}

  std::string all;
  std::vector<taken_run> runs;
  std::vector<std::size_t> epochs;  ///< runs before each
};

class FileReader : public ::testing::Test {
 protected:
  FileReader() {
    folder_ = std::filesystem::temp_directory_path() / ("penstock-file-reader-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    source_.type = source_type::file;
    source_.position.file = (folder_ / "penstock.toml").string();
    source_.pipeline = "p";
    source_.pace.times = 0;
    take({element_type::i16, {100}, true});
  }
  ~FileReader() override { std::filesystem::remove_all(folder_); }

  void take(const tensor_spec& input) {
    source_.input = input;
    source_.dtype = input.type;
    source_.block = input.shape.front();
    source_.sample_bytes = input.bytes() / static_cast<std::size_t>(source_.block);
  }
  void write(const std::string& name, const std::string& bytes) {
    source_.path = name;
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  static std::string numbers(std::size_t count) {
    std::string bytes(count * 2, '\0');
    for (std::size_t each = 0; each < count; ++each) {
      const auto value = static_cast<std::int16_t>(each * 7);
      std::memcpy(bytes.data() + each * 2, &value, sizeof value);
    }
    return bytes;
  }
  void read_all(double* rate = nullptr) {
    double own = 0;
    const auto reader = make_file_reader(source_, rate != nullptr ? *rate : own);
    for (;;) {
      const clock::time_point now = clock::now();
      const read_progress progress = reader->read(into_, now, now + std::chrono::milliseconds{5});
      if (progress == read_progress::ended) {
        return;
      }
      ASSERT_NE(progress, read_progress::failed) << reader->failure();
    }
  }
  std::string complaint() {
    try {
      double rate = 0;
      (void)make_file_reader(source_, rate);
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

  std::filesystem::path folder_;
  source_declaration source_;
  kept_samples into_;
};

TEST_F(FileReader, ReadsRawSamplesAndLeavesOutAHalfOne) {
  write("x.raw", numbers(1234) + "\x01");
  read_all();
  EXPECT_EQ(into_.all, numbers(1234));
  EXPECT_EQ(into_.runs[1].at, 100);
}

TEST_F(FileReader, ReadsArraysOfNumpy) {
  const std::vector<std::int64_t> none;
  write("x.npy", print_npy_header("<i2", 500, none) + numbers(500));
  read_all();
  EXPECT_EQ(into_.all, numbers(500));
  write("y.npy", print_npy_header("<i4", 250, none) + numbers(500));
  EXPECT_THAT(complaint(), HasSubstr("it holds \"<i4\" [250], and pipeline 'p' takes i16[max 100]"));
}

TEST_F(FileReader, ReadsSoundWithItsRate) {
  source_.path = "x.flac";
  SF_INFO info{};
  info.samplerate = 48000;
  info.channels = 2;
  info.format = SF_FORMAT_FLAC | SF_FORMAT_PCM_16;
  SNDFILE* const file = sf_open((folder_ / "x.flac").c_str(), SFM_WRITE, &info);
  ASSERT_NE(file, nullptr);
  const std::string sent = numbers(2000);
  std::vector<short> values(2000);
  std::memcpy(values.data(), sent.data(), sent.size());
  EXPECT_EQ(sf_writef_short(file, values.data(), 1000), 1000);
  sf_close(file);
  EXPECT_THAT(complaint(), HasSubstr("it holds i16 in 2 channels"));
  take({element_type::i16, {100, 2}, true});
  double rate = 0;
  read_all(&rate);
  EXPECT_EQ(rate, 48000);
  EXPECT_EQ(into_.all, sent);
}

TEST_F(FileReader, ReadsARecordingWithItsGapsAndTimes) {
  source_.path = "x.sigmf-meta";
  {
    sigmf_meta meta;
    meta.datatype = "ri16_le";
    meta.sample_rate = 1000;
    sigmf_writer writer(folder_ / "x.sigmf-meta", meta);
    const std::string sent = numbers(300);
    const auto bytes = std::as_bytes(std::span(sent));
    sigmf_capture capture;
    capture.global_index = 5000;
    capture.time_ns = 77;
    writer.begin(capture);
    writer.append(bytes.first(300));
    capture.global_index = 6000;
    capture.time_ns = std::nullopt;
    writer.begin(capture);
    writer.append(bytes.last(300));
  }
  double rate = 0;
  read_all(&rate);
  EXPECT_EQ(rate, 1000);
  EXPECT_EQ(into_.all, numbers(300));
  EXPECT_EQ(into_.runs[0].at, 5000);
  EXPECT_EQ(into_.runs[0].time_ns, 77);
  EXPECT_EQ(into_.runs[0].quality, time_quality::source);
  EXPECT_EQ(into_.runs[1].at, 5100);
  EXPECT_EQ(into_.runs[1].bytes, 100U) << "a run ends where the capture does";
  EXPECT_EQ(into_.runs[2].at, 6000);
  EXPECT_EQ(into_.runs[2].quality, time_quality::none);
}

TEST_F(FileReader, IndexThatFallsBackBeginsAnEpoch) {
  source_.path = "x.sigmf-meta";
  {
    sigmf_meta meta;
    meta.datatype = "ri16_le";
    sigmf_writer writer(folder_ / "x.sigmf-meta", meta);
    const std::string sent = numbers(200);
    for (const std::uint64_t index : {5000U, 7U}) {
      sigmf_capture capture;
      capture.global_index = index;
      writer.begin(capture);
      writer.append(std::as_bytes(std::span(sent)).first(200));
    }
  }
  read_all();
  EXPECT_EQ(into_.epochs, std::vector<std::size_t>{1});
  EXPECT_EQ(into_.runs[1].at, 7);
}

TEST_F(FileReader, KeepsItsPaceByTheClockThatItIsGiven) {
  write("x.raw", numbers(3000));
  source_.pace.times = 2;
  EXPECT_THAT(complaint(), HasSubstr("its sample rate is not known"));
  double rate = 1000;  // so 2000 a second
  const auto reader = make_file_reader(source_, rate);
  const clock::time_point begin = clock::now();
  std::int64_t samples = 0;
  for (clock::time_point now = begin; now < begin + std::chrono::milliseconds{500};
       now += std::chrono::milliseconds{1}) {
    while (reader->read(into_, now, now) == read_progress::some) {
    }
    samples = static_cast<std::int64_t>(into_.all.size() / 2);
    const auto due = std::chrono::duration_cast<std::chrono::milliseconds>(now - begin).count() * 2;
    ASSERT_LE(samples, due);
    ASSERT_GE(samples, due - 8);
    ASSERT_GT(reader->wanted_at(), now);
  }
  EXPECT_GE(samples, 990);
}

TEST_F(FileReader, SaysWhatIsWrong) {
  source_.path = "gone.raw";
  EXPECT_THAT(complaint(), HasSubstr("gone.raw: can't be opened: No such file"));
  write("x.sigmf-meta", "{}");
  EXPECT_THAT(complaint(), HasSubstr("x.sigmf-meta: it is no JSON object"));
  write("x.sigmf-data", "");
  EXPECT_THAT(complaint(), HasSubstr("name the .sigmf-meta file"));
}

// libsndfile closes the descriptor of what it can't read: by then another thread may have its number.
TEST(SoundFile, LeavesTheDescriptorToItsOwner) {
  const file_descriptor empty(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_THROW(sound_file(empty.number()), sound_error);
  EXPECT_NE(::fcntl(empty.number(), F_GETFD), -1);
}

}  // namespace
}  // namespace penstock::live
