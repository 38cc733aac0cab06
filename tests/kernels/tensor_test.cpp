#include "kernels/tensor.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

struct element_row {
  element_type type;
  const char* name;
  std::size_t bytes;
  bool complex;
  bool floating;
};

TEST(ElementType, HasTheNameSizeAndKindOfItsRow) {
  for (const element_row& row : {element_row{element_type::u8, "u8", 1, false, false},
                                 {element_type::i8, "i8", 1, false, false},
                                 {element_type::i16, "i16", 2, false, false},
                                 {element_type::i32, "i32", 4, false, false},
                                 {element_type::f32, "f32", 4, false, true},
                                 {element_type::cf32, "cf32", 8, true, true},
                                 {element_type::cu8, "cu8", 2, true, false},
                                 {element_type::ci8, "ci8", 2, true, false},
                                 {element_type::ci16, "ci16", 4, true, false},
                                 {element_type::u16, "u16", 2, false, false},
                                 {element_type::i64, "i64", 8, false, false},
                                 {element_type::f16, "f16", 2, false, true},
                                 {element_type::bf16, "bf16", 2, false, true},
                                 {element_type::f64, "f64", 8, false, true},
                                 {element_type::boolean, "bool", 1, false, false}}) {
    EXPECT_EQ(name_of(row.type), row.name);
    EXPECT_EQ(size_of(row.type), row.bytes) << row.name;
    EXPECT_EQ(is_complex(row.type), row.complex) << row.name;
    EXPECT_EQ(is_floating(row.type), row.floating) << row.name;
    EXPECT_EQ(element_type_of(row.name), row.type);
  }
}

TEST(ElementType, IsNotFoundByOtherNames) {
  for (const char* const name : {"", "f8", "F32", "f32 ", "float32", "u", "cu16", "boolean", "b1"}) {
    EXPECT_EQ(element_type_of(name), std::nullopt) << name;
  }
}

TEST(TensorSpec, MultipliesItsExtents) {
  const tensor_spec spec{.type = element_type::ci16, .shape = {3, 5, 7}};
  EXPECT_EQ(spec.elements(), 105);
  EXPECT_EQ(spec.bytes(), 420U);
}

TEST(TensorSpec, IgnoresTheLeadingExtentUnlessVariable) {
  const tensor_spec fixed{.type = element_type::f32, .shape = {3, 5}};
  EXPECT_EQ(fixed.elements(2), 15);
  const tensor_spec variable{.type = element_type::f32, .shape = {3, 5}, .variable = true};
  EXPECT_EQ(variable.elements(2), 10);
  EXPECT_EQ(variable.bytes(2), 40U);
  EXPECT_EQ(variable.elements(), 15);
}

TEST(TensorSpec, HoldsMoreThanFourGigabytes) {
  const tensor_spec spec{.type = element_type::cf32, .shape = {1 << 20, 1 << 14}};
  EXPECT_EQ(spec.bytes(), std::size_t{1} << 37U);
}

TEST(TensorSpec, ShowsTypeAndShape) {
  EXPECT_EQ((tensor_spec{.type = element_type::cf32, .shape = {1024}}.text()), "cf32[1024]");
  EXPECT_EQ((tensor_spec{.type = element_type::f32, .shape = {512, 2}, .variable = true}.text()), "f32[max 512, 2]");
}

TEST(TensorSpec, EqualsOnlyWhatIsTheSame) {
  const tensor_spec spec{.type = element_type::f32, .shape = {4}};
  EXPECT_EQ(spec, (tensor_spec{.type = element_type::f32, .shape = {4}}));
  EXPECT_NE(spec, (tensor_spec{.type = element_type::f32, .shape = {4}, .variable = true}));
  EXPECT_NE(spec, (tensor_spec{.type = element_type::i32, .shape = {4}}));
  EXPECT_NE(spec, (tensor_spec{.type = element_type::f32, .shape = {2, 2}}));
}

TEST(FrameRows, OfOneDimensionAreTheFrames) {
  const frame_rows rows{{.type = element_type::f32, .shape = {100}}};
  EXPECT_EQ(rows.count({.frames = 3, .leading = 7}), 3);
  EXPECT_EQ(rows.length({.frames = 3, .leading = 7}), 100);
  EXPECT_FALSE(rows.has_variable_length());
}

TEST(FrameRows, OfOneVariableDimensionAreAsLongAsItIs) {
  const frame_rows rows{{.type = element_type::f32, .shape = {100}, .variable = true}};
  EXPECT_EQ(rows.count({.frames = 3, .leading = 7}), 3);
  EXPECT_EQ(rows.length({.frames = 3, .leading = 7}), 7);
  EXPECT_EQ(rows.max_length(), 100);
  EXPECT_TRUE(rows.has_variable_length());
}

TEST(FrameRows, AreAllExtentsButTheLast) {
  const frame_rows rows{{.type = element_type::f32, .shape = {4, 5, 6}}};
  EXPECT_EQ(rows.count({.frames = 2, .leading = 3}), 40);
  EXPECT_EQ(rows.length({.frames = 2, .leading = 3}), 6);
}

TEST(FrameRows, AreFewerWhereTheLeadingExtentIs) {
  const frame_rows rows{{.type = element_type::f32, .shape = {4, 5, 6}, .variable = true}};
  EXPECT_EQ(rows.count({.frames = 2, .leading = 3}), 30);
  EXPECT_EQ(rows.length({.frames = 2, .leading = 3}), 6);
  EXPECT_FALSE(rows.has_variable_length());
}

}  // namespace

}  // namespace penstock
