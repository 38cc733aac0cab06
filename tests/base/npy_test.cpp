#include "base/npy.hpp"

#include <complex>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/npy_text.hpp"

namespace penstock {
namespace {

using numbers = std::vector<double>;
using extents = std::vector<std::int64_t>;

class npy : public testing::Test {
 protected:
  npy() : file_(std::filesystem::path(testing::TempDir()) / "penstock_npy_array_test.npy") {}
  ~npy() override { std::filesystem::remove(file_); }

  npy_array read(const std::string& text) {
    std::ofstream(file_, std::ios::binary) << text;
    return read_npy(file_);
  }
  std::string complaint_about(const std::string& text) {
    try {
      (void)read(text);
    } catch (const npy_error& error) {
      return error.what();
    }
    return "no complaint";
  }

  std::filesystem::path file_;
};

TEST_F(npy, ReadsSinglePrecision) {
  const auto given = read(
      npy_text("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", bytes_of<float>({1.5F, -2.25F, 0.1F})));
  EXPECT_EQ(given.shape, extents{3});
  EXPECT_FALSE(given.is_complex);
  EXPECT_EQ(given.real, (numbers{1.5, -2.25, static_cast<double>(0.1F)}));
  EXPECT_TRUE(given.imaginary.empty());
}

TEST_F(npy, ReadsDoublePrecisionRowByRow) {
  const auto given = read(
      npy_text("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", bytes_of<double>({0.1, 1, 2, 3, 4, 5})));
  EXPECT_EQ(given.shape, (extents{2, 3}));
  EXPECT_EQ(given.real, (numbers{0.1, 1, 2, 3, 4, 5}));
}

TEST_F(npy, ReadsShapesAsPythonAndItsPredecessorWriteThem) {
  for (const char* shape : {"(2L, 1L)", "(2 , 1)", "( 2,1, )"}) {
    const auto given = read(npy_text(std::string("{'descr': '<f8', 'fortran_order': False, 'shape': ") + shape + ", }",
                                     bytes_of<double>({0.1, 1})));
    EXPECT_EQ(given.shape, (extents{2, 1})) << shape;
  }
}

TEST_F(npy, ReadsComplexNumbersOfBothPrecisions) {
  const auto single = read(npy_text("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }",
                                    bytes_of<std::complex<float>>({{1, -2}, {0.5, 4}})));
  EXPECT_TRUE(single.is_complex);
  EXPECT_EQ(single.real, (numbers{1, 0.5}));
  EXPECT_EQ(single.imaginary, (numbers{-2, 4}));
  const auto twice = read(npy_text("{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }",
                                   bytes_of<std::complex<double>>({{0.1, -0.2}})));
  EXPECT_EQ(twice.real, numbers{0.1});
  EXPECT_EQ(twice.imaginary, numbers{-0.2});
}

TEST_F(npy, ReadsTheLongHeaderOfVersionTwo) {
  std::string text("\x93NUMPY\x02\x00\x74\x00\x00\x00", 12);
  text += "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }";
  text.resize(127, ' ');
  EXPECT_EQ(read(text + '\n' + bytes_of<double>({7})).real, numbers{7});
}

TEST_F(npy, TakesColumnOrderWhereThereIsOneDimension) {
  EXPECT_EQ(read(npy_text("{'descr': '<f8', 'fortran_order': True, 'shape': (1,), }", bytes_of<double>({7}))).real,
            numbers{7});
}

TEST_F(npy, RefusesWhatIsNoNpyFile) {
  EXPECT_EQ(complaint_about(""), "it is not a .npy file");
  EXPECT_EQ(complaint_about("1, 2, 3, 4, 5"), "it is not a .npy file");
  EXPECT_EQ(complaint_about(std::string("\x93NUMPY\x04\x00\x76\x00", 10)),
            "its format is version 4; versions 1 to 3 can be read");
  EXPECT_EQ(complaint_about(std::string("\x93NUMPY\x01\x00\x76\x00{'descr'", 18)), "it ends within its header");
  EXPECT_EQ(complaint_about(std::string("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF", 12)),
            "its header of 4294967295 bytes is too long");
}

TEST_F(npy, RefusesElementsThatAreNoFloats) {
  for (const char* type : {"<i4", ">f8", "|u1", "<f2", "<M8[ns]", "|O"}) {
    EXPECT_THAT(
        complaint_about(npy_text("{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (1,), }",
                                 bytes_of<double>({7}))),
        testing::StartsWith("its elements are " + std::string(type) + "; numpy.float32, float64, "));
  }
  EXPECT_THAT(complaint_about(npy_text("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
                                       bytes_of<double>({7}))),
              testing::StartsWith("its elements are not plain numbers"));
  EXPECT_THAT(
      complaint_about(npy_text("{'descr': '\x1b[2J', 'fortran_order': False, 'shape': (1,), }", bytes_of<double>({7}))),
      testing::StartsWith(R"(its elements are \x1b[2J; )"));
}

TEST_F(npy, RefusesColumnsFirst) {
  EXPECT_EQ(
      complaint_about(npy_text("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 1), }", bytes_of<double>({7, 8}))),
      "its rows lie column by column; write it with numpy.ascontiguousarray");
}

TEST_F(npy, RefusesALengthThatIsNotThere) {
  const std::string dictionary = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_EQ(complaint_about(npy_text(dictionary, bytes_of<double>({7}))),
            "its header says 2 numbers of 8 bytes, but it holds fewer");
  EXPECT_EQ(complaint_about(npy_text(dictionary, bytes_of<double>({7, 8, 9}))),
            "its header says 2 numbers of 8 bytes, but it holds more");
}

TEST_F(npy, RefusesNoNumbersAndTooMany) {
  const auto shaped = [](const std::string& shape) {
    return npy_text("{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + ", }", "");
  };
  EXPECT_EQ(complaint_about(shaped("(0,)")), "it holds no numbers");
  EXPECT_EQ(complaint_about(shaped("(4194305,)")), "it holds more than 4194304 numbers");
  EXPECT_EQ(complaint_about(shaped("(4611686018427387904, 4611686018427387904)")),
            "it holds more than 4194304 numbers");
  for (const char* wrong : {"3", "(3", "(x,)", "(-1,)", "(99999999999999999999,)", "(3 4)"}) {
    EXPECT_EQ(complaint_about(shaped(wrong)), "its header's shape can't be understood") << wrong;
  }
}

TEST_F(npy, RefusesNumbersThatAreNone) {
  const std::string dictionary = "{'descr': '<c16', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_EQ(complaint_about(npy_text(dictionary, bytes_of<double>({7, 8, 9, std::nan("")}))),
            "number 1 (counted from 0) is not finite");
  EXPECT_EQ(complaint_about(npy_text("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
                                     bytes_of<float>({std::numeric_limits<float>::infinity()}))),
            "number 0 (counted from 0) is not finite");
}

TEST_F(npy, RefusesAHeaderWithoutAField) {
  EXPECT_EQ(complaint_about(npy_text("{'descr': '<f8', 'fortran_order': False}", "")), "its header has no shape");
  EXPECT_EQ(complaint_about(npy_text("{}", "")), "its header has no descr");
}

TEST_F(npy, SaysWhyAFileCannotBeRead) {
  EXPECT_THAT([] { (void)read_npy("/nowhere/taps.npy"); },
              testing::ThrowsMessage<npy_error>("it can't be read: No such file or directory"));
  EXPECT_THAT([] { (void)read_npy(testing::TempDir()); },
              testing::ThrowsMessage<npy_error>("it can't be read: Is a directory"));
}

// What numpy.save writes for an array of that dtype and shape, up to the padding.
TEST(NpyHeader, IsThatOfTheFormat) {
  const std::vector<std::int64_t> shape{513};
  const std::string header = print_npy_header("<f4", 66, shape);
  ASSERT_EQ(header.size(), 128U);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(header.substr(8, 2), std::string("\x76\x00", 2));  // 118 bytes follow
  EXPECT_EQ(header.substr(10, 59), "{'descr': '<f4', 'fortran_order': False, 'shape': (66, 513)");
  EXPECT_THAT(header, testing::HasSubstr("(66, 513), }"));
  EXPECT_EQ(header.back(), '\n');
}

TEST(NpyHeader, ShapeOfOneDimensionIsATuple) {
  EXPECT_THAT(print_npy_header("|u1", 7, {}),
              testing::HasSubstr("'descr': '|u1', 'fortran_order': False, 'shape': (7,), }"));
}

TEST(NpyHeader, KeepsItsSizeWhateverTheFrames) {
  const std::vector<std::int64_t> shape{1234567, 1234567, 1234567};
  for (const char* type : {"|u1", "<i2", "<c8"}) {
    EXPECT_EQ(print_npy_header(type, 0, shape).size(), print_npy_header(type, UINT64_MAX, shape).size());
  }
}

TEST(NpyHeader, GrowsInSteps) {
  const std::vector<std::int64_t> shape(7, 1'000'000'000'000);
  EXPECT_EQ(print_npy_header("<c8", 1, shape).size() % 64, 0U);
  EXPECT_GT(print_npy_header("<c8", 1, shape).size(), 128U);
}

}  // namespace
}  // namespace penstock
