#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <istream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "daemon/settings/settings.hpp"

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

/// "[table] key" of each key that is set, one a line, in a text without arrays over several lines.
std::set<std::string> keys_set_in(std::istream& text) {
  std::set<std::string> keys;
  std::string table;
  for (std::string line; std::getline(text, line);) {
    const std::string first = line.substr(0, line.find(' '));
    if (first.starts_with('[')) {
      table = first + ' ';
    } else if (!first.empty() && !first.starts_with('#')) {
      keys.insert(table + first);
    }
  }
  return keys;
}

TEST_F(shipped_configuration, SetsEachKeyThatThereIs) {
  std::ifstream shipped(folder_ / "penstock.toml");
  const std::set<std::string> there = keys_set_in(shipped);
  std::istringstream printed(print_settings(load_settings(folder_ / "penstock.toml")));
  for (const std::string& key : keys_set_in(printed)) {
    EXPECT_EQ(there.count(key), 1U) << key;
  }
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
