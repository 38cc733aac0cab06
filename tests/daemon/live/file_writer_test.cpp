#include "daemon/live/file_writer.hpp"

#include <deque>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.hpp"
#include "base/sigmf.hpp"
#include "base/whole_file.hpp"

namespace penstock::live {
namespace {

class FileWriter : public ::testing::Test {
 protected:
  FileWriter() { std::filesystem::create_directories(folder_); }
  ~FileWriter() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::string text(const std::string& name) const { return read_whole_file(path(name), 1 << 20); }
  /// An output f32[2] with these bytes, in a file.
  result_message message(const std::string& name, std::string_view bytes) {
    names_.push_back(path(name));
    result_message made;
    made.name = names_.back();
    made.element = "f32";
    made.item_bytes = 8;
    made.unit_bytes = 8;
    made.item_rate = 1000;
    made.bytes = std::as_bytes(std::span(bytes));
    return made;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("file_writer_test-" + std::to_string(::getpid()));
  std::deque<std::string> names_;
};

TEST_F(FileWriter, GoesOnBehindTheLastWholeResult) {
  { std::ofstream(path("x")) << "01234567abc"; }
  const auto writer = make_file_writer();
  EXPECT_EQ(writer->write(message("x", "ABCDEFGHIJKLMNOP")), write_progress::written);
  EXPECT_EQ(writer->write(message("deep/er/y", "ABCDEFGH")), write_progress::written);
  EXPECT_EQ(text("x"), "01234567ABCDEFGHIJKLMNOP");
  EXPECT_EQ(text("deep/er/y"), "ABCDEFGH");
}

TEST_F(FileWriter, SaysWhatIsWrong) {
  const auto writer = make_file_writer();
  ASSERT_EQ(writer->write(message("x", "ABCDEFGH")), write_progress::written);
  EXPECT_EQ(writer->write(message("x/y", "ABCDEFGH")), write_progress::failed);
  EXPECT_EQ(writer->failure(), "can't open " + path("x/y") + ": Not a directory");
}

TEST_F(FileWriter, DoesNotWaitForTheReaderOfAPipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const auto writer = make_file_writer();
  EXPECT_EQ(writer->write(message("pipe", "ABCDEFGH")), write_progress::failed);
  const file_descriptor reader(::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string sent(std::size_t{1} << 20U, 'x');
  std::string got;
  std::string part(4096, '\0');
  while (writer->write(message("pipe", sent)) == write_progress::full) {
    const ssize_t count = ::read(reader.number(), part.data(), part.size());
    ASSERT_GT(count, 0);
    got.append(part, 0, static_cast<std::size_t>(count));
  }
  for (ssize_t count = 1; (count = ::read(reader.number(), part.data(), part.size())) > 0;) {
    got.append(part, 0, static_cast<std::size_t>(count));
  }
  EXPECT_EQ(got, sent);
}

TEST_F(FileWriter, LeavesAFileToTheOneThatWritesIt) {
  for (const char* const name : {"x", "x.sigmf-meta"}) {
    const auto make = name == std::string("x") ? make_file_writer : make_recording_writer;
    auto first = make();
    const auto second = make();
    ASSERT_EQ(first->write(message(name, "ABCDEFGH")), write_progress::written);
    EXPECT_EQ(second->write(message(name, "IJKLMNOP")), write_progress::failed);
    EXPECT_NE(second->failure().find("another sink or program writes"), std::string_view::npos) << second->failure();
    first.reset();
    EXPECT_EQ(second->write(message(name, "IJKLMNOP")), write_progress::written);
  }
  EXPECT_EQ(text("x"), "ABCDEFGHIJKLMNOP");
  EXPECT_EQ(text("x.sigmf-data"), "ABCDEFGHIJKLMNOP");
}

TEST_F(FileWriter, HasMoreFilesThanAreOpen) {
  const auto writer = make_file_writer();
  for (int round = 0; round < 2; ++round) {
    for (std::size_t file = 0; file < most_open_files + 10; ++file) {
      ASSERT_EQ(writer->write(message(std::to_string(file), "ABCDEFGH")), write_progress::written);
    }
  }
  for (std::size_t file = 0; file < most_open_files + 10; ++file) {
    EXPECT_EQ(text(std::to_string(file)), "ABCDEFGHABCDEFGH");
  }
}

TEST_F(FileWriter, BeginsACaptureWithEachStretchOfARecording) {
  const auto write = [&](result_writer& writer, std::uint64_t offset, bool begins, std::optional<std::int64_t> time) {
    result_message next = message("a.sigmf-meta", "ABCDEFGHIJKLMNOP");
    next.offset = offset;
    next.knows_place = true;
    next.begins = begins;
    next.time_ns = time;
    EXPECT_EQ(writer.write(next), write_progress::written) << writer.failure();
  };
  {
    const auto writer = make_recording_writer();
    write(*writer, 100, true, 5'000'000'000);
    write(*writer, 102, false, 5'002'000'000);
    write(*writer, 110, true, std::nullopt);
  }
  {
    const auto writer = make_recording_writer();  // after a restart
    write(*writer, 112, false, std::nullopt);
    result_message other = message("a.sigmf-meta", "ABCDEFGH");
    other.item_rate = 2000;
    EXPECT_EQ(make_recording_writer()->write(other), write_progress::failed);
  }
  const sigmf_meta made = parse_sigmf(text("a.sigmf-meta"));
  EXPECT_EQ(made.datatype, "rf32_le");
  EXPECT_EQ(made.channels, 2U);
  EXPECT_EQ(made.sample_rate, 1000);
  ASSERT_EQ(made.captures.size(), 3U);
  EXPECT_EQ(made.captures[0].global_index, 100U);
  EXPECT_EQ(made.captures[0].time_ns, 5'000'000'000);
  EXPECT_EQ(made.captures[1].sample_start, 4U);
  EXPECT_EQ(made.captures[1].global_index, 110U);
  EXPECT_EQ(made.captures[2].sample_start, 6U);
  EXPECT_EQ(text("a.sigmf-data").size(), 64U);
}

}  // namespace
}  // namespace penstock::live
