#include "proto/message.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::wire {
namespace {

using bytes = std::vector<std::byte>;

bytes encoded(const message_header& header) {
  bytes out(header_bytes);
  encode(header, out);
  return out;
}

/// Part 0 of a SUBMIT with that one tensor header.
bytes encoded(const tensor_header& tensor) {
  message_header header;
  header.type = message_type::submit;
  header.tensors = 1;
  bytes out(part_bytes(1));
  encode(header, out);
  encode(tensor, std::span{out}.subspan(header_bytes));
  return out;
}

decode_error decoded_tensor(const tensor_header& tensor, tensor_header& out) {
  const bytes part = encoded(tensor);
  message_header header;
  EXPECT_EQ(decode(part, header), decode_error::none);
  return decode_tensor(part, header, 0, out);
}

message_header full_header() {
  message_header header;
  header.type = message_type::submit;
  header.request_id = 0x1122334455667788;
  header.timeout_ns = 0x99AABBCCDDEEFF00;
  header.pipeline = 0x01020304;
  header.session = 0x05060708;
  header.sequence = 0x0910111213141516;
  header.code = status::wrong_shape;
  header.frames = 0xFFFFFFFF;
  header.trace_id.fill(std::byte{0x5A});
  return header;
}

TEST(MessageHeader, ComesBackAsItWasEncoded) {
  message_header out;
  EXPECT_EQ(decode(encoded(full_header()), out), decode_error::none);
  EXPECT_EQ(out, full_header());
}

TEST(MessageHeader, IsLittleEndianAtTheDocumentedOffsets) {
  const bytes out = encoded(full_header());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(out.data()), 4), "PNSK");
  const auto at = [&](std::size_t offset) { return std::to_integer<unsigned>(out[offset]); };
  EXPECT_EQ(at(4), 1U);
  EXPECT_EQ(at(5), 16U);
  EXPECT_EQ(at(6), 64U);
  EXPECT_EQ(at(8), 0x88U);
  EXPECT_EQ(at(16), 0x00U);
  EXPECT_EQ(at(17), 0xFFU);
  EXPECT_EQ(at(24), 0x04U);
  EXPECT_EQ(at(28), 0x08U);
  EXPECT_EQ(at(32), 0x16U);
  EXPECT_EQ(at(42), 0x07U);
  EXPECT_EQ(at(43), 0x01U);
  EXPECT_EQ(at(63), 0x5AU);
}

TEST(MessageHeader, KeepsATypeItDoesNotKnow) {
  bytes part = encoded(message_header{});
  part[5] = std::byte{200};
  message_header out;
  EXPECT_EQ(decode(part, out), decode_error::none);
  EXPECT_EQ(static_cast<unsigned>(out.type), 200U);
}

TEST(MessageHeader, SkipsWhatALaterMinorVersionAdded) {
  message_header header;
  header.type = message_type::submit;
  header.header_len = 72;
  header.tensors = 1;
  bytes part(72 + tensor_header_bytes, std::byte{0xEE});
  encode(header, part);
  const tensor_header tensor{uint8_type, 2, 6, {2, 3}};
  encode(tensor, std::span{part}.subspan(72));

  message_header out;
  ASSERT_EQ(decode(part, out), decode_error::none);
  tensor_header out_tensor;
  ASSERT_EQ(decode_tensor(part, out, 0, out_tensor), decode_error::none);
  EXPECT_EQ(out_tensor, tensor);
}

TEST(MessageHeader, FillsInOnlyTheRequestIdOfAnotherMajor) {
  message_header header = full_header();
  header.major = 2;
  message_header out;
  EXPECT_EQ(decode(encoded(header), out), decode_error::unsupported_version);
  EXPECT_EQ(out.request_id, header.request_id);
  EXPECT_EQ(out.pipeline, 0U);
  EXPECT_EQ(out.timeout_ns, 0U);
}

TEST(MessageHeader, NamesTheRequestEvenWhenItsLengthsAreWrong) {
  message_header header = full_header();
  header.header_len = 65;
  message_header out;
  EXPECT_EQ(decode(encoded(header), out), decode_error::bad_header_len);
  EXPECT_EQ(out.request_id, header.request_id);
}

TEST(MessageHeader, TakesTheLargestHeaderLenAndNotOneMore) {
  message_header header;
  bytes part(max_header_len + 1);
  header.header_len = max_header_len;
  encode(header, part);
  message_header out;
  EXPECT_EQ(decode(part, out), decode_error::none);
  header.header_len = max_header_len + 1;
  encode(header, part);
  EXPECT_EQ(decode(part, out), decode_error::bad_header_len);
}

