#include "daemon/service/process.hpp"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock {
namespace {

/// Device and inode of standard error, moved by `off`, as systemd writes them into the environment.
void say_that_the_journal_reads(ino_t off) {
  struct stat here {};
  ASSERT_EQ(::fstat(STDERR_FILENO, &here), 0);
  const std::string stream = std::to_string(here.st_dev) + ":" + std::to_string(here.st_ino + off);
  ::setenv("JOURNAL_STREAM", stream.c_str(), 1);
}

class Journal : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("JOURNAL_STREAM"); }
};

TEST_F(Journal, IsNotTakenForGrantedWithoutSystemd) {
  ::unsetenv("JOURNAL_STREAM");
  EXPECT_FALSE(journal_reads_stderr());
}

TEST_F(Journal, IsKnownByTheStreamThatSystemdNames) {
  say_that_the_journal_reads(0);
  EXPECT_TRUE(journal_reads_stderr());
}

TEST_F(Journal, IsNotMeantWhenStandardErrorWentElsewhere) {
  say_that_the_journal_reads(1);
  EXPECT_FALSE(journal_reads_stderr());
}

}  // namespace

}  // namespace penstock
