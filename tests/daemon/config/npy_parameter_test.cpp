#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/config/settings.hpp"
#include "kernels/number_file.hpp"
#include "kernels/operation.hpp"
#include "tests/base/npy_text.hpp"

namespace penstock {
namespace {

using numbers = std::vector<double>;

/// A configuration "penstock.toml" and .npy files, in a folder of their own.
class npy_parameter : public testing::Test {
 protected:
  npy_parameter() : folder_(std::filesystem::path(testing::TempDir()) / "penstock_npy_parameter_test") {
    std::filesystem::create_directories(folder_ / "deeper");
  }
  ~npy_parameter() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& type, const std::string& shape, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary)
        << npy_text("{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }", bytes);
  }
  /// One pipeline 'p' with one stage 's' of that operator (lines 4 to 6); `lines` begin on line 7.
  settings load(const std::string& op, const std::string& lines) {
    std::ofstream(folder_ / "penstock.toml")
        << "config_version = 1\n[[pipeline]]\nname = 'p'\ninput = { dtype = 'f32', shape = [64] }\n"
           "[[pipeline.stage]]\nname = 's'\nop = '"
        << op << "'\n"
        << lines;
    return load_settings(folder_ / "penstock.toml");
  }
  parameters loaded(const std::string& op, const std::string& lines) {
    return load(op, lines).pipelines.at(0).stages.at(0).settings;
  }
  std::string complaint_about(const std::string& op, const std::string& lines) {
    try {
      (void)load(op, lines);
    } catch (const configuration_error& error) {
      return error.what();
    }
    return "no complaint";
  }
  /// How an error begins that is about a parameter on line 8.
  [[nodiscard]] std::string place(const std::string& field) const {
    return (folder_ / "penstock.toml").string() + ":8: pipeline 'p', stage 's', field '" + field + "': ";
  }

  std::filesystem::path folder_;
};

TEST_F(npy_parameter, IsLookedForBesideTheConfiguration) {
  write("deeper/range.npy", "<f8", "(2,)", bytes_of<double>({-0.1, 8}));
  EXPECT_EQ(loaded("histogram", "range = 'deeper/range.npy'").numbers("range"), (numbers{-0.1, 8}));
  const std::string whole = (folder_ / "deeper" / "range.npy").string();
  EXPECT_EQ(loaded("histogram", "range = '" + whole + "'").numbers("range"), (numbers{-0.1, 8}));
}

TEST_F(npy_parameter, IsPrintedAsNumbers) {
  write("range.npy", "<f4", "(2,)", bytes_of<float>({-0.5F, 0.25F}));
  const std::string text = print_settings(load("histogram", "range = 'range.npy'"));
  EXPECT_THAT(text, testing::HasSubstr("\nrange = [-0.5, 0.25]\n"));
  EXPECT_EQ(print_settings(parse_settings(text, "printed.toml")), text);
}

TEST_F(npy_parameter, NamesItsPlaceTheFileAndWhatIsWrong) {
  EXPECT_EQ(complaint_about("histogram", "range = 'missing.npy'"),
            place("range") + "\"missing.npy\": it can't be read: No such file or directory");
  write("rows.npy", "<f8", "(2, 1)", bytes_of<double>({1, 2}));
  EXPECT_EQ(complaint_about("histogram", "range = 'rows.npy'"),
            place("range") + "\"rows.npy\": its array has 2 dimensions; allowed is 1");
  write("one.npy", "<f8", "()", bytes_of<double>({1}));
  EXPECT_EQ(complaint_about("histogram", "range = 'one.npy'"),
            place("range") + "\"one.npy\": its array has 0 dimensions; allowed is 1");
}

TEST_F(npy_parameter, IsRefusedComplexWhereTheOperatorTakesRealNumbers) {
  write("range.npy", "<c8", "(1,)", bytes_of<float>({1, 2}));
  EXPECT_EQ(complaint_about("histogram", "range = 'range.npy'"),
            place("range") + "\"range.npy\": its numbers are complex, but operator 'histogram' takes real ones alone");
}