TEST(MessageHeader, TakesTheMostTensorsAndNotOneMore) {
  message_header header;
  bytes part(part_bytes(max_tensors + 1));
  header.tensors = max_tensors;
  encode(header, part);
  message_header out;
  EXPECT_EQ(decode(part, out), decode_error::none);
  header.tensors = max_tensors + 1;
  encode(header, part);
  EXPECT_EQ(decode(part, out), decode_error::too_many_tensors);
}

TEST(MessageHeader, NeedsEveryTensorHeaderWhole) {
  message_header header;
  header.tensors = 2;
  bytes part(part_bytes(2));
  encode(header, part);
  part.pop_back();
  message_header out;
  EXPECT_EQ(decode(part, out), decode_error::truncated_tensors);
}

TEST(MessageHeader, EveryErrorHasASentenceOfItsOwn) {
  std::vector<std::string_view> sentences;
  for (int error = 0; error <= static_cast<int>(decode_error::bad_tensor); ++error) {
    sentences.push_back(text_of(static_cast<decode_error>(error)));
  }
  std::sort(sentences.begin(), sentences.end());
  EXPECT_EQ(std::adjacent_find(sentences.begin(), sentences.end()), sentences.end());
  EXPECT_EQ(std::count(sentences.begin(), sentences.end(), text_of(static_cast<decode_error>(99))), 0);
}

struct tensor_case {
  const char* name;
  tensor_header header;
  decode_error expected;
};

class TensorHeader : public ::testing::TestWithParam<tensor_case> {};

TEST_P(TensorHeader, IsTakenOrRefused) {
  tensor_header out;
  EXPECT_EQ(decoded_tensor(GetParam().header, out), GetParam().expected);
  if (GetParam().expected == decode_error::none) {
    EXPECT_EQ(out, GetParam().header);
  }
  EXPECT_LE(out.extents().size(), max_dimensions);
}

constexpr std::int64_t large = std::int64_t{1} << 62;
constexpr auto ok = decode_error::none;
constexpr auto bad = decode_error::bad_tensor;

INSTANTIATE_TEST_SUITE_P(
    Table, TensorHeader,
    ::testing::Values(
        tensor_case{"Bytes", {uint8_type, 3, 24, {1, 12, 2}}, ok},
        tensor_case{"Complex", {complex64_type, 2, 48, {3, 2}}, ok},
        tensor_case{"EightDimensions", {int16_type, 8, 2, {1, 1, 1, 1, 1, 1, 1, 1}}, ok},
        tensor_case{"NoDimensions", {float32_type, 0, 4, {}}, ok},
        tensor_case{"NoElements", {float32_type, 2, 0, {1, 0}}, ok}, tensor_case{"Double", {{2, 64, 1}, 1, 8, {1}}, ok},
        tensor_case{"Complex128", {{5, 128, 1}, 1, 16, {1}}, ok},
        tensor_case{"MostBytes", {uint8_type, 2, std::uint64_t{1} << 63U, {2, large}}, ok},
        tensor_case{"HalfFloat", {float16_type, 1, 2, {1}}, ok},
        tensor_case{"BrainFloat", {bfloat16_type, 1, 2, {1}}, ok}, tensor_case{"Bool", {bool_type, 1, 1, {1}}, ok},
        tensor_case{"QuarterFloat", {{2, 8, 1}, 1, 1, {1}}, bad},
        tensor_case{"WideBrain", {{4, 32, 1}, 1, 4, {1}}, bad}, tensor_case{"BitBool", {{6, 1, 8}, 1, 1, {1}}, bad},
        tensor_case{"WideBool", {{6, 32, 1}, 1, 4, {1}}, bad}, tensor_case{"UnknownCode", {{7, 8, 1}, 1, 1, {1}}, bad},
        tensor_case{"OddBits", {{1, 12, 1}, 1, 1, {1}}, bad}, tensor_case{"TwoLanes", {{2, 32, 2}, 1, 8, {1}}, bad},
        tensor_case{"NineDimensions", {uint8_type, 9, 1, {1, 1, 1, 1, 1, 1, 1, 1}}, bad},
        tensor_case{"NegativeExtent", {uint8_type, 2, 6, {-2, -3}}, bad},
        tensor_case{"NegativeExtentBesideNone", {uint8_type, 2, 0, {0, -3}}, bad},
        tensor_case{"OneByteShort", {int16_type, 1, 5, {3}}, bad},
        tensor_case{"OneByteMore", {int16_type, 1, 7, {3}}, bad},
        tensor_case{"ExtentsInItemsNotBytes", {float32_type, 1, 3, {3}}, bad},
        tensor_case{"OverflowOfTheExtents", {uint8_type, 2, 0, {large, 4}}, bad},
        tensor_case{"OverflowByTheItem", {complex64_type, 1, 0, {large}}, bad},
        tensor_case{"OverflowBesideNone", {uint8_type, 3, 0, {large, large, 0}}, bad}),
    [](const auto& row) { return row.param.name; });

