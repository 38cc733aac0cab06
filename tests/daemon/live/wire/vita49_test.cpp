#include "daemon/live/wire/vita49.hpp"

#include <gtest/gtest.h>

#include "daemon/live/wire/difi.hpp"
#include "tests/daemon/live/wire/hex.hpp"

namespace penstock::live {
namespace {

vita_packet read(const std::vector<std::byte>& bytes) {
  vita_packet packet;
  EXPECT_EQ(read_vita_packet(bytes, packet), vita_fault::none);
  return packet;
}

vita_fault fault_of(std::string_view hex) {
  const std::vector<std::byte> bytes = from_hex(hex);
  vita_packet packet;
  return read_vita_packet(bytes, packet);
}

TEST(Vita49, ReadsTheHeaderThatAFlexRadioSends) {
  // Published by FlexRadio: type 1 with class id and trailer, UTC seconds, sample count, 0x408 words.
  std::vector<std::byte> bytes = from_hex("1c5f0408 20000000 00001c2d 534c02e4 60317682 0000000000001001");
  bytes.resize(0x408 * 4);
  const vita_packet packet = read(bytes);
  EXPECT_EQ(packet.kind, vita_packet::kind_of::data);
  EXPECT_EQ(packet.count, 15);
  EXPECT_EQ(packet.stream, 0x20000000U);
  EXPECT_EQ(packet.class_id, (vita_packet::class_identifier{0, 0x1C2D, 0x534C, 0x02E4}));
  EXPECT_EQ(packet.seconds, 0x60317682U);
  EXPECT_EQ(packet.fraction_kind, vita_packet::fraction_of::sample_count);
  EXPECT_EQ(packet.fraction, 0x1001U);
  EXPECT_EQ(packet.header_bytes, 28U);
  EXPECT_EQ(packet.payload.size(), 0x408U * 4 - 28 - 4);
  EXPECT_EQ(packet.trailer, 0U);
  EXPECT_EQ(packet.time_ns(48000, false), 1'613'854'338'000'000'000 + 0x1001 * 1'000'000'000LL / 48000 + 1);
  EXPECT_EQ(packet.time_ns(0, false), std::nullopt) << "a count is no time without a rate";
}

TEST(Vita49, ReadsDataWithoutAnythingElse) {
  const std::vector<std::byte> bytes = from_hex("00030003 0001 0002 0003 0004");
  const vita_packet packet = read(bytes);
  EXPECT_EQ(packet.kind, vita_packet::kind_of::data_without_stream);
  EXPECT_EQ(packet.count, 3);
  EXPECT_FALSE(packet.stream);
  EXPECT_FALSE(packet.class_id);
  EXPECT_FALSE(packet.trailer);
  EXPECT_EQ(packet.header_bytes, 4U);
  EXPECT_EQ(packet.payload.size(), 8U);
  EXPECT_EQ(packet.time_ns(1e6, true), std::nullopt);
}

TEST(Vita49, KnowsTimesOfEachKind) {
  EXPECT_EQ(read(from_hex("10600005 00000001 65000000 0000003a352943ff")).time_ns(0, false),
            0x65000000LL * 1'000'000'000 + 0x3a352943ffLL / 1000);
  EXPECT_EQ(read(from_hex("10a00005 00000001 00000000 0000000000000000")).time_ns(0, false),
            (315'964'800LL - 18) * 1'000'000'000)
      << "GPS";
  EXPECT_EQ(read(from_hex("10e00005 00000001 65000000 0000000000000000")).time_ns(0, false), std::nullopt);
  EXPECT_EQ(read(from_hex("10e00005 00000001 65000000 0000000000000000")).time_ns(0, true),
            0x65000000LL * 1'000'000'000);
  EXPECT_EQ(fault_of("10600005 00000001 65000000 000000e8d4a51000"), vita_fault::fraction) << "a whole second";
}

TEST(Vita49, MeasuresGapsByTime) {
  const vita_packet first = read(from_hex("10600005 00000001 65000000 000000e8d4a50fff"));
  const vita_packet second = read(from_hex("10600005 00000001 65000001 000000174876e7ff"));
  EXPECT_NEAR(second.samples_since(first, 1e6).value(), 1e5, 1e-3);
  EXPECT_EQ(second.samples_since(first, 0), std::nullopt);
  const vita_packet third = read(from_hex("10500005 00000001 65000001 0000000000000010"));
  const vita_packet fourth = read(from_hex("10500005 00000001 65000001 0000000000000020"));
  EXPECT_EQ(fourth.samples_since(third, 0), 16.0);
  EXPECT_EQ(third.samples_since(fourth, 0), -16.0);
  EXPECT_EQ(fourth.samples_since(first, 1e6), std::nullopt) << "of another kind";
}

TEST(Vita49, ReadsTheTrailer) {
  const vita_packet packet = read(from_hex("14000004 00000001 11223344 41041000"));
  EXPECT_EQ(packet.payload.size(), 4U);
  EXPECT_EQ(packet.trailer, 0x41041000U);
  EXPECT_EQ(packet.valid_data(), true);
  EXPECT_EQ(packet.sample_loss(), true);
  EXPECT_EQ(packet.reference_lock(), std::nullopt);
}

TEST(Vita49, RefusesWhatIsNoPacket) {
  EXPECT_EQ(fault_of(""), vita_fault::truncated);
  EXPECT_EQ(fault_of("100000"), vita_fault::truncated);
  EXPECT_EQ(fault_of("10000003 00000001"), vita_fault::truncated);
  EXPECT_EQ(fault_of("10000001 00000001"), vita_fault::size);
  EXPECT_EQ(fault_of("14000002 00000001"), vita_fault::size) << "no room for the trailer";
  EXPECT_EQ(fault_of("18600005 00000001 00000000 00000000 00000000"), vita_fault::size);
  EXPECT_EQ(fault_of("00000000"), vita_fault::size);
  EXPECT_EQ(fault_of("80000001"), vita_fault::unknown_kind);
  EXPECT_EQ(fault_of("10000003 00000001 11223344 55667788"), vita_fault::none) << "what follows is ignored";
}

// A DIFI context packet of 27 words, made by hand from IEEE-ISTO 4900: 1 MHz of samples, 800 kHz of bandwidth, at
// 1.95 GHz, 8 bit complex, reference locked.
constexpr const char* context =
    "496e001b 00000007 006a621e 00000001 67c0cc57 0000002e90edd000"
    "fbb98000 00000064 000000c350000000 0000000000000000 000743aa38000000 0000000000000000"
    "0000ff80 0000f980 000000f424000000 0000000000000000 00000000 a0020000"
    "a00001c7 00000000";

TEST(Vita49, ReadsAContextPacket) {
  const std::vector<std::byte> bytes = from_hex(context);
  ASSERT_EQ(bytes.size(), 27U * 4);
  const vita_packet packet = read(bytes);
  EXPECT_EQ(packet.kind, vita_packet::kind_of::context);
  const std::optional<vita_context> read = read_vita_context(packet);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->changed());
  EXPECT_EQ(read->bandwidth, 800e3);
  EXPECT_EQ(read->if_frequency, 0.0);
  EXPECT_EQ(read->rf_frequency, 1.95e9);
  EXPECT_EQ(read->sample_rate, 1e6);
  EXPECT_EQ(read->reference_level_dbm, -1.0);
  EXPECT_EQ(read->time_adjustment_fs, 0);
  EXPECT_EQ(read->calibrated_at, 0U);
  EXPECT_EQ(read->over_ranges, std::nullopt);
  EXPECT_EQ(read->reference_lock(), true);
  ASSERT_TRUE(read->format);
  EXPECT_TRUE(read->format->link_efficient);
  EXPECT_EQ(read->format->number, vita_payload_format::number_of::complex);
  EXPECT_EQ(read->format->item, 0);
  EXPECT_EQ(read->format->item_bits, 8);
  EXPECT_TRUE(read->format->is_plain());
}

TEST(Vita49, ReadsOnlyTheFieldsThatAreThere) {
  const std::vector<std::byte> bytes = from_hex("40000005 00000001 00200000 0000000000100000");
  const std::optional<vita_context> some = read_vita_context(read(bytes));
  ASSERT_TRUE(some);
  EXPECT_FALSE(some->changed());
  EXPECT_EQ(some->sample_rate, 1.0);
  EXPECT_FALSE(some->rf_frequency);
  EXPECT_FALSE(some->format);
}

TEST(Vita49, RefusesAContextThatIsCutShortOrHasAttributes) {
  EXPECT_FALSE(read_vita_context(read(from_hex("40000002 00000001"))));
  EXPECT_FALSE(read_vita_context(read(from_hex("40000004 00000001 00200000 00000000"))));
  EXPECT_FALSE(read_vita_context(read(from_hex("40000005 00000001 00200080 0000000000100000"))));
}

TEST(Difi, ClassifiesPackets) {
  const auto kind_of = [](std::string_view hex) { return classify_difi(read(from_hex(hex))); };
  EXPECT_EQ(kind_of(context), difi_packet::context);
  EXPECT_EQ(kind_of("18e00007 00000001 006a621e 00000000 65000000 0000000000000000"), difi_packet::data);
  EXPECT_EQ(kind_of("58e00007 00000001 006a621e 00000004 65000000 0000000000000000"), difi_packet::version);
  EXPECT_EQ(kind_of("68e00007 00000001 006a621e 00000003 65000000 0000000000000000"), difi_packet::command);
  EXPECT_EQ(kind_of("18e00007 00000001 006a621f 00000000 65000000 0000000000000000"), difi_packet::not_difi)
      << "another OUI";
  EXPECT_EQ(kind_of("10e00005 00000001 65000000 0000000000000000"), difi_packet::not_difi) << "no class";
  EXPECT_EQ(kind_of("18200006 00000001 006a621e 00000000 0000000000000000"), difi_packet::not_difi) << "no seconds";
  EXPECT_EQ(kind_of("18c00005 00000001 006a621e 00000000 65000000"), difi_packet::not_difi) << "no fraction";
  EXPECT_EQ(kind_of("1ce00008 00000001 006a621e 00000000 65000000 0000000000000000 00000000"), difi_packet::not_difi)
      << "a trailer";
  EXPECT_EQ(kind_of("18e00007 00000001 006a621e 00000002 65000000 0000000000000000"), difi_packet::not_difi);
}

}  // namespace
}  // namespace penstock::live
