#include "base/whole_file.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

/// A folder of its own, for one file.
class WholeFile : public ::testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream(file_, std::ios::binary) << text; }

  testing::temporary_folder kept_;
  const std::filesystem::path folder_ = kept_.path();
  const std::filesystem::path file_ = folder_ / "f";
};

TEST_F(WholeFile, IsReadToItsLastByte) {
  for (const std::size_t bytes : {0U, 1U, 4095U, 4096U, 1U << 20U}) {
    const std::string text(bytes, 'x');
    write(text);
    EXPECT_EQ(read_whole_file(file_, bytes), text) << bytes;
  }
}

TEST_F(WholeFile, IsRefusedWhenItIsTooLarge) {
  write(std::string((1U << 20U) + 1, 'x'));
  EXPECT_THAT([&] { (void)read_whole_file(file_, 1U << 20U); },
              ::testing::ThrowsMessage<file_refused>("is larger than 1 MiB"));
  EXPECT_THAT([&] { (void)read_whole_file(file_, 64U << 10U); },
              ::testing::ThrowsMessage<file_refused>("is larger than 64 KiB"));
}

TEST_F(WholeFile, IsNotWaitedForWhereThereIsNone) {
  EXPECT_THAT([&] { (void)read_whole_file(file_, 1); },
              ::testing::ThrowsMessage<file_refused>("can't be read: No such file or directory"));
  EXPECT_THAT([&] { (void)read_whole_file(folder_, 1); },
              ::testing::ThrowsMessage<file_refused>("can't be read: Is a directory"));
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT([&] { (void)read_whole_file(file_, 1); }, ::testing::ThrowsMessage<file_refused>("is no regular file"));
}

TEST_F(WholeFile, IsUnreadableWhenItGrowsOrShrinksMeanwhile) {
  for (const char* const later : {"much longer", "s"}) {
    write("first");
    whole_file opened(file_);
    write(later);
    EXPECT_THAT([&] { (void)opened.read(1000); },
                ::testing::ThrowsMessage<file_unreadable>(::testing::HasSubstr("was written while it was read")));
  }
}

TEST(KernelFile, IsReadThoughItHasNoSize) {
  EXPECT_THAT(read_kernel_file("/proc/self/status"), ::testing::HasSubstr("Pid:"));
  EXPECT_EQ(read_kernel_file("/nowhere"), "");
}

}  // namespace
}  // namespace penstock