TEST(TensorHeaderAt, RefusesAnIndexThatTheMessageDoesNotHave) {
  const bytes part = encoded(tensor_header{uint8_type, 1, 1, {1}});
  message_header header;
  ASSERT_EQ(decode(part, header), decode_error::none);
  tensor_header out;
  EXPECT_EQ(decode_tensor(part, header, 1, out), decode_error::truncated_tensors);
  EXPECT_EQ(decode_tensor(part, header, SIZE_MAX, out), decode_error::truncated_tensors);
}

TEST(TensorHeaderAt, IgnoresReservedBytesAndUnusedExtents) {
  bytes part = encoded(tensor_header{uint8_type, 1, 1, {1}});
  std::fill_n(part.begin() + header_bytes + 5, 3, std::byte{0xFF});
  std::fill(part.end() - 56, part.end(), std::byte{0xFF});
  message_header header;
  ASSERT_EQ(decode(part, header), decode_error::none);
  tensor_header out;
  EXPECT_EQ(decode_tensor(part, header, 0, out), decode_error::none);
  EXPECT_EQ(out, (tensor_header{uint8_type, 1, 1, {1}}));
}

constexpr sample_account full_account{.index = 0x1122334455667788,
                                      .time_ns = -2,
                                      .lost_before = 0x0910111213141516,
                                      .epoch = 0x01020304,
                                      .filled = 0x05060708,
                                      .quality = time_quality::disciplined,
                                      .flags = sample_flag::index_known | sample_flag::epoch_begins};

/// Part 0 with that account in a header of that many bytes.
bytes encoded(const sample_account& account, std::size_t header_len, message_header& header) {
  header.header_len = static_cast<std::uint16_t>(header_len);
  bytes part(std::max(header_len, account_header_bytes), std::byte{0xEE});
  encode(header, part);
  encode(account, std::span{part}.subspan(header_bytes));
  part.resize(header_len);
  return part;
}

TEST(SampleAccount, ComesBackAsItWasEncodedFromHeadersWithRoomForIt) {
  for (std::size_t header_len = header_bytes; header_len < 2 * account_header_bytes; ++header_len) {
    message_header header;
    const bytes part = encoded(full_account, header_len, header);
    sample_account out;
    ASSERT_EQ(decode_account(part, header, out), header_len >= account_header_bytes) << header_len;
    EXPECT_EQ(out, header_len >= account_header_bytes ? full_account : sample_account{});
  }
}

TEST(SampleAccount, IsLittleEndianAtTheDocumentedOffsets) {
  message_header header;
  const bytes part = encoded(full_account, account_header_bytes, header);
  const auto at = [&](std::size_t offset) { return std::to_integer<unsigned>(part[offset]); };
  EXPECT_EQ(at(64), 0x88U);
  EXPECT_EQ(at(71), 0x11U);
  EXPECT_EQ(at(72), 0xFEU);
  EXPECT_EQ(at(79), 0xFFU);
  EXPECT_EQ(at(80), 0x16U);
  EXPECT_EQ(at(88), 0x04U);
  EXPECT_EQ(at(92), 0x08U);
  EXPECT_EQ(at(96), 4U);
  EXPECT_EQ(at(97), 17U);
  EXPECT_EQ(at(98) | at(99) | at(100) | at(101) | at(102) | at(103), 0U);
}

TEST(SampleAccount, LeavesOutWhatThisVersionDoesNotKnow) {
  message_header header;
  bytes part = encoded(full_account, account_header_bytes, header);
  std::fill_n(part.begin() + 96, 8, std::byte{0xFF});
  sample_account out;
  ASSERT_TRUE(decode_account(part, header, out));
  EXPECT_EQ(out.quality, time_quality::none);
  EXPECT_EQ(out.flags, 63U);
}