TEST_F(npy_parameter, GivesTheTwoPartsOfComplexTaps) {
  write("taps.npy", "<c16", "(2,)", bytes_of<double>({0.5, -1, 0.25, 2}));
  const parameters given = loaded("fir", "taps = 'taps.npy'");
  EXPECT_EQ(given.numbers("taps"), (numbers{0.5, 0.25}));
  EXPECT_EQ(given.numbers("taps_imag"), (numbers{-1, 2}));
  EXPECT_EQ(complaint_about("fir", "taps = 'taps.npy'\ntaps_imag = [1, 2]"),
            place("taps") + "\"taps.npy\": its numbers are complex, but taps_imag is given too");
}

TEST_F(npy_parameter, GivesTheTwoPartsOfAComplexTemplate) {
  write("template.npy", "<c8", "(2,)", bytes_of<float>({0.5, -1, 0.25, 2}));
  const parameters given = loaded("correlate", "template = 'template.npy'");
  EXPECT_EQ(given.numbers("template"), (numbers{0.5, 0.25}));
  EXPECT_EQ(given.numbers("template_imag"), (numbers{-1, 2}));
  EXPECT_EQ(complaint_about("correlate", "template = 'template.npy'\ntemplate_imag = [1, 2]"),
            place("template") + "\"template.npy\": its numbers are complex, but template_imag is given too");
}

