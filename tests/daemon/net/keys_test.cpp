#include "daemon/net/keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/guarded_file.hpp"
#include "daemon/pipeline/declaration.hpp"
#include "tests/daemon/net/key_folder.hpp"

namespace penstock {
namespace {

using testing::key_folder;
using testing::key_pair;

curve_public_key bytes_of(const key_pair& pair) {
  return parse_curve_key(pair.public_key()).value();
}

TEST(AuthorizedKeys, FindsTheNameBehindAKey) {
  const key_pair one;
  const key_pair two;
  const auto list = authorized_keys::parse(
      "# people\n\n  " + one.public_key() + "\t the radio on the roof \r\n#\n" + two.public_key(), "list");
  EXPECT_EQ(list.size(), 2U);
  EXPECT_EQ(list.find(bytes_of(one)), "the radio on the roof");
  EXPECT_EQ(list.find(bytes_of(two)), "");
  EXPECT_EQ(list.find(bytes_of(key_pair())), std::nullopt);
}

TEST(AuthorizedKeys, NeedsNoKeyThatBeginsLikeAComment) {
  EXPECT_EQ(parse_curve_key("#" + std::string(39, '0')), std::nullopt) << "what it stands for has more than 32 bits";
}

TEST(AuthorizedKeys, NeverShowsALinesContents) {
  const key_pair pair;
  try {
    (void)authorized_keys::parse(pair.secret_key() + "x", "list");
    FAIL() << "it was taken";
  } catch (const configuration_error& error) {
    EXPECT_THAT(error.what(), ::testing::StartsWith("list:1: "));
    EXPECT_THAT(error.what(), ::testing::Not(::testing::HasSubstr(pair.secret_key())));
  }
}

TEST(AuthorizedKeys, KeepsControlCharactersOutOfTheLog) {
  const key_pair pair;
  const auto list = authorized_keys::parse(pair.public_key() + " a\x1b[31mb", "list");
  EXPECT_EQ(list.find(bytes_of(pair)), "a?[31mb");
}

TEST(Keyring, KeepsItsListWhenTheNewOneIsWrong) {
  const key_folder folder;
  const key_pair server;
  const key_pair first;
  const key_pair second;
  keyring keys(folder.write("server.key", server.secret_key()), folder.write("list", first.public_key()));
  EXPECT_THROW(keys.reload_authorized_keys(folder.write("wrong", "nonsense")), configuration_error);
  EXPECT_THROW(keys.reload_authorized_keys(folder.write("open", second.public_key(), 0666)), configuration_error);
  EXPECT_TRUE(keys.authorized()->find(bytes_of(first)));
  keys.reload_authorized_keys(folder.write("list", second.public_key()));
  EXPECT_FALSE(keys.authorized()->find(bytes_of(first)));
  EXPECT_TRUE(keys.authorized()->find(bytes_of(second)));
}

struct mode_case {
  mode_t mode;
  bool secret;   // taken as a secret file
  bool trusted;  // taken as a trusted one
};

class Modes : public ::testing::TestWithParam<mode_case> {};

TEST_P(Modes, DecideWhoMayTouchTheFile) {
  const testing::key_folder folder;
  const auto file = folder.write("f", "text", GetParam().mode);
  for (const file_guard guard : {file_guard::secret, file_guard::trusted}) {
    const bool taken = guard == file_guard::secret ? GetParam().secret : GetParam().trusted;
    if (taken) {
      EXPECT_EQ(read_guarded_file(file, guard, 1024), "text");
    } else {
      EXPECT_THROW((void)read_guarded_file(file, guard, 1024), configuration_error);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(GuardedFile, Modes,
                         ::testing::Values(mode_case{0600, true, true}, mode_case{0400, true, true},
                                           mode_case{0700, true, true}, mode_case{0644, false, true},
                                           mode_case{0640, false, true}, mode_case{0604, false, true},
                                           mode_case{0610, false, true}, mode_case{0601, false, true},
                                           mode_case{0620, false, false}, mode_case{0602, false, false},
                                           mode_case{0664, false, false}, mode_case{0666, false, false}));

TEST(GuardedFile, RefusesWhatIsFarTooLarge) {
  const testing::key_folder folder;
  const auto file = folder.write("f", std::string((1U << 20U) + 1, 'x'));
  EXPECT_THROW((void)read_guarded_file(file, file_guard::secret, 1024), configuration_error);
}

TEST(GuardedFile, NamesFileAndModeInItsRefusal) {
  const testing::key_folder folder;
  const auto file = folder.write("f", "text", 0644);
  try {
    (void)read_guarded_file(file, file_guard::secret, 1024);
    FAIL() << "it was taken";
  } catch (const configuration_error& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr(file.string()), ::testing::HasSubstr("mode 0644"),
                                               ::testing::HasSubstr("chmod 600")));
  }
}

}  // namespace
}  // namespace penstock
