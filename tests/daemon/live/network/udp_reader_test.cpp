#include "daemon/live/network/udp_reader.hpp"

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include "tests/daemon/live/network/written_receiver.hpp"
#include "tests/daemon/live/wire/hex.hpp"

namespace penstock::live {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using time_point = sample_reader::time_point;
using std::chrono::milliseconds;

class UdpReader : public ::testing::Test {
 protected:
  static constexpr std::size_t packet_samples = 16;  // of 4 bytes

  void listen(udp_settings settings) {
    if (settings.listen.empty()) {
      settings.listen = "127.0.0.1:0";
    }
    settings.sample_bytes = 4;
    reader_.emplace(settings);
    const std::string& address = reader_->address();
    const std::size_t colon = address.rfind(':');
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
    ASSERT_EQ(::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr), 1);
    socket_ = file_descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (IN_MULTICAST(ntohl(to.sin_addr.s_addr))) {
      const ip_mreqn card{{}, {}, static_cast<int>(::if_nametoindex("lo"))};
      ASSERT_EQ(::setsockopt(socket_.number(), IPPROTO_IP, IP_MULTICAST_IF, &card, sizeof card), 0);
    }
    ASSERT_EQ(::connect(socket_.number(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  void send(const std::vector<std::byte>& bytes) {
    ASSERT_EQ(::send(socket_.number(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  // Sample k of packet n has the value n × packet_samples + k.
  static std::vector<std::byte> samples_of(std::uint64_t number, std::size_t count = packet_samples) {
    std::vector<std::uint32_t> values(count);
    std::iota(values.begin(), values.end(), static_cast<std::uint32_t>(number * packet_samples));
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  static std::vector<std::byte> numbered(std::uint64_t number) {
    std::vector<std::byte> packet(sizeof number);
    std::memcpy(packet.data(), &number, sizeof number);
    const std::vector<std::byte> samples = samples_of(number);
    packet.insert(packet.end(), samples.begin(), samples.end());
    return packet;
  }
  void send_numbers(std::initializer_list<std::uint64_t> numbers) {
    for (const std::uint64_t number : numbers) {
      send(numbered(number));
    }
  }
  // Loopback hands a datagram over before `send` returns.
  read_progress read_all() {
    read_progress progress = read_progress::some;
    while (progress == read_progress::some) {
      progress = reader_->read(receiver_, now_, now_ + std::chrono::hours{1});
    }
    return progress;
  }
  // Whether each delivered sample has the value that its index says.
  static bool is_in_place(const written_receiver& receiver) {
    const std::vector<std::uint32_t> values = receiver.numbers<std::uint32_t>();
    const auto& places = receiver.streams.front().places;
    for (std::size_t run = 0; run < places.size(); ++run) {
      const std::size_t end = run + 1 < places.size() ? places[run + 1].second : values.size();
      for (std::size_t at = places[run].second; at < end; ++at) {
        if (values[at] != static_cast<std::uint32_t>(places[run].first) + (at - places[run].second)) {
          return false;
        }
      }
    }
    return true;
  }
  const written_receiver::one_stream& stream(std::size_t number = 0) { return receiver_.streams.at(number); }

  std::optional<udp_reader> reader_;
  file_descriptor socket_;
  written_receiver receiver_{4};
  time_point now_{};
};

TEST_F(UdpReader, ReadsRawSamples) {
  listen({.framing = udp_framing::raw});
  EXPECT_EQ(read_all(), read_progress::none);
  for (std::uint64_t number = 0; number < 200; ++number) {
    send(samples_of(number));
  }
  read_all();
  ASSERT_EQ(stream().name, "udp");
  EXPECT_EQ(stream().delivered, 200 * packet_samples);
  EXPECT_TRUE(is_in_place(receiver_));
  EXPECT_EQ(stream().quality, time_quality::arrival);
  EXPECT_LT(stream().runs, 100U) << "packets are handed over together";
  send(from_hex("00112233 44"));
  read_all();
  EXPECT_THAT(receiver_.complaints, ElementsAre(Pair("a packet holds no whole number of samples", 1)));
}

TEST_F(UdpReader, KnowsWhenTheKernelTookADatagram) {
  const auto wall_clock = [] {
    return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  for (const bool kernel_times : {false, true}) {
    receiver_ = written_receiver(4);
    listen({.framing = udp_framing::sequence, .kernel_times = kernel_times});
    std::int64_t before = 0;
    std::int64_t between = 0;
    std::uint64_t number = 0;
    const auto exchange = [&] {
      before = wall_clock();
      send_numbers({number, number + 1});
      between = wall_clock();
      number += 2;
      read_all();
    };
    exchange();
    // The kernel begins a while after it was asked to; until then the time is that of the read.
    for (int tries = 0; kernel_times && stream().time_ns > between && tries < 10'000; ++tries) {
      exchange();
    }
    EXPECT_EQ(stream().quality, time_quality::arrival);
    EXPECT_GE(stream().time_ns, kernel_times ? before : between);
    EXPECT_LE(stream().time_ns, kernel_times ? between : wall_clock());
  }
}

TEST_F(UdpReader, PutsSamplesIntoTheReceiversMemory) {
  listen({.framing = udp_framing::sequence});
  receiver_.give_room(50 * packet_samples * 4 + 8);
  for (std::uint64_t number = 0; number < 300; ++number) {
    send(numbered(number));
    if (number % 64 == 63) {
      read_all();
    }
  }
  read_all();
  EXPECT_TRUE(is_in_place(receiver_));
  EXPECT_EQ(stream().delivered, 300 * packet_samples);
  EXPECT_GT(receiver_.in_room, 180 * packet_samples * 4) << "50 of 64 packets are not copied";
}

TEST_F(UdpReader, MovesWhatIsMisplacedOutOfTheReceiversMemory) {
  listen({.framing = udp_framing::sequence});
  send_numbers({0, 1});
  read_all();
  receiver_.give_room(4096);
  send_numbers({2, 3, 5, 4, 6, 8, 9, 7, 10});
  read_all();
  EXPECT_TRUE(is_in_place(receiver_));
  EXPECT_EQ(stream().delivered, 11 * packet_samples);
  EXPECT_EQ(stream().gaps, 0U);
  EXPECT_EQ(reader_->account().restored, 3U);
  EXPECT_EQ(stream().restored, 3 * packet_samples);
}

TEST_F(UdpReader, KnowsAGapExactlyAndWaitsForIt) {
  listen({.framing = udp_framing::sequence, .max_wait = milliseconds{2}});
  send_numbers({7, 8, 12});
  read_all();
  EXPECT_EQ(stream().delivered, 2 * packet_samples);
  EXPECT_EQ(reader_->wanted_at(), now_ + milliseconds{2});
  now_ += milliseconds{2};
  read_all();
  EXPECT_EQ(stream().delivered, 3 * packet_samples);
  EXPECT_EQ(stream().gaps, 3 * packet_samples);
  EXPECT_EQ(stream().places.front().first, static_cast<std::int64_t>(7 * packet_samples));
  EXPECT_EQ(reader_->wanted_at(), time_point::max());
  send_numbers({9, 9, 13});
  read_all();
  EXPECT_EQ(stream().late, packet_samples);
  EXPECT_EQ(stream().duplicates, packet_samples);
  EXPECT_EQ(reader_->account(), (reorder_account{.delivered = 4, .lost = 2, .late = 1, .duplicates = 1}));
}

TEST_F(UdpReader, SeesThatGnuRadioSendsNoSize) {
  listen({.framing = udp_framing::gnuradio, .window = 0});
  send_numbers({1, 2, 3, 5});
  read_all();
  EXPECT_EQ(stream().delivered, 4 * packet_samples);
  EXPECT_EQ(stream().gaps, packet_samples);
  EXPECT_TRUE(is_in_place(receiver_));
}

TEST_F(UdpReader, ReadsWhatGnuRadioSendsWithASize) {
  listen({.framing = udp_framing::gnuradio});
  const auto sized = [](std::uint64_t number, std::size_t count) {
    std::vector<std::byte> packet = numbered(number);
    packet.resize(8);
    const auto size = static_cast<std::uint16_t>(16 + count * 4);
    packet.resize(16, std::byte{0xAB});
    std::memcpy(&packet[8], &size, sizeof size);
    const std::vector<std::byte> samples = samples_of(number, count);
    packet.insert(packet.end(), samples.begin(), samples.end());
    return packet;
  };
  for (std::uint64_t number = 1; number < 80; ++number) {
    send(sized(number, packet_samples));
  }
  std::vector<std::byte> cut = sized(80, packet_samples);
  cut.resize(40);
  send(cut);
  send(sized(81, packet_samples));
  send(sized(82, 3));
  send({});
  read_all();
  now_ += milliseconds{10};
  read_all();
  EXPECT_EQ(stream().delivered, 80 * packet_samples + 3);
  EXPECT_EQ(stream().gaps, packet_samples);
  EXPECT_THAT(receiver_.complaints, ElementsAre(Pair("a packet is shorter than its header says", 1)));
  EXPECT_TRUE(is_in_place(receiver_));
}

TEST_F(UdpReader, SaysWhatTheKernelDropped) {
  for (const udp_framing framing : {udp_framing::sequence, udp_framing::raw}) {
    receiver_ = written_receiver(4);
    listen({.framing = framing, .socket_buffer = 1 << 14});
    const auto packet_of = [&](std::uint64_t number) {
      return framing == udp_framing::raw ? samples_of(number) : numbered(number);
    };
    send(packet_of(0));
    send(packet_of(1));
    send(packet_of(2));
    read_all();
    for (std::uint64_t number = 3; number < 500; ++number) {
      send(packet_of(number));
    }
    read_all();
    send(packet_of(500));
    read_all();
    now_ += milliseconds{10};
    read_all();
    ASSERT_GT(reader_->kernel_drops(), 0U);
    EXPECT_EQ(stream().kernel, reader_->kernel_drops() * packet_samples);
    EXPECT_EQ(stream().delivered + stream().kernel, 501 * packet_samples);
    EXPECT_EQ(stream().gaps, framing == udp_framing::raw ? 0 : stream().kernel);
  }
}

TEST_F(UdpReader, TakesApartWhatWasJoined) {
  listen({.framing = udp_framing::sequence});
  const std::size_t each = numbered(0).size();
  const int segment = static_cast<int>(each);
  if (::setsockopt(socket_.number(), IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0) {
    GTEST_SKIP() << "this kernel does not cut datagrams (UDP_SEGMENT)";
  }
  for (std::uint64_t first = 0; first < 120; first += 40) {
    std::vector<std::byte> many;
    for (std::uint64_t number = first; number < first + 40; ++number) {
      const std::vector<std::byte> one = numbered(number);
      many.insert(many.end(), one.begin(), one.end());
    }
    send(many);
  }
  read_all();
  EXPECT_EQ(stream().delivered, 120 * packet_samples);
  EXPECT_TRUE(is_in_place(receiver_));
  EXPECT_EQ(reader_->account().delivered, 120U);
}

TEST_F(UdpReader, BeginsAnEpochWhereTheSenderBeganAgain) {
  listen({.framing = udp_framing::sequence});
  for (std::uint64_t number = 100'000; number < 100'010; ++number) {
    send_numbers({number});
  }
  send_numbers({1, 2, 3});
  read_all();
  EXPECT_THAT(stream().epochs, ElementsAre("the sender's numbers began again"));
  EXPECT_EQ(stream().delivered, 13 * packet_samples);
  EXPECT_EQ(stream().gaps, 0U);
}

TEST_F(UdpReader, ListensToAGroup) {
  listen({.listen = "239.255.77.1:0", .interface = "lo", .framing = udp_framing::sequence});
  send_numbers({1, 2, 3});
  read_all();
  ASSERT_FALSE(receiver_.streams.empty());
  EXPECT_EQ(stream().delivered, 3 * packet_samples);
}

TEST_F(UdpReader, RefusesAddressesThatCannotBe) {
  const auto complaint = [](const std::string& listen) -> std::string {
    try {
      const udp_reader reader({.listen = listen});
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(complaint("127.0.0.1"), "cannot listen on 127.0.0.1: it is not HOST:PORT");
  EXPECT_EQ(complaint("127.0.0.1:70000"), "cannot listen on 127.0.0.1:70000: it is not HOST:PORT");
  EXPECT_EQ(complaint("north:5000"), "cannot listen on north:5000: north is no address");
  EXPECT_EQ(complaint("192.0.2.1:5000"), "cannot listen on 192.0.2.1:5000: Cannot assign requested address");
  EXPECT_EQ(complaint("[::1]:0"), "");
}

// -- VITA-49
// -----------------------------------------------------------------------------------------------------------

class UdpReaderVita : public UdpReader {
 protected:
  static void big(std::vector<std::byte>& out, std::uint64_t value, int bytes) {
    for (int byte = bytes - 1; byte >= 0; --byte) {
      out.push_back(static_cast<std::byte>(value >> (8 * byte)));
    }
  }
  // 16 complex samples of two 16-bit numbers, as 32-bit numbers of which the halves are turned round on the wire.
  static std::vector<std::byte> data(std::uint32_t id, std::uint64_t number, bool trailer = false) {
    constexpr double rate = 1e6;
    const double time = 1000 + static_cast<double>(number * packet_samples) / rate;
    std::vector<std::byte> out;
    const std::uint32_t words = 5 + packet_samples + (trailer ? 1 : 0);
    big(out, 0x10600000U | (trailer ? 0x04000000U : 0) | (number % 16) << 16U | words, 4);
    big(out, id, 4);
    big(out, static_cast<std::uint64_t>(time), 4);
    big(out, static_cast<std::uint64_t>((time - std::floor(time)) * 1e12), 8);
    for (std::size_t sample = 0; sample < packet_samples; ++sample) {
      const std::uint64_t value = number * packet_samples + sample;
      big(out, value & 0xFFFFU, 2);
      big(out, value >> 16U & 0xFFFFU, 2);
    }
    if (trailer) {
      big(out, 0x01001000U, 4);
    }
    return out;
  }
  static std::vector<std::byte> context(std::uint32_t id, double rate, double frequency) {
    std::vector<std::byte> out;
    big(out, 0x40000007U, 4);
    big(out, id, 4);
    big(out, 0x08200000U, 4);
    big(out, static_cast<std::uint64_t>(frequency * (1 << 20)), 8);
    big(out, static_cast<std::uint64_t>(rate * (1 << 20)), 8);
    return out;
  }
  void listen_to(udp_framing framing) { listen({.framing = framing, .number_bytes = 2, .sample_rate = 1e6}); }
};

TEST_F(UdpReaderVita, ReadsStreamsOfBigEndianSamples) {
  listen_to(udp_framing::vita49);
  for (std::uint64_t number = 0; number < 100; ++number) {
    send(data(0x11, number));
    send(data(0x22, number, true));
  }
  read_all();
  ASSERT_EQ(receiver_.streams.size(), 2U);
  EXPECT_EQ(stream(0).name, "0x11");
  EXPECT_EQ(stream(1).name, "0x22");
  for (const std::size_t number : {0U, 1U}) {
    std::vector<std::uint32_t> expected(100 * packet_samples);
    std::iota(expected.begin(), expected.end(), 0U);
    EXPECT_EQ(receiver_.numbers<std::uint32_t>(number), expected);
    EXPECT_EQ(stream(number).gaps, 0U);
    EXPECT_EQ(stream(number).quality, time_quality::source);
  }
  EXPECT_EQ(stream(0).suspected, 0U);
  EXPECT_EQ(stream(1).suspected, 100U) << "its trailer says that samples were lost";
}

TEST_F(UdpReaderVita, MeasuresAGapThatIsLongerThanItsCount) {
  listen_to(udp_framing::vita49);
  for (const std::uint64_t number : {5U, 6U, 7U, 8U, 9U}) {
    send(data(1, number));
  }
  send(data(1, 12));
  send(data(1, 11));
  send(data(1, 10));
  for (std::uint64_t number = 500; number < 600; ++number) {
    send(data(1, number));
  }
  read_all();
  now_ += milliseconds{10};
  read_all();
  EXPECT_EQ(stream().gaps, (500 - 13) * packet_samples);
  EXPECT_EQ(stream().delivered, 108 * packet_samples);
  EXPECT_EQ(reader_->account().restored, 2U);
  EXPECT_NEAR(static_cast<double>(stream().time_ns), 1000e9, 1e9);
}

TEST_F(UdpReaderVita, BeginsAnEpochWhereTheContextChanges) {
  listen_to(udp_framing::vita49);
  send(context(1, 1e6, 100e6));
  send(data(1, 0));
  send(data(1, 1));
  send(context(1, 1e6, 100e6));
  send(data(1, 2));
  send(context(1, 1e6, 101e6));
  send(data(1, 3));
  send(context(1, 2e6, 101e6));
  send(data(1, 4));
  read_all();
  EXPECT_THAT(stream().epochs, ElementsAre("the frequency changed", "the sample rate changed"));
  EXPECT_EQ(stream().delivered, 5 * packet_samples);
}

TEST_F(UdpReaderVita, TakesOnlyWhatDifiAllows) {
  listen_to(udp_framing::difi);
  send(data(1, 0));
  std::vector<std::byte> packet =
      from_hex("18e60009 00000007 006a621e 00000000 67c0cc57 0000000000000000 0102 0304 0506 0708");
  send(packet);
  read_all();
  EXPECT_THAT(receiver_.complaints, ElementsAre(Pair("a VITA-49 packet is not as DIFI allows", 1)));
  ASSERT_EQ(receiver_.streams.size(), 1U);
  EXPECT_EQ(stream().bytes, from_hex("0201 0403 0605 0807"));
  EXPECT_EQ(stream().time_ns, 0x67c0cc57LL * 1'000'000'000);
}

TEST_F(UdpReaderVita, DropsSamplesOfAnotherFormat) {
  listen_to(udp_framing::vita49);
  std::vector<std::byte> format = from_hex("40000005 00000001 00008000 a00001c7 00000000");
  send(format);
  send(data(1, 0));
  read_all();
  EXPECT_THAT(receiver_.complaints, ElementsAre(Pair("samples of another format than dtype says", 1)));
  EXPECT_EQ(stream().delivered, 0U);
}

// -- a lossy proxy
// -----------------------------------------------------------------------------------------------------

TEST_F(UdpReader, BalancesExactlyBehindALossyProxy) {
  const char* const said = std::getenv("PENSTOCK_SEED");
  const std::uint64_t seed = said != nullptr ? std::strtoull(said, nullptr, 10) : std::random_device{}();
  const char* const asked = std::getenv("PENSTOCK_DATAGRAMS");
  const std::uint64_t packets = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 30'000;
  std::cout << packets << " datagrams (PENSTOCK_DATAGRAMS); seed " << seed << " (PENSTOCK_SEED repeats it)"
            << std::endl;
  std::mt19937_64 random(seed);
  const auto chance = [&](unsigned of_1000) { return random() % 1000 < of_1000; };
  listen({.framing = udp_framing::sequence, .window = 64, .max_wait = std::chrono::hours{1}, .socket_buffer = 1 << 20});
  receiver_.give_room(40 * packet_samples * 4);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> delayed;  // due, number
  std::uint64_t lost = 0;
  std::uint64_t twice = 0;
  std::uint64_t cut = 0;
  send_numbers({0});
  for (std::uint64_t number = 1; number < packets; ++number) {
    if (number + 1 < packets && chance(20)) {
      ++lost;
      if (chance(300)) {
        std::vector<std::byte> packet = numbered(number);
        packet.resize(8 + 4 * (1 + random() % (packet_samples - 1)));
        send(packet);
        ++cut;
      }
    } else if (number + 1 < packets && chance(50)) {
      delayed.emplace_back(number + 1 + random() % 30, number);
    } else {
      send_numbers({number});
      if (chance(20)) {
        send_numbers({number});
        ++twice;
      }
    }
    for (auto& [due, held] : delayed) {
      if (due <= number || number + 1 == packets) {
        send_numbers({held});
        due = UINT64_MAX;
      }
    }
    std::erase_if(delayed, [](const auto& each) { return each.first == UINT64_MAX; });
    if (number % 100 == 0) {
      read_all();
    }
  }
  read_all();
  now_ += std::chrono::hours{2};
  read_all();
  ASSERT_EQ(reader_->kernel_drops(), 0U);
  const reorder_account account = reader_->account();
  EXPECT_EQ(account.delivered, packets - lost);
  EXPECT_EQ(account.lost, lost);
  EXPECT_EQ(account.duplicates, twice);
  EXPECT_EQ(account.late, 0U);
  EXPECT_EQ(stream().delivered, (packets - lost) * packet_samples);
  EXPECT_EQ(stream().gaps, lost * packet_samples);
  EXPECT_THAT(receiver_.complaints, ElementsAre(Pair("a packet is cut short", cut)));
  EXPECT_TRUE(is_in_place(receiver_));
  EXPECT_GT(receiver_.in_room, 0U);
}

}  // namespace
}  // namespace penstock::live
