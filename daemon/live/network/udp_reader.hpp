#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/descriptors.hpp"
#include "daemon/live/network/packet_stream.hpp"
#include "daemon/live/sample_stream.hpp"
#include "daemon/live/wire/sequence_header.hpp"
#include "daemon/live/wire/vita49.hpp"

namespace penstock::live {

/// What the datagrams of a UDP source are.
enum class udp_framing : std::uint8_t {
  raw,
  sequence,
  sequence_big,
  gnuradio,  ///< either of the next two: the first two datagrams tell which
  gnuradio_sequence,
  gnuradio_sized,
  chdr,
  vita49,
  difi,
};

struct udp_settings {
  /// "HOST:PORT", HOST being an IPv4 address or an IPv6 address in brackets; a multicast group is joined. Port 0: any.
  std::string listen{};
  std::string interface {};  ///< of a multicast group; empty: the kernel's choice
  udp_framing framing = udp_framing::raw;
  std::size_t sample_bytes = 8;
  std::size_t number_bytes = 4;  ///< of each number in a sample: big-endian on the wire with vita49 and difi
  double sample_rate = 0;        ///< 0: not known
  std::size_t window = 64;       ///< packets; 0 or 1: none is waited for. Rounded up to a power of two
  std::chrono::nanoseconds max_wait{2'000'000};
  std::size_t socket_buffer = 0;  ///< bytes; 0: the kernel's default
  /// Times of arrival are the kernel's (SO_TIMESTAMPNS), not those at which datagrams are taken. Costs 5 to 10 % of a
  /// loop that does nothing else; packets that say their time don't need it.
  bool kernel_times = false;
  std::size_t max_streams = 64;
  std::string stream_name = "udp";  ///< where packets don't say a stream
};

/// Asks for so much buffer for a socket, and returns how much the kernel gives.
std::size_t ask_for_receive_buffer(int socket, std::size_t bytes) noexcept;

/// Reads datagrams, as many at a time as there are. Headers are put aside, and the samples come to lie one behind the
/// other, in the receiver's memory where it has room. A packet that is not like the others, and what a sender or card
/// joined (UDP_GRO), is taken apart in memory of the reader's own.
class udp_reader final : public sample_reader {
 public:
  /// Throws std::runtime_error: no such address, address in use, no such group or interface.
  explicit udp_reader(const udp_settings& settings);
  udp_reader(const udp_reader&) = delete;
  udp_reader& operator=(const udp_reader&) = delete;
  ~udp_reader() override;

  void descriptors(std::vector<pollfd>& wanted) const override;
  [[nodiscard]] read_progress read(sample_receiver& receiver, time_point now, time_point until) override;
  [[nodiscard]] time_point wanted_at() const override;
  [[nodiscard]] std::string_view failure() const override { return failure_; }

  /// The address that is listened on, with the real port.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// Bytes that the kernel gave of those asked for.
  [[nodiscard]] std::size_t socket_buffer() const noexcept { return socket_buffer_; }
  [[nodiscard]] std::uint64_t kernel_drops() const noexcept { return kernel_drops_; }
  /// Of all streams together.
  [[nodiscard]] reorder_account account() const noexcept;

 private:
  struct wire_stream {
    std::uint32_t id = 0;
    packet_stream packets;
    // Of VITA-49.
    vita_packet last{};
    std::uint64_t last_number = 0;
    bool begun = false;
    double sample_rate = 0;
    std::optional<double> context_rate{};
    std::optional<double> rf_frequency{};
    bool disciplined = false;
    bool other_format = false;
  };
  // How almost all datagrams look. Before the first came, all of it is 0.
  struct layout {
    std::size_t header = 0;
    std::size_t samples = 0;
    std::size_t tail = 0;

