#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "daemon/config/settings.hpp"

namespace penstock {
namespace {

class shipped_configuration : public testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("PENSTOCK_CONFIG");
    if (folder == nullptr) {
      GTEST_SKIP() << "PENSTOCK_CONFIG does not say where the shipped configurations are";
    }
    folder_ = folder;
  }

  std::filesystem::path folder_;
};

TEST_F(shipped_configuration, IsAcceptedFileByFile) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().extension() == ".toml") {
      EXPECT_NO_THROW((void)load_settings(entry.path())) << entry.path();
      ++files;
    }
  }
  EXPECT_GE(files, 2);
}

TEST_F(shipped_configuration, ReadsBackAsItIsPrinted) {
  for (const char* name : {"penstock.toml", "minimal.toml"}) {
    const std::string text = print_settings(load_settings(folder_ / name));
    EXPECT_EQ(print_settings(parse_settings(text, "printed.toml")), text);
  }
}

TEST_F(shipped_configuration, GivesTheDefaultsThatTheDaemonHas) {
  settings shipped = load_settings(folder_ / "penstock.toml");
  settings minimal = load_settings(folder_ / "minimal.toml");
  shipped.pipelines.clear();
  minimal.pipelines.clear();
  EXPECT_EQ(print_settings(shipped), print_settings(minimal));
}

TEST_F(shipped_configuration, SaysOfEachSettingWhatTheTableOfSettingsSays) {
  std::ifstream stream(folder_ / "penstock.toml");
  const std::string shipped{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_NE(shipped.find(print_manual(manual_format::toml)), std::string::npos)
      << "put in what penstockd --print-settings prints";
}

/// One to four random edits: a letter replaced, a stretch dropped, a stretch said again.
std::string damaged(std::string text, std::mt19937& random) {
  for (std::size_t edits = 1 + random() % 4; edits > 0; --edits) {
    const std::size_t at = random() % text.size();
    const std::size_t length = random() % 40;
    switch (random() % 3) {
      case 0:
        text[at] = static_cast<char>(random() % 256);
        break;
      case 1:
        text.erase(at, length);
        break;
      default:
        text.insert(random() % text.size(), text.substr(at, length));
    }
  }
  return text;
}

TEST_F(shipped_configuration, WhenDamagedIsReadOrRefusedWithItsFile) {
  std::mt19937 random(20240607);
  std::ifstream stream(folder_ / "penstock.toml");
  std::ostringstream text;
  text << stream.rdbuf();
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    try {
      (void)parse_settings(damaged(text.str(), random), "damaged.toml");
    } catch (const configuration_error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("damaged.toml", 0), 0U) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST_F(shipped_configuration, HasAPipelineForEachKindOfRecording) {
  std::map<std::string, std::string> inputs;
  for (const pipeline_declaration& pipeline : load_settings(folder_ / "penstock.toml").pipelines) {
    inputs[pipeline.name] = pipeline.input.text();
  }
  const std::map<std::string, std::string> expected{{"spectrum", "cu8[1024]"},
                                                    {"modes", "cu8[1024]"},
                                                    {"voice", "i16[1024]"},
                                                    {"ecg", "i16[1024, 2]"},
                                                    {"temperature", "f32[256]"}};
  EXPECT_EQ(inputs, expected);
}

}  // namespace
}  // namespace penstock
