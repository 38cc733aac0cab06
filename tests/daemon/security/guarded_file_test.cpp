#include "daemon/security/guarded_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/pipeline/declaration.hpp"
#include "tests/daemon/security/key_folder.hpp"

namespace penstock {
namespace {

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
      EXPECT_EQ(read_guarded_file(file, guard), "text");
    } else {
      EXPECT_THROW((void)read_guarded_file(file, guard), configuration_error);
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
  EXPECT_THROW((void)read_guarded_file(file, file_guard::secret), configuration_error);
}

TEST(GuardedFile, NamesFileAndModeInItsRefusal) {
  const testing::key_folder folder;
  const auto file = folder.write("f", "text", 0644);
  try {
    (void)read_guarded_file(file, file_guard::secret);
    FAIL() << "it was taken";
  } catch (const configuration_error& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr(file.string()), ::testing::HasSubstr("mode 0644"),
                                               ::testing::HasSubstr("chmod 600")));
  }
}

}  // namespace
}  // namespace penstock
