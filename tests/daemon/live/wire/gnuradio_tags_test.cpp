#include "daemon/live/wire/gnuradio_tags.hpp"

#include <gtest/gtest.h>

#include "tests/daemon/live/wire/hex.hpp"

namespace penstock::live {
namespace {

// What zeromq.push_sink of GNU Radio 3.10.5 sent: three tags of a radio, then complex samples.
constexpr const char* captured =
    "f05f01 0000000000000000 0300000000000000"
    "0000000000000000 02000772785f74696d65 0c000000020b000000006553f100043fd0000000000000 02000475737270"
    "0000000000000000 02000772785f72617465 0441424f8000000000 02000475737270"
    "0000000000000000 02000772785f66726571 044197e9d380000000 02000475737270"
    "00000000 0000003f 0000803f 0000003f";

TEST(GnuradioTags, ReadsWhatGnuRadioSent) {
  const std::vector<std::byte> bytes = from_hex(captured);
  const std::optional<gnuradio_message> message = read_gnuradio_message(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->offset, 0U);
  EXPECT_EQ(message->samples.size(), 16U);
  gnuradio_tag_cursor cursor(*message);
  const std::optional<gnuradio_tag> first = cursor.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->source.symbol(), "usrp");
  const radio_tag time = decode(*first);
  EXPECT_EQ(time.kind, radio_tag::kind_of::time);
  EXPECT_EQ(time.time_ns, 1'700'000'000'250'000'000);
  const radio_tag rate = decode(cursor.next().value());
  EXPECT_EQ(rate.kind, radio_tag::kind_of::rate);
  EXPECT_EQ(rate.number, 2.4e6);
  const radio_tag frequency = decode(cursor.next().value());
  EXPECT_EQ(frequency.kind, radio_tag::kind_of::frequency);
  EXPECT_EQ(frequency.number, 100.3e6);
  EXPECT_FALSE(cursor.next());
}

TEST(GnuradioTags, ReadsAMessageWithoutTags) {
  const std::vector<std::byte> bytes = from_hex("f05f01 3000000000000000 0000000000000000 0000404200000 03f");
  const std::optional<gnuradio_message> message = read_gnuradio_message(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->offset, 0x30U);
  EXPECT_EQ(message->tags, 0U);
  EXPECT_EQ(message->samples.size(), 8U);
}

TEST(GnuradioTags, RefusesEveryCutBeforeTheSamples) {
  const std::vector<std::byte> bytes = from_hex(captured);
  for (std::size_t length = 0; length < bytes.size() - 16; ++length) {
    EXPECT_FALSE(read_gnuradio_message(std::span(bytes).first(length))) << length;
  }
  EXPECT_TRUE(read_gnuradio_message(std::span(bytes).first(bytes.size() - 16)));
}

TEST(GnuradioTags, RefusesAnotherWordVersionOrTooManyTags) {
  EXPECT_FALSE(read_gnuradio_message(from_hex("f15f01 3000000000000000 0000000000000000")));
  EXPECT_FALSE(read_gnuradio_message(from_hex("5ff001 3000000000000000 0000000000000000"))) << "big-endian";
  EXPECT_FALSE(read_gnuradio_message(from_hex("f05f02 3000000000000000 0000000000000000")));
  EXPECT_FALSE(read_gnuradio_message(from_hex("f05f01 3000000000000000 ffffffffffffffff 00")));
}

TEST(GnuradioTags, BelievesNoTimeOrRateThatCannotBe) {
  const auto kind_of = [](std::string_view key, std::string_view value) {
    const std::vector<std::byte> bytes = from_hex("f05f01 0000000000000000 0100000000000000 0000000000000000" +
                                                  std::string(key) + std::string(value) + "06");
    return decode(gnuradio_tag_cursor(read_gnuradio_message(bytes).value()).next().value()).kind;
  };
  constexpr std::string_view time = "02000772785f74696d65";
  constexpr std::string_view rate = "02000772785f72617465";
  EXPECT_EQ(kind_of(time, "0c000000020b000000006553f10004 3ff0000000000000"), radio_tag::kind_of::other)
      << "a fraction of 1";
  EXPECT_EQ(kind_of(time, "0c000000020b000000006553f10004 7ff8000000000000"), radio_tag::kind_of::other) << "nan";
  EXPECT_EQ(kind_of(time, "0c000000020bffffffffffffffff04 3fd0000000000000"), radio_tag::kind_of::other);
  EXPECT_EQ(kind_of(time, "0c000000010b000000006553f100"), radio_tag::kind_of::other);
  EXPECT_EQ(kind_of(time, "06"), radio_tag::kind_of::other);
  EXPECT_EQ(kind_of(rate, "04 c1424f8000000000"), radio_tag::kind_of::other) << "a negative rate";
  EXPECT_EQ(kind_of("06", "06"), radio_tag::kind_of::other) << "a key that is no symbol";
  EXPECT_EQ(kind_of(rate, "03 00000005"), radio_tag::kind_of::rate) << "an integer will do";
}

TEST(GnuradioTags, WritesTheSameBytes) {
  std::vector<std::byte> out(3);
  gnuradio_header_writer writer(out, 48);
  writer.time(48, 1'700'000'000'250'000'000);
  writer.rate(48, 2.4e6);
  writer.frequency(50, 100.3e6);
  EXPECT_EQ(out, from_hex("f05f01 3000000000000000 0300000000000000"
                          "3000000000000000 02000772785f74696d65 0c000000020b000000006553f100043fd0000000000000"
                          "020008 70656e73746f636b"
                          "3000000000000000 02000772785f72617465 0441424f8000000000 020008 70656e73746f636b"
                          "3200000000000000 02000772785f66726571 044197e9d380000000 020008 70656e73746f636b"));
  EXPECT_EQ(read_gnuradio_message(out)->tags, 3U);
}

}  // namespace
}  // namespace penstock::live
