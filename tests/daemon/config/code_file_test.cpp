#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>

#include "base/sha256.hpp"
#include "daemon/config/settings.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// A configuration with a stage of users' code, and the files beside it.
class CodeFile : public ::testing::Test {
 protected:
  CodeFile() {
    fs::create_directory(folder_.path() / "include");
    write("gain.cu", "source");
    write("include/gain.h", "header");
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name, std::ios::trunc) << text;
    fs::permissions(folder_.path() / name, fs::perms::owner_read | fs::perms::owner_write);
  }
  [[nodiscard]] settings read(const std::string& more = "include = ['include']",
                              const std::string& code = "allow = ['.']") const {
    const std::string text = "config_version = 1\n[code]\n" + code +
                             "\n[[pipeline]]\nname = 'p'\ninput = { dtype = 'f32', shape = [8] }\n"
                             "[[pipeline.stage]]\nname = 's'\nop = 'kernel'\nfile = 'gain.cu'\n"
                             "grid = ['frames']\nblock = [8]\nargs = ['in', 'out']\n" +
                             more;
    return parse_settings(text, (folder_.path() / "penstock.toml").string());
  }
  [[nodiscard]] std::string complaint(const std::string& more, const std::string& code = "allow = ['.']") const {
    try {
      (void)read(more, code);
    } catch (const configuration_error& error) {
      return error.what();
    }
    return "";
  }

  testing::temporary_folder folder_;
};

TEST_F(CodeFile, IsReadWithItsHeaders) {
  const settings made = read();
  const code_file& file = made.pipelines.front().stages.front().settings.code("file");
  EXPECT_EQ(file.name, "gain.cu");
  EXPECT_EQ(file.path, (folder_.path() / "gain.cu").string());
  EXPECT_EQ(file.text, "source");
  EXPECT_THAT(file.headers, HasSubstr("include/gain.h"));
}

TEST_F(CodeFile, MakesAnotherConfigurationOnceItChanges) {
  const settings before = read();
  EXPECT_EQ(configuration_hash(read()), configuration_hash(before));
  EXPECT_TRUE(same_pipeline(read().pipelines.front(), before.pipelines.front()));
  write("gain.cu", "other source");
  const settings after = read();
  EXPECT_EQ(print_settings(after), print_settings(before));
  EXPECT_NE(configuration_hash(after), configuration_hash(before));
  EXPECT_FALSE(same_pipeline(after.pipelines.front(), before.pipelines.front()));
  write("include/gain.h", "another header");
  EXPECT_NE(configuration_hash(read()), configuration_hash(after));
  EXPECT_FALSE(same_pipeline(read().pipelines.front(), after.pipelines.front()));
}

TEST_F(CodeFile, KeepsWholeNumbersOfItsStageWhole) {
  const std::string text = print_settings(read("values = { table = [1, 2.5], whole = [3, -4] }"));
  EXPECT_THAT(text, HasSubstr("\nblock = [8]\n"));
  EXPECT_THAT(text, HasSubstr("table = [1.0, 2.5]"));
  EXPECT_THAT(text, HasSubstr("whole = [3, -4]"));
}

TEST_F(CodeFile, MayHaveItsContentsFixed) {
  EXPECT_EQ(complaint("sha256 = '" + sha256_of("source") + "'"), "");
  EXPECT_THAT(complaint("sha256 = '" + sha256_of("other") + "'"), HasSubstr("stage 's', field 'sha256': is d"));
  EXPECT_THAT(complaint("sha256 = 'ABC'"), HasSubstr("allowed is the 64 digits that `sha256sum"));
}

TEST_F(CodeFile, IsNotReadThroughALinkOutOfWhatIsAllowed) {
  const testing::temporary_folder other;
  std::ofstream(other.path() / "gain.cu") << "source";
  fs::remove(folder_.path() / "gain.cu");
  fs::create_symlink(other.path() / "gain.cu", folder_.path() / "gain.cu");
  EXPECT_THAT(complaint(""), HasSubstr("which is " + fs::canonical(other.path() / "gain.cu").string()));
}

TEST_F(CodeFile, MayBeCachedInAFolder) {
  EXPECT_EQ(read("").code.cache, "auto");
  EXPECT_EQ(read("", "allow = ['.']\ncache = '/var/cache/x'").code.cache, "/var/cache/x");
  EXPECT_EQ(read("", "allow = ['.']\ncache = ''").code.cache, "");
  EXPECT_THAT(complaint("", "allow = ['.']\ncache = 'x'"), HasSubstr("field 'code.cache': \"x\" is given; allowed is"));
}

}  // namespace
}  // namespace penstock
