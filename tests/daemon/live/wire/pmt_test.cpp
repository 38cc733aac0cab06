#include "daemon/live/wire/pmt.hpp"

#include <gtest/gtest.h>

#include "tests/daemon/live/wire/hex.hpp"

namespace penstock::live {
namespace {

// The bytes are what GNU Radio 3.10.5 serializes.
class Pmt : public ::testing::Test {
 protected:
  pmt_value read(std::string_view hex) {
    bytes_ = from_hex(hex);
    std::span<const std::byte> rest = bytes_;
    const std::optional<pmt_value> value = take_pmt(rest);
    EXPECT_TRUE(value) << hex;
    EXPECT_TRUE(rest.empty()) << hex;
    return value.value();
  }
  bool is_refused(std::string_view hex, const pmt_limits& limits = {}) {
    bytes_ = from_hex(hex);
    std::span<const std::byte> rest = bytes_;
    const bool refused = !take_pmt(rest, limits);
    EXPECT_TRUE(!refused || rest.size() == bytes_.size()) << "what was refused is not taken";
    return refused;
  }

  std::vector<std::byte> bytes_;
};

TEST_F(Pmt, ReadsSingleValues) {
  EXPECT_EQ(read("00").boolean(), true);
  EXPECT_EQ(read("01").boolean(), false);
  EXPECT_EQ(read("06").kind(), pmt_kind::null);
  EXPECT_EQ(read("02000772785f74696d65").symbol(), "rx_time");
  EXPECT_EQ(read("03fffffffb").integer(), -5);
  EXPECT_EQ(read("03fffffffb").natural(), std::nullopt);
  EXPECT_EQ(read("0d0000010000000000").integer(), std::int64_t{1} << 40);
  EXPECT_EQ(read("0b0000000000000007").natural(), 7U);
  EXPECT_EQ(read("0bffffffffffffffff").integer(), std::nullopt);
  EXPECT_EQ(read("0441424f8000000000").real(), 2.4e6);
  EXPECT_EQ(read("053ff00000000000004000000000000000").complex(), std::complex(1.0, 2.0));
}

TEST_F(Pmt, ReadsValuesInValues) {
  const pmt_value tuple = read("0c000000020b000000006553f100043fd0000000000000");
  ASSERT_EQ(tuple.size(), 2U);
  EXPECT_EQ(tuple.item(0)->natural(), 1'700'000'000U);
  EXPECT_EQ(tuple.item(1)->real(), 0.25);
  EXPECT_FALSE(tuple.item(2));
  const pmt_value pair = read("0703000000010300000002");
  EXPECT_EQ(pair.item(1)->integer(), 2);
  const pmt_value dictionary = read("0907020001620300000002090702000161030000000106");
  EXPECT_EQ(dictionary.item(0)->item(0)->symbol(), "b");
  EXPECT_EQ(dictionary.item(1)->item(0)->item(1)->integer(), 1);
  EXPECT_EQ(read("08000000020606").size(), 2U);
}

TEST_F(Pmt, StepsOverUniformVectors) {
  for (const char* hex :
       {"0a00000000030100010203", "0a0100000002010001fe", "0a02000000030100000100020003",
        "0a040000000201000000000100000002", "0a060000000101000000000000000001", "0a080000000201003f80000040000000",
        "0a0a0000000101003f80000040000000", "0a0b0000000101003ff00000000000004000000000000000"}) {
    EXPECT_EQ(read(hex).kind(), pmt_kind::uniform_vector);
  }
  EXPECT_TRUE(is_refused("0a0c000000000100")) << "type 12 is none";
  EXPECT_TRUE(is_refused("0a0b 7fffffff 01 00 00")) << "more numbers than bytes";
}

TEST_F(Pmt, RefusesWhatIsCutShort) {
  const std::string whole = "0c000000020b000000006553f100043fd0000000000000";
  for (std::size_t digits = 0; digits < whole.size(); digits += 2) {
    EXPECT_TRUE(is_refused(whole.substr(0, digits))) << digits;
  }
  EXPECT_TRUE(is_refused("0e"));
  EXPECT_TRUE(is_refused("ff"));
}

TEST_F(Pmt, BoundsDepthCountAndSize) {
  std::string deep;
  for (int level = 0; level < 15; ++level) {
    deep += "0c00000002 06";
  }
  EXPECT_FALSE(is_refused(deep + "06", {.depth = 16})) << "the last of a row is no deeper than its neighbours";
  const auto nested = [](int levels) {
    std::string text;
    for (int level = 0; level < levels; ++level) {
      text += "0c00000002";
    }
    for (int value = 0; value <= levels; ++value) {
      text += "06";
    }
    return text;
  };
  EXPECT_FALSE(is_refused(nested(16), {.depth = 16}));
  EXPECT_TRUE(is_refused(nested(17), {.depth = 16}));
  EXPECT_TRUE(is_refused(nested(1000), {.depth = 1000, .values = 10000})) << "64 whatever is asked for";
  EXPECT_TRUE(is_refused("0cffffffff")) << "more values than are allowed";
  EXPECT_TRUE(is_refused("0c00000003060606", {.values = 3}));
  EXPECT_FALSE(is_refused("0c00000003060606", {.values = 4}));
  EXPECT_TRUE(is_refused("0b0000000000000007", {.bytes = 8}));
}

TEST_F(Pmt, TakesALongListThatIsNotDeep) {
  std::string list;
  for (int item = 0; item < 300; ++item) {
    list += "07 0300000001";
  }
  EXPECT_FALSE(is_refused(list + "06", {.depth = 2}));
}

TEST_F(Pmt, WritesWhatGnuRadioWrites) {
  std::vector<std::byte> out;
  pmt_writer writer(out);
  writer.tuple(2);
  writer.natural(1'700'000'000);
  writer.real(0.25);
  writer.symbol("rx_time");
  writer.integer(-5);
  writer.integer(std::int64_t{1} << 40);
  writer.boolean(true);
  writer.pair();
  writer.integer(1);
  writer.null();
  EXPECT_EQ(out, from_hex("0c000000020b000000006553f100043fd0000000000000"
                          "02000772785f74696d65 03fffffffb 0d0000010000000000 00 07 0300000001 06"));
}

}  // namespace
}  // namespace penstock::live
