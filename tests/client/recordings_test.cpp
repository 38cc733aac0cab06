#include "client/cli/recordings.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/sigmf.hpp"

namespace penstock::cli {
namespace {

using ::testing::ElementsAre;

/// Recordings of a pipeline with frames of eight samples and two outputs: as many samples, and a spectrum of five.
class Recordings : public ::testing::Test {
 protected:
  Recordings() {
    folder_ = std::filesystem::temp_directory_path() / ("penstock-recordings-" + std::to_string(::getpid()));
    pipeline_.name = "p";
    pipeline_.input = {.name = "input", .dtype = "f32", .element = "f32", .shape = {8}, .op = ""};
    pipeline_.outputs = {{.name = "same", .dtype = "f32", .element = "f32", .shape = {8}, .op = "affine"},
                         {.name = "psd", .dtype = "f32", .element = "f32", .shape = {5}, .op = "power_spectrum"}};
    made_.emplace(recordings::settings{.to = folder_}, pipeline_);
  }
  ~Recordings() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] published item(std::uint32_t publisher, std::uint64_t lost = 0,
                               std::optional<std::int64_t> index = std::nullopt) {
    std::vector<tensor_view> views{{.name = "same",
                                    .dtype = "f32",
                                    .bytes = std::as_bytes(std::span(numbers_)),
                                    .extents = {1, 8},
                                    .dimensions = 2,
                                    .index = index.value_or(0)},
                                   {.name = "psd",
                                    .dtype = "f32",
                                    .bytes = std::as_bytes(std::span(numbers_).first(5)),
                                    .extents = {1, 5},
                                    .dimensions = 2,
                                    .index = index.value_or(0)}};
    result outputs{1, 1, std::move(views), nullptr};
    if (index) {
      outputs.set_account(sample_account::at(*index));
    }
    return {.outputs = std::move(outputs),
            .session = "s",
            .client = "c",
            .pipeline = "p",
            .publisher = publisher,
            .lost = lost};
  }
  [[nodiscard]] std::vector<std::string> files() {
    made_->close();
    std::vector<std::string> names;
    for (const auto& each : std::filesystem::directory_iterator(folder_)) {
      if (each.path().extension() == ".sigmf-meta") {
        names.push_back(each.path().stem().string());
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  [[nodiscard]] sigmf_meta read(const std::string& stem) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / (stem + ".sigmf-meta")).rdbuf();
    return parse_sigmf(std::move(text).str());
  }

  std::filesystem::path folder_;
  pipeline_info pipeline_;
  std::optional<recordings> made_;
  std::array<float, 8> numbers_{};
};

TEST_F(Recordings, SessionThatIsOpenedAgainGoesOnWithACapture) {
  EXPECT_TRUE(made_->take(item(1, 0, 0), 0));
  EXPECT_TRUE(made_->take(item(2, 0, 0), 0));
  EXPECT_THAT(files(), ElementsAre("s.psd", "s.same"));
  EXPECT_EQ(read("s.same").captures.size(), 2U);
}

TEST_F(Recordings, SessionsOfOneNameAtATimeHaveTheirOwn) {
  EXPECT_TRUE(made_->take(item(1, 0, 0), 0));
  EXPECT_TRUE(made_->take(item(1, 0, 0), 1)) << "of another shard";
  EXPECT_TRUE(made_->take(item(1, 0, 8), 0));
  EXPECT_TRUE(made_->take(item(1, 0, 8), 1));
  EXPECT_THAT(files(), ElementsAre("s.psd", "s.psd-2", "s.same", "s.same-2"));
}

TEST_F(Recordings, LostResultsAreAGap) {
  EXPECT_TRUE(made_->take(item(1), 0));
  EXPECT_TRUE(made_->take(item(1), 0));
  EXPECT_TRUE(made_->take(item(1, 3), 0));
  EXPECT_TRUE(made_->take(item(2, 0, 0), 0));
  EXPECT_TRUE(made_->take(item(2, 1, 16), 0)) << "its index says how many";
  EXPECT_EQ(made_->lost(), 4U);
  (void)files();
  const sigmf_meta meta = read("s.same");
  ASSERT_EQ(meta.captures.size(), 4U);
  EXPECT_EQ(meta.captures[1].sample_start, 16U);
  EXPECT_EQ(meta.captures[3].global_index, 16U);
  ASSERT_EQ(meta.annotations.size(), 1U);
  EXPECT_NE(meta.annotations[0].find("3 blocks"), std::string::npos) << meta.annotations[0];
}

TEST_F(Recordings, SpectrumIsASampleOfManyChannels) {
  EXPECT_TRUE(made_->take(item(1, 0, 80), 0));
  EXPECT_TRUE(made_->take(item(1, 0, 88), 0));
  EXPECT_THAT(files(), ElementsAre("s.psd", "s.same"));
  EXPECT_EQ(read("s.psd").channels, 5U);
  ASSERT_EQ(read("s.psd").captures.size(), 1U);
  EXPECT_EQ(read("s.psd").captures[0].global_index, 10U);
}

}  // namespace
}  // namespace penstock::cli
