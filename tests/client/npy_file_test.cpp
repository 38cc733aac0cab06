#include "client/cli/npy_file.hpp"

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/npy.hpp"
#include "client/cli/input_stream.hpp"

namespace penstock::cli {
namespace {

using ::testing::HasSubstr;

class NpyFile : public ::testing::Test {
 protected:
  NpyFile() : path_(std::filesystem::temp_directory_path() / ("penstock-npy-" + std::to_string(::getpid()) + ".npy")) {}
  ~NpyFile() override { std::filesystem::remove(path_); }

  [[nodiscard]] std::string content() const {
    std::ifstream in{path_, std::ios::binary};
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }

  std::filesystem::path path_;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span{text});
}

TEST_F(NpyFile, IsWholeAfterEachAppend) {
  const std::vector<std::int64_t> shape{2};
  npy_file file{path_, existing_file::replace, "i16", shape};
  EXPECT_EQ(content(), print_npy_header("<i2", 0, shape));
  file.append(bytes_of("abcd"));
  EXPECT_EQ(content(), print_npy_header("<i2", 1, shape) + "abcd");
  file.append(bytes_of("efghijkl"));
  EXPECT_EQ(content(), print_npy_header("<i2", 3, shape) + "abcdefghijkl");
}

TEST_F(NpyFile, RefusesPartsOfFrames) {
  const std::vector<std::int64_t> shape{2};
  npy_file file{path_, existing_file::replace, "i16", shape};
  EXPECT_THROW(file.append(bytes_of("abcde")), std::runtime_error);
}

TEST_F(NpyFile, MissingFramesAreNanOrZero) {
  const std::vector<std::int64_t> shape{2};
  {
    npy_file file{path_, existing_file::replace, "f32", shape};
    file.append_missing(1);
  }
  std::array<float, 2> numbers{};
  std::memcpy(numbers.data(), content().data() + 128, sizeof numbers);
  EXPECT_TRUE(numbers[0] != numbers[0] && numbers[1] != numbers[1]);
  npy_file file{path_, existing_file::replace, "i32", shape};
  file.append_missing(2);
  EXPECT_EQ(content(), print_npy_header("<i4", 2, shape) + std::string(16, '\0'));
}

TEST_F(NpyFile, MissingFramesOfEveryDtypeAreNanOrZero) {
  const std::vector<std::int64_t> shape{2};
  const std::map<std::string, std::string> missing{{"u8", std::string(1, '\0')},
                                                   {"u16", std::string(2, '\0')},
                                                   {"i64", std::string(8, '\0')},
                                                   {"bool", std::string(1, '\0')},
                                                   {"f16", {"\x00\x7e", 2}},
                                                   {"bf16", {"\xc0\x7f", 2}},
                                                   {"f64", {"\0\0\0\0\0\0\xf8\x7f", 8}},
                                                   {"c64", {"\0\0\xc0\x7f\0\0\xc0\x7f", 8}}};
  for (const auto& [dtype, item] : missing) {
    const std::vector<std::byte> frame = missing_frame(dtype, shape);
    EXPECT_EQ((std::string{reinterpret_cast<const char*>(frame.data()), frame.size()}), item + item) << dtype;
  }
}

TEST_F(NpyFile, HasADescriptorForEveryDtype) {
  const std::vector<std::int64_t> shape{2};
  const std::map<std::string, std::string> descriptors{{"u8", "|u1"},  {"u16", "<u2"}, {"i8", "|i1"},  {"i16", "<i2"},
                                                       {"i32", "<i4"}, {"i64", "<i8"}, {"f16", "<f2"}, {"bf16", "<V2"},
                                                       {"f32", "<f4"}, {"f64", "<f8"}, {"c64", "<c8"}, {"bool", "|b1"}};
  for (const auto& [dtype, descriptor] : descriptors) {
    { const npy_file file{path_, existing_file::replace, dtype, shape}; }
    EXPECT_EQ(content(), print_npy_header(descriptor, 0, shape));
    stop_event stop;
    input_stream in{path_.string(), stop};
    EXPECT_EQ(read_npy_format(in).dtype, dtype);
  }
}

TEST_F(NpyFile, DoesNotReplaceAFileUnlessTold) {
  const std::vector<std::int64_t> shape{2};
  const npy_file first{path_, existing_file::keep, "u8", shape};
  EXPECT_THROW((npy_file{path_, existing_file::keep, "u8", shape}), std::runtime_error);
  EXPECT_NO_THROW((npy_file{path_, existing_file::replace, "u8", shape}));
}

TEST_F(NpyFile, NamesTheFileThatItCannotWrite) {
  try {
    const npy_file file{"/nowhere/at/all.npy", existing_file::keep, "u8", {}};
    FAIL() << "it was written";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/at/all.npy"));
  }
}

TEST_F(NpyFile, HeaderOfManyDimensionsIsRefusedWhateverItsLength) {
  std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  while (dictionary.size() < 65'000) {
    dictionary += "1,";
  }
  dictionary += "), }";
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dictionary.size() & 0xFFU);
  header += static_cast<char>(dictionary.size() >> 8U);
  std::ofstream(path_, std::ios::binary) << header << dictionary;
  stop_event stop;
  input_stream in{path_.string(), stop};
  try {
    static_cast<void>(read_npy_format(in));
    FAIL() << "it was read";
  } catch (const input_error& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("more than 64 dimensions"));
  }
}

}  // namespace
}  // namespace penstock::cli
