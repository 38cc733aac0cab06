#include "daemon/live/wire/sequence_header.hpp"

#include <gtest/gtest.h>

#include "daemon/live/wire/rtl_tcp.hpp"
#include "tests/daemon/live/wire/hex.hpp"

namespace penstock::live {
namespace {

std::optional<sequence_header> read(sequence_format format, std::string_view hex) {
  const std::vector<std::byte> bytes = from_hex(hex);
  return read_sequence_header(format, bytes, bytes.size());
}

TEST(SequenceHeader, ReadsASixtyFourBitNumber) {
  const auto header = read(sequence_format::sequence, "0102000000000080 aabbccdd");
  ASSERT_TRUE(header);
  EXPECT_EQ(header->number, 0x8000000000000201U);
  EXPECT_EQ(header->header_bytes, 8U);
  EXPECT_EQ(header->payload_bytes, 4U);
  EXPECT_EQ(read(sequence_format::sequence_big, "8000000000000201 aabbccdd")->number, 0x8000000000000201U);
  EXPECT_FALSE(read(sequence_format::sequence, "01020000000000"));
}

// What network.udp_sink of GNU Radio 3.10.5 sent; with the size 6 bytes follow that it does not set.
TEST(SequenceHeader, ReadsWhatGnuRadioSent) {
  const auto plain = read(sequence_format::gnuradio, "0200000000000000 0000004100000000 0000104100000000");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->number, 2U);
  EXPECT_FALSE(plain->sized);
  const auto sized =
      read(sequence_format::gnuradio_sized, "0300000000000000 2000 2174967f0000 0000804100000000 0000884100000000");
  ASSERT_TRUE(sized);
  EXPECT_EQ(sized->number, 3U);
  EXPECT_TRUE(sized->sized);
  EXPECT_EQ(sized->header_bytes, 16U);
  EXPECT_EQ(sized->payload_bytes, 16U);
  EXPECT_FALSE(read(sequence_format::gnuradio_sized, "0300000000000000 2000 2174967f0000 0000804100000000"))
      << "cut short";
}

TEST(SequenceHeader, ReadsCompressedHeaders) {
  const auto timed = read(sequence_format::chdr, "2abc0014 00000005 0000000000001001 11223344");
  ASSERT_TRUE(timed);
  EXPECT_EQ(timed->number, 0xABCU);
  EXPECT_EQ(timed->number_bits, 12U);
  EXPECT_EQ(timed->stream, 5U);
  EXPECT_EQ(timed->ticks, 0x1001U);
  EXPECT_EQ(timed->payload_bytes, 4U);
  EXPECT_FALSE(timed->control);
  EXPECT_EQ(read(sequence_format::chdr, "0abc000c 00000005 11223344")->payload_bytes, 4U);
  EXPECT_TRUE(read(sequence_format::chdr, "8abc000c 00000005 11223344")->control);
  EXPECT_FALSE(read(sequence_format::chdr, "2abc0010 00000005 00000000"));
}

TEST(SequenceHeader, ExtendsShortNumbersToTheNearest) {
  EXPECT_EQ(extend_number(3, 4, 0x123), 0x123U);
  EXPECT_EQ(extend_number(5, 4, 0x123), 0x125U);
  EXPECT_EQ(extend_number(1, 4, 0x123), 0x121U);
  EXPECT_EQ(extend_number(0, 4, 0x12F), 0x130U);
  EXPECT_EQ(extend_number(0xF, 4, 0x130), 0x12FU);
  EXPECT_EQ(extend_number(7, 64, 0x130), 7U);
  EXPECT_EQ(extend_number(0xFFF, 12, 0), ~std::uint64_t{0}) << "one before the first";
}

TEST(RtlTcp, ReadsTheGreeting) {
  const auto greeting = read_rtl_tcp_greeting(from_hex("52544c30 00000005 0000001d"));
  ASSERT_TRUE(greeting);
  EXPECT_EQ(greeting->tuner_name(), "R820T");
  EXPECT_EQ(greeting->gains, 29U);
  EXPECT_EQ(read_rtl_tcp_greeting(from_hex("52544c30 ffffffff 0000001d"))->tuner_name(), "unknown");
  EXPECT_FALSE(read_rtl_tcp_greeting(from_hex("52544c31 00000005 0000001d")));
  EXPECT_FALSE(read_rtl_tcp_greeting(from_hex("52544c30 00000005 000000")));
}

TEST(RtlTcp, WritesCommands) {
  const rtl_tcp_message message = encode(rtl_tcp_command::frequency, 100'300'000);
  EXPECT_EQ(std::vector(message.begin(), message.end()), from_hex("01 05fa74e0"));
}

}  // namespace
}  // namespace penstock::live
