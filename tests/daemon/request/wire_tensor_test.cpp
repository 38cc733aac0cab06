#include "daemon/request/wire_tensor.hpp"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

struct type_row {
  element_type type;
  wire::data_type travels_as;
  std::string dtype;
  bool pairs;
};

// PROTOCOL.md: "Integer IQ travels as its integers with a last dimension of 2, floating IQ as c64".
const std::vector<type_row>& rows() {
  static const std::vector<type_row> all{
      {element_type::u8, {1, 8, 1}, "u8", false},        {element_type::i8, {0, 8, 1}, "i8", false},
      {element_type::i16, {0, 16, 1}, "i16", false},     {element_type::i32, {0, 32, 1}, "i32", false},
      {element_type::f32, {2, 32, 1}, "f32", false},     {element_type::cf32, {5, 64, 1}, "c64", false},
      {element_type::cu8, {1, 8, 1}, "u8", true},        {element_type::ci8, {0, 8, 1}, "i8", true},
      {element_type::ci16, {0, 16, 1}, "i16", true},     {element_type::u16, {1, 16, 1}, "u16", false},
      {element_type::i64, {0, 64, 1}, "i64", false},     {element_type::f16, {2, 16, 1}, "f16", false},
      {element_type::bf16, {4, 16, 1}, "bf16", false},   {element_type::f64, {2, 64, 1}, "f64", false},
      {element_type::boolean, {6, 8, 1}, "bool", false},
  };
  return all;
}

class WireType : public ::testing::TestWithParam<type_row> {};

TEST_P(WireType, TravelsAsTheProtocolSays) {
  EXPECT_EQ(wire_type(GetParam().type), GetParam().travels_as);
  EXPECT_EQ(travels_as_pairs(GetParam().type), GetParam().pairs);
}

TEST_P(WireType, HasAHeaderThatItsReaderAccepts) {
  const tensor_spec spec{GetParam().type, {5, 3}, false};
  wire::message_header message;
  message.tensors = 1;
  const wire::tensor_header made = wire_header(spec, 7, 5);
  std::array<std::byte, wire::part_bytes(1)> part{};
  wire::encode(message, part);
  wire::encode(made, std::span(part).subspan(wire::header_bytes));
  wire::tensor_header read;
  ASSERT_EQ(wire::decode_tensor(part, message, 0, read), wire::decode_error::none);
  EXPECT_EQ(read, made);
  const std::vector<std::int64_t> extents(read.extents().begin(), read.extents().end());
  EXPECT_EQ(extents, GetParam().pairs ? (std::vector<std::int64_t>{7, 5, 3, 2}) : (std::vector<std::int64_t>{7, 5, 3}));
  EXPECT_EQ(read.bytes, 7 * spec.bytes());
}

TEST_P(WireType, IsDescribedAsItTravels) {
  const wire::tensor_description made = describe({GetParam().type, {5, 3}, true}, "psd", "power_spectrum");
  EXPECT_EQ(made.dtype, GetParam().dtype);
  EXPECT_EQ(made.element, name_of(GetParam().type));
  EXPECT_EQ(made.name, "psd");
  EXPECT_EQ(made.op, "power_spectrum");
  EXPECT_TRUE(made.variable);
  EXPECT_EQ(made.shape, GetParam().pairs ? (std::vector<std::int64_t>{5, 3, 2}) : (std::vector<std::int64_t>{5, 3}));
}

INSTANTIATE_TEST_SUITE_P(EveryElement, WireType, ::testing::ValuesIn(rows()),
                         [](const ::testing::TestParamInfo<type_row>& row) {
                           return std::string(name_of(row.param.type));
                         });

TEST(WireHeader, ShowsTheLeadingDimensionOfAVariableSpec) {
  const tensor_spec spec{element_type::f32, {512, 2}, true};
  const wire::tensor_header made = wire_header(spec, 3, 100);
  EXPECT_EQ(made.shape[1], 100);
  EXPECT_EQ(made.bytes, 3U * 100 * 2 * 4);
}

TEST(WireHeader, IgnoresTheLeadingDimensionOfAFixedSpec) {
  const tensor_spec spec{element_type::f32, {512}, false};
  const wire::tensor_header made = wire_header(spec, 3, 100);
  EXPECT_EQ(made.shape[1], 512);
  EXPECT_EQ(made.bytes, 3U * 512 * 4);
}

TEST(WireHeader, HoldsTheMostDimensionsThatAPipelineMayHave) {
  const tensor_spec spec{element_type::ci16, {2, 3, 4, 5, 6, 7}, false};
  const wire::tensor_header made = wire_header(spec, 9, 2);
  const std::array<std::int64_t, wire::max_dimensions> expected{9, 2, 3, 4, 5, 6, 7, 2};
  EXPECT_EQ(made.shape, expected);
  EXPECT_EQ(made.dimensions, 8);
}

}  // namespace
}  // namespace penstock
