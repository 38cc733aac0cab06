#include "daemon/security/authorized_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/pipeline/declaration.hpp"
#include "daemon/security/keyring.hpp"
#include "tests/daemon/security/key_folder.hpp"

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

}  // namespace
}  // namespace penstock
