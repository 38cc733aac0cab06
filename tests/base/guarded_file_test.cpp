#include "base/guarded_file.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>

#include "base/configuration_error.hpp"
#include "base/sha256.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class GuardedFolder : public ::testing::Test {
 protected:
  GuardedFolder() {
    fs::create_directory(path() / "math");
    write("a.h", "1");
    write("math/b.h", "2");
  }
  [[nodiscard]] const fs::path& path() const { return folder_.path(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path() / name) << text;
    fs::permissions(path() / name, fs::perms::owner_read | fs::perms::owner_write);
  }
  [[nodiscard]] std::string state() const { return guarded_folder_state(path(), 10); }

  testing::temporary_folder folder_;
};

TEST_F(GuardedFolder, HasAnotherStateOnceAFileChanges) {
  const std::string before = state();
  EXPECT_EQ(state(), before);
  write("math/b.h", "22");
  const std::string changed = state();
  EXPECT_NE(changed, before);
  write("c.h", "");
  EXPECT_NE(state(), changed);
}

TEST_F(GuardedFolder, IsRefusedWhereOthersCanWrite) {
  fs::permissions(path() / "math/b.h", fs::perms::others_write, fs::perm_options::add);
  EXPECT_THROW((void)state(), configuration_error);
  fs::permissions(path() / "math/b.h", fs::perms::others_write, fs::perm_options::remove);
  fs::permissions(path() / "math", fs::perms::group_write, fs::perm_options::add);
  EXPECT_THROW((void)state(), configuration_error);
}

TEST_F(GuardedFolder, IsRefusedWhereALinkLeadsToOthers) {
  const testing::temporary_folder other;
  std::ofstream(other.path() / "b.h") << "3";
  fs::permissions(other.path() / "b.h", fs::perms::owner_read);
  fs::create_symlink(other.path() / "b.h", path() / "link.h");
  EXPECT_NO_THROW((void)state());
  fs::permissions(other.path(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_THROW((void)state(), configuration_error);
}

TEST_F(GuardedFolder, IsRefusedWithTooManyFiles) {
  EXPECT_THROW((void)guarded_folder_state(path(), 2), configuration_error);
}

TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace penstock
