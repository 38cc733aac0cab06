#include "daemon/code/code_cache.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CodeCache : public ::testing::Test {
 protected:
  CodeCache() { EXPECT_EQ(code_cache::prepare(path()), ""); }

  [[nodiscard]] fs::path path() const { return folder_.path() / "cache" / "code"; }
  [[nodiscard]] fs::path file(const std::string& key) const { return path() / (key + ".code"); }
  void set_age(const std::string& key, std::chrono::minutes age) const {
    fs::last_write_time(file(key), fs::file_time_type::clock::now() - age);
  }
  void change(const std::string& key, const std::string& text) const {
    std::ofstream(file(key), std::ios::binary | std::ios::trunc) << text;
  }
  [[nodiscard]] std::string contents(const std::string& key) const {
    std::ifstream in(file(key), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  testing::temporary_folder folder_;
};

TEST_F(CodeCache, FindsWhatItKept) {
  const std::string text = std::string("machine\0code\n", 13);
  const code_cache cache(path());
  EXPECT_FALSE(cache.find("a"));
  cache.keep("a", text);
  EXPECT_EQ(cache.find("a"), text);
  EXPECT_EQ(code_cache(path()).find("a"), text);
  EXPECT_FALSE(cache.find("b"));
}

TEST_F(CodeCache, BelongsToItsOwnerAlone) {
  code_cache(path()).keep("a", "code");
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(file("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(CodeCache, FindsNothingThatIsCutOrChanged) {
  const code_cache cache(path());
  cache.keep("a", "machine code");
  const std::string whole = contents("a");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    change("a", whole.substr(0, size));
    EXPECT_FALSE(cache.find("a")) << size;
  }
  change("a", whole.substr(0, whole.size() - 1) + "X");
  EXPECT_FALSE(cache.find("a"));
  cache.keep("a", "machine code");
  EXPECT_EQ(cache.find("a"), "machine code");
}

TEST_F(CodeCache, FindsNothingThatOthersCouldHaveWritten) {
  const code_cache cache(path());
  cache.keep("a", "code");
  fs::permissions(file("a"), fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(cache.find("a"));
  fs::permissions(file("a"), fs::perms::others_write, fs::perm_options::remove);
  EXPECT_TRUE(cache.find("a"));
  fs::permissions(path(), fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(cache.find("a"));
  cache.keep("b", "code");
  EXPECT_FALSE(fs::exists(file("b")));
  EXPECT_THAT(code_cache::prepare(path()), HasSubstr("others could put another file there"));
}

TEST_F(CodeCache, SaysThatItsFolderCannotBeMade) {
  change("a", "a file");
  EXPECT_THAT(code_cache::prepare(file("a") / "code"), HasSubstr("can't be made"));
}

TEST_F(CodeCache, RemovesWhatWasNotUsedForTheLongest) {
  const std::string text(1000, 'x');
  const code_cache cache(path(), 3500);
  for (const char* const key : {"a", "b", "c"}) {
    cache.keep(key, text);
  }
  set_age("a", std::chrono::minutes(1));
  set_age("b", std::chrono::minutes(3));
  set_age("c", std::chrono::minutes(2));
  EXPECT_TRUE(cache.find("b"));  // used now
  cache.keep("d", text);
  EXPECT_FALSE(cache.find("c"));
  EXPECT_TRUE(cache.find("a"));
  EXPECT_TRUE(cache.find("b"));
  EXPECT_TRUE(cache.find("d"));
}

TEST_F(CodeCache, RemovesPartsThatAKilledProcessLeft) {
  const fs::path old = path() / "a.code.abcdef.part";
  const fs::path fresh = path() / "b.code.abcdef.part";
  std::ofstream(old) << "half";
  std::ofstream(fresh) << "half";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  code_cache(path()).keep("c", "code");
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
}

TEST_F(CodeCache, MayBeSharedByDaemons) {
  constexpr int rounds = 200;
  const std::string text(5000, 'x');
  const auto use = [&] {
    const code_cache cache(path(), 12000);
    for (int round = 0; round < rounds; ++round) {
      const std::string key(1, static_cast<char>('a' + round % 4));
      if (const std::optional<std::string> found = cache.find(key)) {
        ASSERT_EQ(*found, text + key);
      }
      cache.keep(key, text + key);
    }
  };
  std::vector<std::jthread> daemons;
  for (int each = 0; each < 3; ++each) {
    daemons.emplace_back(use);
  }
}

TEST(code_cache, WithoutAFolderKeepsNothing) {
  const code_cache none("");
  none.keep("a", "code");
  EXPECT_FALSE(none.find("a"));
}

}  // namespace
}  // namespace penstock