    bool operator==(const layout&) const = default;
    [[nodiscard]] std::size_t bytes() const noexcept { return header + samples + tail; }
  };
  struct stamp {
    std::int64_t time_ns = 0;  // of its arrival
    std::size_t segment = 0;   // bytes of each packet of several; 0: it is one
  };
  // Packets that passed and lie one behind the other.
  struct open_run {
    wire_stream* stream = nullptr;
    std::uint64_t number = 0;
    std::size_t first = 0;
    std::size_t count = 0;
    std::int64_t time_ns = 0;
    time_quality quality = time_quality::none;
  };

  void open(const udp_settings& settings);
  void bind_to(const std::string& host, std::uint16_t port, const std::string& interface);
  void ask(int level, int option, int value) noexcept;
  void make_memory();
  void place(sample_receiver& receiver);
  void hand_on(sample_receiver& receiver, std::size_t count, time_point now);
  [[nodiscard]] bool pass(sample_receiver& receiver, std::size_t index);
  [[nodiscard]] bool pass_vita(sample_receiver& receiver, std::size_t index);
  void end_run(sample_receiver& receiver, std::size_t taken);
  void take_apart(sample_receiver& receiver, std::size_t index, time_point now);
  void take_one(sample_receiver& receiver, std::span<std::byte> datagram, const stamp& when, time_point now);
  void take_raw(sample_receiver& receiver, std::span<std::byte> samples, const stamp& when);
  void take_numbered(sample_receiver& receiver, std::span<std::byte> datagram, const stamp& when, time_point now);
  void take_gnuradio(sample_receiver& receiver, std::span<std::byte> datagram, const stamp& when, time_point now);
  void take_vita(sample_receiver& receiver, std::span<std::byte> datagram, const stamp& when, time_point now);
  void take_context(sample_receiver& receiver, wire_stream& stream, const vita_packet& packet);
  void note_drops(sample_receiver& receiver, std::uint32_t counter);
  void learn(const layout& seen);
  [[nodiscard]] wire_stream* stream_of(sample_receiver& receiver, std::uint32_t id, bool named);
  [[nodiscard]] static time_quality quality_of(const wire_stream& stream, const vita_packet& packet) noexcept;
  [[nodiscard]] std::uint64_t number_of(const wire_stream& stream, const vita_packet& packet) const noexcept;
  [[nodiscard]] bool is_vita() const noexcept {
    return settings_.framing == udp_framing::vita49 || settings_.framing == udp_framing::difi;
  }
  [[nodiscard]] std::span<std::byte> samples_at(std::size_t index) noexcept;
  [[nodiscard]] stamp stamp_of(std::size_t index) noexcept;
  [[nodiscard]] std::uint32_t drop_counter_of(std::size_t index) noexcept;

  udp_settings settings_;
  file_descriptor socket_;
  std::string address_;
  std::size_t socket_buffer_ = 0;
  std::string failure_;

  std::deque<wire_stream> streams_;  // few; in the order of their first packets
  bool too_many_said_ = false;
  std::vector<std::byte> first_;  // the first datagram, until the second one tells what they are
  stamp first_stamp_;
  std::uint32_t drop_counter_ = 0;
  std::uint64_t kernel_drops_ = 0;

  // Of a batch of datagrams. Header, samples and tail of each lie in a memory of that kind.
  layout layout_;
  layout other_layout_;             // of the last one that was otherwise
  std::optional<layout> wanted_{};  // from the next batch on
  std::size_t count_ = 0;           // datagrams of this batch
  std::int64_t taken_ns_ = 0;       // when they were taken
  std::vector<mmsghdr> messages_;
  std::vector<iovec> parts_;
  std::vector<std::byte> control_;
  std::vector<std::byte> heads_;
  std::vector<std::byte> slots_;
  std::vector<std::byte> tails_;
  std::vector<std::byte> whole_;  // of one datagram that is taken apart
  std::span<std::byte> room_;     // the receiver's, for the first packets of the batch
  std::size_t in_room_ = 0;       // how many of them lie there
  open_run run_;
};

}  // namespace penstock::live