TEST(SampleAccount, IndicesOfOutputsAreReadWhereTheHeaderHasThem) {
  message_header header;
  header.tensors = 2;
  bytes part = encoded(full_account, account_header_bytes_of(2), header);
  encode_output_index(-7, std::span{part}.subspan(account_header_bytes));
  encode_output_index(INT64_MAX, std::span{part}.subspan(account_header_bytes_of(1)));
  std::int64_t index = 0;
  ASSERT_TRUE(decode_output_index(part, header, 0, index));
  EXPECT_EQ(index, -7);
  ASSERT_TRUE(decode_output_index(part, header, 1, index));
  EXPECT_EQ(index, INT64_MAX);
  EXPECT_FALSE(decode_output_index(part, header, 2, index));
  --header.header_len;
  EXPECT_FALSE(decode_output_index(part, header, 1, index));
}

constexpr shared_place full_place{0x01020304, true, 0x1122334455667780, 0x99AABBCCDDEEFF00, 0x0910111213141516};

TEST(SharedPlace, ComesBackAsItWasEncoded) {
  for (const bool repeat : {false, true}) {
    shared_place place = full_place;
    place.repeat = repeat;
    bytes part(shared_place_bytes, std::byte{0xEE});
    encode(place, part);
    shared_place out;
    ASSERT_TRUE(decode(part, out));
    EXPECT_EQ(out, place);
  }
}

TEST(SharedPlace, IsLittleEndianAtTheDocumentedOffsets) {
  bytes part(shared_place_bytes, std::byte{0xEE});
  encode(full_place, part);
  const auto at = [&](std::size_t offset) { return std::to_integer<unsigned>(part[offset]); };
  EXPECT_EQ(at(0), 0x04U);
  EXPECT_EQ(at(3), 0x01U);
  EXPECT_EQ(at(4), 0x01U);
  EXPECT_EQ(at(5) | at(6) | at(7), 0x00U);
  EXPECT_EQ(at(8), 0x80U);
  EXPECT_EQ(at(15), 0x11U);
  EXPECT_EQ(at(17), 0xFFU);
  EXPECT_EQ(at(24), 0x16U);
  EXPECT_EQ(at(31), 0x09U);
}

TEST(SharedPlace, ReadsOnlyTheFlagThatItKnows) {
  bytes part(shared_place_bytes);
  encode(shared_place{}, part);
  std::fill_n(part.begin() + 4, 4, std::byte{0xFE});
  shared_place out = full_place;
  ASSERT_TRUE(decode(part, out));
  EXPECT_EQ(out, shared_place{});
}

TEST(SharedPlace, IsReadAtAnyAddress) {
  for (std::size_t offset = 0; offset < 8; ++offset) {
    bytes memory(shared_place_bytes + offset);
    const std::span<std::byte> part = std::span{memory}.subspan(offset);
    encode(full_place, part);
    shared_place out;
    ASSERT_TRUE(decode(part, out));
    EXPECT_EQ(out, full_place) << "offset " << offset;
  }
}

TEST(SharedPlace, RefusesEveryOtherSize) {
  shared_place out;
  for (std::size_t size = 0; size <= 2 * shared_place_bytes; ++size) {
    const bytes part(size);
    EXPECT_EQ(decode(part, out), size == shared_place_bytes) << size << " bytes";
  }
}

TEST(SharedPlace, TensorsTakeUpWholeSteps) {
  EXPECT_EQ(room_for(0), 0U);
  EXPECT_EQ(room_for(1), 64U);
  EXPECT_EQ(room_for(64), 64U);
  EXPECT_EQ(room_for(65), 128U);
}

TEST(DataType, CountsTheBytesOfAnItem) {
  EXPECT_EQ(uint8_type.item_bytes(), 1U);
  EXPECT_EQ(int8_type.item_bytes(), 1U);
  EXPECT_EQ(int16_type.item_bytes(), 2U);
  EXPECT_EQ(int32_type.item_bytes(), 4U);
  EXPECT_EQ(float32_type.item_bytes(), 4U);
  EXPECT_EQ(complex64_type.item_bytes(), 8U);
  EXPECT_EQ(float16_type.item_bytes(), 2U);
  EXPECT_EQ(bool_type.item_bytes(), 1U);
}

TEST(DataType, MultipliesByLanes) {
  EXPECT_EQ((data_type{2, 32, 4}.item_bytes()), 16U);
}

TEST(DataType, HasNoItemBytesWhenTheyAreNotWhole) {
  EXPECT_EQ((data_type{1, 4, 1}.item_bytes()), 0U);
  EXPECT_EQ((data_type{1, 4, 2}.item_bytes()), 1U);
}

TEST(DataType, DoesNotOverflowAtItsLimits) {
  EXPECT_EQ((data_type{1, 248, 65535}.item_bytes()), 31U * 65535U);
}

}  // namespace
}  // namespace penstock::wire
