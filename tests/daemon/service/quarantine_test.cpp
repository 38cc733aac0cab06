#include "daemon/service/quarantine.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

pipeline_declaration declared(const std::string& name, const std::string& code) {
  pipeline_declaration made;
  made.name = name;
  made.input = {element_type::f32, {8}, false};
  stage_declaration stage;
  stage.name = "stage";
  stage.op = code.empty() ? "affine" : "kernel";
  if (!code.empty()) {
    stage.settings.set("file",
                       std::make_shared<const code_file>(code_file{.name = "x.cu", .path = "/x.cu", .text = code}));
  }
  made.stages.push_back(std::move(stage));
  return made;
}

class Quarantine : public ::testing::Test {
 protected:
  /// A daemon in whose time the device is lost with these.
  void die(const std::vector<std::string>& suspects) {
    quarantine one(folder_.path());
    settings served = settings_;
    one.apply(served);
    one.blame(served.pipelines, suspects, "cudaErrorIllegalAddress");
    one.blame(served.pipelines, suspects, "cudaErrorIllegalAddress");  // of another shard: the same death
  }
  [[nodiscard]] std::vector<std::string> refused() {
    quarantine one(folder_.path());
    settings served = settings_;
    one.apply(served);
    std::vector<std::string> names;
    for (const refused_pipeline& each : served.refused) {
      names.push_back(each.name);
    }
    EXPECT_EQ(served.pipelines.size() + names.size(), settings_.pipelines.size());
    return names;
  }
  [[nodiscard]] std::filesystem::path file() const { return folder_.path() / "suspects.json"; }

  testing::temporary_folder folder_;
  settings settings_ = [] {
    settings made;
    made.pipelines = {declared("a", "code"), declared("b", "code"), declared("plain", "")};
    return made;
  }();
};

TEST_F(Quarantine, BeginsAfterThreeDeaths) {
  die({"a"});
  die({"a", "b"});
  EXPECT_THAT(refused(), IsEmpty());
  die({"a", "plain"});
  EXPECT_THAT(refused(), ElementsAre("a"));
}

TEST_F(Quarantine, SaysWhyAndWhatToDo) {
  for (int death = 0; death < 3; ++death) {
    die({"a"});
  }
  quarantine one(folder_.path());
  one.apply(settings_);
  ASSERT_EQ(settings_.refused.size(), 1U);
  EXPECT_EQ(settings_.refused[0].stages, "stage 'stage'");
  EXPECT_EQ(settings_.refused[0].deaths, 3U);
  EXPECT_EQ(settings_.refused[0].error, "cudaErrorIllegalAddress");
  EXPECT_THAT(settings_.refused[0].reason, HasSubstr("pipeline 'a' is in quarantine: the device was lost 3 times"));
  EXPECT_THAT(settings_.refused[0].reason, HasSubstr(file().string()));
}

TEST_F(Quarantine, IsOfCodeAsItWas) {
  for (int death = 0; death < 3; ++death) {
    die({"a", "b"});
  }
  EXPECT_THAT(refused(), ElementsAre("a", "b"));
  settings_.pipelines[0] = declared("a", "other code");
  EXPECT_THAT(refused(), ElementsAre("b"));
  settings_.pipelines[1].batch.max_frames = 1;
  EXPECT_THAT(refused(), IsEmpty());
  die({"a"});
  die({"a"});
  EXPECT_THAT(refused(), IsEmpty()) << "another pipeline begins anew";
}

TEST_F(Quarantine, CountsAnewOnceThePipelineWorks) {
  die({"a"});
  die({"a"});
  {
    quarantine one(folder_.path());
    settings served = settings_;
    one.apply(served);
    EXPECT_TRUE(one.has_suspects());
    one.acquit(std::array<std::string, 1>{"a"});
    EXPECT_FALSE(one.has_suspects());
  }
  die({"a"});
  EXPECT_THAT(refused(), IsEmpty());
}

TEST_F(Quarantine, IsNoneForWhatDiesInThisLifeOrIsRefused) {
  die({"a"});
  quarantine one(folder_.path());
  settings served = settings_;
  one.apply(served);
  one.blame(served.pipelines, std::array<std::string, 1>{"a"}, "error");
  one.acquit(std::array<std::string, 1>{"a"});
  die({"a"});
  EXPECT_THAT(refused(), ElementsAre("a"));
  quarantine other(folder_.path());
  served = settings_;
  other.apply(served);
  other.acquit(std::array<std::string, 1>{"a"});
  EXPECT_THAT(refused(), ElementsAre("a"));
}

TEST_F(Quarantine, NeedsAPipelineToServe) {
  settings_.pipelines = {declared("a", "code")};
  for (int death = 0; death < 3; ++death) {
    die({"a"});
  }
  quarantine one(folder_.path());
  EXPECT_THROW(one.apply(settings_), configuration_error);
}

TEST_F(Quarantine, EndsWithItsFile) {
  for (int death = 0; death < 3; ++death) {
    die({"a"});
  }
  std::filesystem::remove(file());
  EXPECT_THAT(refused(), IsEmpty());
}

TEST_F(Quarantine, LeavesOutAFileThatOthersCanWriteOrThatIsNone) {
  for (int death = 0; death < 3; ++death) {
    die({"a"});
  }
  std::filesystem::permissions(file(), std::filesystem::perms::others_write, std::filesystem::perm_options::add);
  EXPECT_THAT(refused(), IsEmpty());
  std::ofstream(file(), std::ios::trunc) << "[1]";
  std::filesystem::permissions(file(), std::filesystem::perms::owner_all);
  EXPECT_THAT(refused(), IsEmpty());
}

TEST_F(Quarantine, CountsNothingWithoutAFolder) {
  for (int death = 0; death < 4; ++death) {
    quarantine one("");
    settings served = settings_;
    one.apply(served);
    one.blame(served.pipelines, std::array<std::string, 1>{"a"}, "error");
    EXPECT_EQ(served.pipelines.size(), 3U);
  }
}

}  // namespace
}  // namespace penstock