TEST_F(npy_parameter, TakesTheTemplatesOfABankAsRows) {
  write("bank.npy", "<c8", "(2, 3)", bytes_of<float>({1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60}));
  const parameters given = loaded("correlate", "template = 'bank.npy'");
  EXPECT_EQ(given.numbers("template"), (numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(given.numbers("template_imag"), (numbers{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(given.number("templates", 0.0), 2.0);
  EXPECT_EQ(complaint_about("correlate", "template = 'bank.npy'\ntemplates = 2"),
            place("template") + "\"bank.npy\": it has the extents itself, but templates is given too");
}

TEST_F(npy_parameter, KeepsTheExtentsOfAConstantArray) {
  write("gain.npy", "<c8", "(1, 1, 1)", bytes_of<float>({2, 20}));
  const parameters given = loaded("multiply", "by = 'gain.npy'");
  EXPECT_EQ(given.numbers("by"), (numbers{2}));
  EXPECT_EQ(given.numbers("by_imag"), (numbers{20}));
  EXPECT_EQ(given.numbers("by_shape"), (numbers{1, 1, 1}));
  EXPECT_EQ(complaint_about("multiply", "by = 'gain.npy'\nby_shape = [1]"),
            place("by") + "\"gain.npy\": it has the extents itself, but by_shape is given too");
}

TEST_F(npy_parameter, TakesTheTwoPartsFromFilesOfTheirOwn) {
  write("real.npy", "<f8", "(2,)", bytes_of<double>({0.5, 0.25}));
  write("imaginary.npy", "<f8", "(2,)", bytes_of<double>({-1, 2}));
  const parameters given = loaded("fir", "taps = 'real.npy'\ntaps_imag = 'imaginary.npy'");
  EXPECT_EQ(given.numbers("taps"), (numbers{0.5, 0.25}));
  EXPECT_EQ(given.numbers("taps_imag"), (numbers{-1, 2}));
}

TEST_F(npy_parameter, NamesTheLineOfTheFileForWhatIsWrongWithItsImaginaryPart) {
  write("taps.npy", "<c16", "(1,)", bytes_of<double>({0.5, 1e300}));
  EXPECT_THAT(complaint_about("fir", "taps = 'taps.npy'"), testing::StartsWith(place("taps_imag")));
}

TEST_F(npy_parameter, TakesTheSectionsOfAFilterAsRows) {
  const numbers sections{0.5, 0.5, 0, 1, 0, 0, 0.25, 0.25, 0, 1, -0.5, 0};
  write("sections.npy", "<f8", "(2, 6)", bytes_of<double>(sections));
  EXPECT_EQ(loaded("iir", "sections = 'sections.npy'").numbers("sections"), sections);
  write("flat.npy", "<f8", "(12,)", bytes_of<double>(sections));
  EXPECT_EQ(loaded("iir", "sections = 'flat.npy'").numbers("sections"), sections);
  write("columns.npy", "<f8", "(6, 2)", bytes_of<double>(sections));
  EXPECT_EQ(complaint_about("iir", "sections = 'columns.npy'"),
            place("sections") + "\"columns.npy\": its rows have 2 numbers; a section has 6");
}

TEST_F(npy_parameter, IsHeldAgainstTheOperatorsRules) {
  write("range.npy", "<f8", "(3,)", bytes_of<double>({1, 2, 3}));
  EXPECT_THAT(complaint_about("histogram", "range = 'range.npy'"), testing::StartsWith(place("range")));
}

TEST_F(npy_parameter, IsAPlainTextWhereNoArrayIsTaken) {
  EXPECT_THAT(
      complaint_about("window", "window = 'hann.npy'"),
      testing::AllOf(testing::StartsWith(place("window") + "must be "), testing::Not(testing::HasSubstr("read"))));
  EXPECT_THAT(complaint_about("moments", "range = 'range.npy'"),
              testing::StartsWith(place("range") + "operator 'moments' has no such parameter"));
}

TEST_F(npy_parameter, OfWeightsStaysAFile) {
  write("w.npy", "<f2", "(64, 2)", std::string(256, '\0'));
  const settings given = load("matmul", "weights = 'w.npy'");
  const number_file& weights = *given.pipelines.at(0).stages.at(0).settings.npy_file("weights");
  EXPECT_EQ(weights.text(), "f16[64, 2]");
  EXPECT_THAT(print_settings(given), testing::HasSubstr("\nweights = \"w.npy\"\n"));
  std::vector<float> numbers(3, 1.0F);
  weights.read(125, numbers);
  EXPECT_EQ(numbers, std::vector<float>(3));
  EXPECT_EQ(weights.map().get()[255], std::byte{});
}

TEST_F(npy_parameter, OfWeightsIsAnotherOnceTheFileIsReplaced) {
  write("w.npy", "<f4", "(64, 1)", std::string(256, '\0'));
  const settings before = load("matmul", "weights = 'w.npy'");
  const settings again = load("matmul", "weights = 'w.npy'");
  EXPECT_TRUE(same_pipeline(before.pipelines.at(0), again.pipelines.at(0)));
  write("new.npy", "<f4", "(64, 1)", std::string(256, '\0'));
  std::filesystem::rename(folder_ / "new.npy", folder_ / "w.npy");
  const settings after = load("matmul", "weights = 'w.npy'");
  EXPECT_FALSE(same_pipeline(before.pipelines.at(0), after.pipelines.at(0)));
  EXPECT_NE(configuration_hash(before), configuration_hash(after));
}

TEST_F(npy_parameter, OfWeightsNamesItsPlaceTheFileAndWhatIsWrong) {
  const auto complaint = [&](const std::string& type, const std::string& shape, const std::string& bytes) {
    write("w.npy", type, shape, bytes);
    const std::string text = complaint_about("matmul", "weights = 'w.npy'");
    const std::string where = place("weights");
    return text.starts_with(where) ? text.substr(where.size()) : text;
  };
  EXPECT_EQ(complaint_about("matmul", "weights = 'missing.npy'"),
            place("weights") + "\"missing.npy\": it can't be read: No such file or directory");
  EXPECT_EQ(complaint_about("matmul", "weights = [1, 2]"), place("weights") + "must be the name of a .npy file");
  EXPECT_EQ(complaint_about("matmul", "weights = 'w.txt'"), place("weights") + "must be the name of a .npy file");
  EXPECT_EQ(complaint("<i4", "(64, 1)", std::string(256, '\0')),
            "\"w.npy\": its elements are <i4; numpy.float16, float32 and float64 can be read (<f2, <f4, <f8)");
  EXPECT_EQ(complaint("<f4", "(64, 2)", std::string(256, '\0')),
            "\"w.npy\": its header says f32[64, 2], but it holds 256 bytes of numbers");
  EXPECT_EQ(complaint("<f4", "(64, 1)", std::string(260, '\0')),
            "\"w.npy\": its header says f32[64, 1], but it holds 260 bytes of numbers");
  EXPECT_EQ(complaint("<f4", "(4611686018427387904, 4611686018427387904)", std::string(256, '\0')),
            "\"w.npy\": its header says f32[4611686018427387904, 4611686018427387904], but it holds 256 bytes of "
            "numbers");
  EXPECT_EQ(complaint("<f4", "(64, 0)", ""), "\"w.npy\": it holds no numbers");
  EXPECT_EQ(complaint("<f4", "(32, 2)", std::string(256, '\0')),
            "must be [64, N] for an input of f32[64], not f32[32, 2]");
}

}  // namespace
}  // namespace penstock
