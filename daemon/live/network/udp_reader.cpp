#include "daemon/live/network/udp_reader.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <unistd.h>

#include "base/quantity.hpp"
#include "daemon/live/wire/byte_order.hpp"
#include "daemon/live/wire/difi.hpp"

namespace penstock::live {
namespace {

constexpr std::size_t batch = 64;            // datagrams of one system call
constexpr std::size_t max_datagram = 65536;  // bytes, what the kernel joined included
constexpr std::size_t head_bytes = 64;       // more than any header
constexpr std::size_t parts_of_message = 3;
constexpr std::size_t max_held_bytes = 9216;  // of a packet: a jumbo frame
// Before the numbers that a short count is extended to, so that packets may come before the first.
constexpr std::uint64_t first_vita_number = std::uint64_t{1} << 48U;
constexpr double furthest_samples = 1e12;
constexpr std::size_t control_bytes = CMSG_SPACE(sizeof(timespec)) + CMSG_SPACE(sizeof(std::uint32_t)) +
                                      CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(timespec));

[[noreturn]] void give_up(const std::string& what) {
  throw std::runtime_error(what + ": " + std::generic_category().message(errno));
}

std::optional<sequence_format> format_of(udp_framing framing) noexcept {
  switch (framing) {
    case udp_framing::sequence:
      return sequence_format::sequence;
    case udp_framing::sequence_big:
      return sequence_format::sequence_big;
    case udp_framing::gnuradio_sequence:
      return sequence_format::gnuradio;
    case udp_framing::gnuradio_sized:
      return sequence_format::gnuradio_sized;
    case udp_framing::chdr:
      return sequence_format::chdr;
    case udp_framing::raw:
    case udp_framing::gnuradio:
    case udp_framing::vita49:
    case udp_framing::difi:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

// The kernel gives twice as many for its own accounts. Beyond rmem_max only root may ask.
std::size_t ask_for_receive_buffer(int socket, std::size_t bytes) noexcept {
  const int asked = static_cast<int>(std::min<std::size_t>(bytes, INT32_MAX / 2));
  if (asked > 0 && ::setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &asked, sizeof asked) != 0) {
    (void)::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &asked, sizeof asked);
  }
  int given = 0;
  socklen_t length = sizeof given;
  (void)::getsockopt(socket, SOL_SOCKET, SO_RCVBUF, &given, &length);
  return static_cast<std::size_t>(given) / 2;
}

udp_reader::udp_reader(const udp_settings& settings) : settings_(settings) {
  settings_.window = std::bit_ceil(std::max<std::size_t>(settings.window, 1));
  assert(settings.sample_bytes > 0);
  open(settings);
  make_memory();
}

udp_reader::~udp_reader() = default;

void udp_reader::open(const udp_settings& settings) {
  const std::size_t colon = settings.listen.rfind(':');
  std::string host = settings.listen.substr(0, colon);
  const std::string_view digits =
      colon == std::string::npos ? std::string_view() : std::string_view(settings.listen).substr(colon + 1);
  const auto port = parse_number<std::uint16_t>(digits);
  if (!port) {
    throw std::runtime_error("cannot listen on " + settings.listen + ": it is not HOST:PORT");
  }
  const bool six = host.size() > 2 && host.front() == '[' && host.back() == ']';
  socket_ = file_descriptor(::socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) {
    give_up("cannot open a UDP socket");
  }
  socket_buffer_ = ask_for_receive_buffer(socket_.number(), settings.socket_buffer);
  ask(SOL_SOCKET, SO_RXQ_OVFL, 1);
  if (settings.kernel_times) {
    ask(SOL_SOCKET, SO_TIMESTAMPNS, 1);
  }
  ask(IPPROTO_UDP, UDP_GRO, 1);
  bind_to(six ? host.substr(1, host.size() - 2) : host, *port, settings.interface);
}

// What a kernel does not know is done without.
void udp_reader::ask(int level, int option, int value) noexcept {
  (void)::setsockopt(socket_.number(), level, option, &value, sizeof value);
}

void udp_reader::bind_to(const std::string& host, std::uint16_t port, const std::string& interface) {
  const std::string what = "cannot listen on " + settings_.listen;
  const unsigned card = interface.empty() ? 0 : ::if_nametoindex(interface.c_str());
  if (!interface.empty() && card == 0) {
    throw std::runtime_error(what + ": this machine has no interface " + interface);
  }
  in_addr four{};
  in6_addr six{};
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) {
    const sockaddr_in address{AF_INET, htons(port), four, {}};
    if (IN_MULTICAST(ntohl(four.s_addr))) {
      ask(SOL_SOCKET, SO_REUSEADDR, 1);  // several may listen to a group
    }
    if (::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      give_up(what);
    }
    if (IN_MULTICAST(ntohl(four.s_addr))) {
      const ip_mreqn group{four, {}, static_cast<int>(card)};
      // Only of the groups that this socket joined.
      ask(IPPROTO_IP, IP_MULTICAST_ALL, 0);
      if (::setsockopt(socket_.number(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) != 0) {
        give_up(what + ": cannot join the group");
      }
    }
  } else if (::inet_pton(AF_INET6, host.c_str(), &six) == 1) {
    const sockaddr_in6 address{AF_INET6, htons(port), 0, six, 0};
    if (IN6_IS_ADDR_MULTICAST(&six)) {
      ask(SOL_SOCKET, SO_REUSEADDR, 1);
    }
    if (::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      give_up(what);
    }
    if (IN6_IS_ADDR_MULTICAST(&six)) {
      const ipv6_mreq group{six, card};
      if (::setsockopt(socket_.number(), IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &group, sizeof group) != 0) {
        give_up(what + ": cannot join the group");
      }
    }
  } else {
    throw std::runtime_error(what + ": " + host + " is no address");
  }
  (void)::getsockname(socket_.number(), reinterpret_cast<sockaddr*>(&bound), &length);
  const std::uint16_t real = bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                                         : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port;
  address_ = (bound.ss_family == AF_INET6 ? "[" + host + "]" : host) + ":" + std::to_string(ntohs(real));
}

void udp_reader::make_memory() {
  messages_.resize(batch);
  parts_.resize(batch * parts_of_message);
  control_.resize(batch * control_bytes);
  heads_.resize(batch * head_bytes);
  tails_.resize(batch * max_datagram);
  whole_.resize(max_datagram);
  for (std::size_t index = 0; index < batch; ++index) {
    iovec* const parts = &parts_[index * parts_of_message];
    parts[0] = {&heads_[index * head_bytes], 0};
    parts[1] = {nullptr, 0};
    parts[2] = {&tails_[index * max_datagram], max_datagram};
    messages_[index].msg_hdr.msg_iov = parts;
    messages_[index].msg_hdr.msg_iovlen = parts_of_message;
    messages_[index].msg_hdr.msg_control = &control_[index * control_bytes];
  }
}

void udp_reader::descriptors(std::vector<pollfd>& wanted) const {
  wanted.push_back({socket_.number(), POLLIN, 0});
}

sample_reader::time_point udp_reader::wanted_at() const {
  time_point soonest = time_point::max();
  for (const wire_stream& each : streams_) {
    soonest = std::min(soonest, each.packets.window().wanted_at());
  }
  return soonest;
}

reorder_account udp_reader::account() const noexcept {
  reorder_account sum;
  for (const wire_stream& each : streams_) {
    const reorder_account& one = each.packets.window().account();
    sum.delivered += one.delivered;
    sum.lost += one.lost;
    sum.late += one.late;
    sum.duplicates += one.duplicates;
    sum.restored += one.restored;
    sum.strays += one.strays;
    sum.restarts += one.restarts;
  }
  return sum;
}

read_progress udp_reader::read(sample_receiver& receiver, time_point now, time_point until) {
  const time_point began = std::chrono::steady_clock::now();
  time_point here = now;
  read_progress progress = read_progress::some;
  do {
    place(receiver);
    const int count = ::recvmmsg(socket_.number(), messages_.data(), batch, MSG_DONTWAIT, nullptr);
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        progress = read_progress::none;
        break;
      }
      failure_ = std::generic_category().message(errno);
      return read_progress::failed;
    }
    taken_ns_ = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
    hand_on(receiver, static_cast<std::size_t>(count), here);
    if (static_cast<std::size_t>(count) < batch) {
      progress = read_progress::none;
      break;
    }
    here = now + (std::chrono::steady_clock::now() - began);
  } while (here < until);
  for (wire_stream& each : streams_) {
    if (each.packets.window().held() > 0) {
      each.packets.expire(receiver, here);
    }
  }
  return progress;
}

// Where the next datagrams come to lie.
void udp_reader::place(sample_receiver& receiver) {
  in_room_ = 0;
  if (wanted_) {
    layout_ = *wanted_;
    wanted_.reset();
    slots_.resize(std::max(slots_.size(), batch * layout_.samples));
  }
  const bool alone = streams_.size() == 1 && layout_.samples > 0 && streams_.front().packets.window().held() == 0;
  if (alone) {
    room_ = receiver.room(streams_.front().packets.stream());
    in_room_ = std::min(room_.size() / layout_.samples, batch);
  }
  for (std::size_t index = 0; index < batch; ++index) {
    iovec* const parts = &parts_[index * parts_of_message];
    parts[0].iov_len = layout_.header;
    parts[1] = {layout_.samples > 0 ? samples_at(index).data() : nullptr, layout_.samples};
    parts[2].iov_len = max_datagram - layout_.header - layout_.samples;
    messages_[index].msg_hdr.msg_controllen = control_bytes;
  }
}

std::span<std::byte> udp_reader::samples_at(std::size_t index) noexcept {
  const std::span<std::byte> memory = index < in_room_ ? room_ : std::span(slots_);
  return memory.subspan(index * layout_.samples, layout_.samples);
}

void udp_reader::hand_on(sample_receiver& receiver, std::size_t count, time_point now) {
  // The kernel's counter only grows: where the last datagram has what was known before, none was dropped.
  const bool dropped = count > 0 && drop_counter_of(count - 1) != drop_counter_;
  count_ = count;
  run_ = {};
  for (std::size_t index = 0; index < count; ++index) {
    if (dropped) {
      if (const std::uint32_t counter = drop_counter_of(index); counter != drop_counter_) {
        end_run(receiver, index);
        note_drops(receiver, counter);
      }
    }
    const bool usual = layout_.samples > 0 && messages_[index].msg_len == layout_.bytes();
    if (!usual || !(is_vita() ? pass_vita(receiver, index) : pass(receiver, index))) {
      end_run(receiver, index);
      take_apart(receiver, index, now);
    }
  }
  end_run(receiver, count);
}

// True when the packet is in the open run.
bool udp_reader::pass(sample_receiver& receiver, std::size_t index) {
  const auto begin = [&](wire_stream& stream, std::uint64_t number) {
    if (run_.count == 0) {
      run_ = {&stream, number, index, 0, stamp_of(index).time_ns, time_quality::arrival};
    }
    ++run_.count;
    return true;
  };
  if (settings_.framing == udp_framing::raw) {
    return begin(streams_.front(), 0);
  }
  if (settings_.framing == udp_framing::sequence || settings_.framing == udp_framing::gnuradio_sequence) {
    // Nothing else is in the header: the shortest way.
    std::uint64_t number = 0;
    std::memcpy(&number, &heads_[index * head_bytes], sizeof number);
    wire_stream& stream = streams_.front();
    return stream.packets.passes(number, layout_.samples) && begin(stream, number);
  }
  const std::optional<sequence_header> header = read_sequence_header(
      *format_of(settings_.framing), std::span<const std::byte>(heads_).subspan(index * head_bytes, layout_.header),
      messages_[index].msg_len);
  if (!header || header->control || header->header_bytes != layout_.header) {
    return false;
  }
  wire_stream* const stream = stream_of(receiver, header->stream, settings_.framing == udp_framing::chdr);
  if (stream == nullptr) {
    return false;
  }
  if (run_.count > 0 && run_.stream != stream) {
    end_run(receiver, index);
  }
  const std::uint64_t number = extend_number(header->number, header->number_bits, stream->packets.window().next());
  return stream->packets.passes(number, layout_.samples) && begin(*stream, number);
}

bool udp_reader::pass_vita(sample_receiver& receiver, std::size_t index) {
  vita_packet packet;
  const vita_fault fault = read_vita_header(
      std::span<const std::byte>(heads_).subspan(index * head_bytes, layout_.header), messages_[index].msg_len, packet);
  if (fault != vita_fault::none || !packet.is_data() || packet.header_bytes != layout_.header ||
      packet.payload_bytes != layout_.samples || (packet.has_trailer ? sizeof(std::uint32_t) : 0) != layout_.tail ||
      (settings_.framing == udp_framing::difi && classify_difi(packet) != difi_packet::data)) {
    return false;
  }
  if (packet.has_trailer) {
    std::uint32_t trailer = 0;
    std::memcpy(&trailer, &tails_[index * max_datagram], sizeof trailer);
    packet.trailer = swapped(trailer);
    if (packet.sample_loss().value_or(false)) {
      return false;
    }
  }
  wire_stream* const stream = stream_of(receiver, packet.stream.value_or(0), packet.stream.has_value());
  if (stream == nullptr || !stream->begun || stream->other_format) {
    return false;
  }
  if (run_.count > 0 && run_.stream != stream) {
    end_run(receiver, index);
  }
  const std::uint64_t number = number_of(*stream, packet);
  if (!stream->packets.passes(number, layout_.samples)) {
    return false;
  }
  stream->last = packet;
  stream->last_number = number;
  if (run_.count == 0) {
    const std::optional<std::int64_t> time =
        packet.time_ns(stream->sample_rate, settings_.framing == udp_framing::difi);
    run_ = {stream,
            number,
            index,
            0,
            time ? *time : stamp_of(index).time_ns,
            time ? quality_of(*stream, packet) : time_quality::arrival};
  }
  ++run_.count;
  return true;
}

time_quality udp_reader::quality_of(const wire_stream& stream, const vita_packet& packet) noexcept {
  return packet.reference_lock().value_or(stream.disciplined) ? time_quality::disciplined : time_quality::source;
}

// Hands on the packets that passed, which end before `taken`. Those from there on that lie in the receiver's memory
// are moved away first: it belongs to the receiver again.
void udp_reader::end_run(sample_receiver& receiver, std::size_t taken) {
  const std::size_t in_room = std::exchange(in_room_, 0);
  const std::size_t packet = layout_.samples;
  if (const std::size_t ending = std::min(in_room, count_); taken < ending) {
    const auto moved = room_.subspan(taken * packet, (ending - taken) * packet);
    std::copy(moved.begin(), moved.end(), slots_.begin() + static_cast<std::ptrdiff_t>(taken * packet));
  }
  const open_run run = std::exchange(run_, {});
  const std::size_t end = run.first + run.count;
  for (std::size_t first = run.first; first < end;) {
    const std::size_t until = first < in_room ? std::min(end, in_room) : end;
    const std::span<std::byte> memory = first < in_room ? room_ : std::span(slots_);
    const std::span<std::byte> samples = memory.subspan(first * packet, (until - first) * packet);
    const bool whole = first == run.first;
    if (settings_.framing == udp_framing::raw) {
      receiver.samples(run.stream->packets.stream(),
                       {.bytes = samples, .time_ns = run.time_ns, .quality = whole ? run.quality : time_quality::none});
    } else {
      if (is_vita()) {
        swap_numbers(samples, settings_.number_bytes);
      }
      run.stream->packets.run(receiver, run.number + (first - run.first), samples, run.time_ns,
                              whole ? run.quality : time_quality::none);
    }
    first = until;
  }
}

void udp_reader::take_apart(sample_receiver& receiver, std::size_t index, time_point now) {
  const std::size_t bytes = messages_[index].msg_len;
  if (bytes == 0) {
    return;  // GNU Radio's end of a stream
  }
  if ((messages_[index].msg_hdr.msg_flags & MSG_TRUNC) != 0) {
    receiver.malformed("a datagram is larger than 64 KiB");
    return;
  }
  const std::size_t header = std::min(bytes, layout_.header);
  const std::size_t samples = std::min(bytes - header, layout_.samples);
  std::copy_n(&heads_[index * head_bytes], header, whole_.begin());
  if (samples > 0) {
    std::copy_n(samples_at(index).begin(), samples, whole_.begin() + static_cast<std::ptrdiff_t>(header));
  }
  std::copy_n(&tails_[index * max_datagram], bytes - header - samples,
              whole_.begin() + static_cast<std::ptrdiff_t>(header + samples));
  const stamp when = stamp_of(index);
  const std::span<std::byte> datagram = std::span(whole_).first(bytes);
  const std::size_t each = when.segment != 0 ? when.segment : bytes;
  for (std::size_t at = 0; at < bytes; at += each) {
    take_one(receiver, datagram.subspan(at, std::min(each, bytes - at)), when, now);
  }
}

void udp_reader::take_one(sample_receiver& receiver, std::span<std::byte> datagram, const stamp& when, time_point now) {
  if (is_vita()) {
    take_vita(receiver, datagram, when, now);
  } else if (settings_.framing == udp_framing::raw) {
    take_raw(receiver, datagram, when);
  } else if (settings_.framing == udp_framing::gnuradio) {
    take_gnuradio(receiver, datagram, when, now);
  } else {
    take_numbered(receiver, datagram, when, now);
  }
}

// A size behind the number could be a sample by chance, and a datagram may be cut short: two must agree.
void udp_reader::take_gnuradio(sample_receiver& receiver, std::span<std::byte> datagram, const stamp& when,
                               time_point now) {
  const auto is_sized = [](std::span<const std::byte> one) {
    return read_sequence_header(sequence_format::gnuradio_sized, one, one.size()).has_value();
  };
  const bool sized = is_sized(datagram);
  if (!first_.empty() && is_sized(first_) == sized) {
    settings_.framing = sized ? udp_framing::gnuradio_sized : udp_framing::gnuradio_sequence;
    std::vector<std::byte> first = std::exchange(first_, {});
    take_numbered(receiver, first, first_stamp_, now);
    take_numbered(receiver, datagram, when, now);
    return;
  }
  first_.assign(datagram.begin(), datagram.end());
  first_stamp_ = when;
}

void udp_reader::take_raw(sample_receiver& receiver, std::span<std::byte> samples, const stamp& when) {
  if (samples.size() % settings_.sample_bytes != 0) {
    receiver.malformed("a packet holds no whole number of samples");
    return;
  }
  if (wire_stream* const stream = stream_of(receiver, 0, false); stream != nullptr) {
    receiver.samples(stream->packets.stream(),
                     {.bytes = samples, .time_ns = when.time_ns, .quality = time_quality::arrival});
    learn({0, samples.size(), 0});
  }
}

void udp_reader::take_numbered(sample_receiver& receiver, std::span<std::byte> datagram, const stamp& when,
                               time_point now) {
  const std::optional<sequence_header> header =
      read_sequence_header(*format_of(settings_.framing), datagram, datagram.size());
  if (!header) {
    receiver.malformed("a packet is shorter than its header says");
    return;
  }
  if (header->control) {
    return;
  }
  wire_stream* const stream = stream_of(receiver, header->stream, settings_.framing == udp_framing::chdr);
  if (stream == nullptr) {
    return;
  }
  const std::uint64_t expected =
      stream->packets.window().started() ? stream->packets.window().next() : first_vita_number;
  stream->packets.take(receiver,
                       {.number = extend_number(header->number, header->number_bits, expected),
                        .samples = datagram.subspan(header->header_bytes),
                        .time_ns = when.time_ns,
                        .quality = time_quality::arrival,
                        .whole = header->sized},
                       now);
  learn({header->header_bytes, header->payload_bytes, 0});
}

void udp_reader::take_vita(sample_receiver& receiver, std::span<std::byte> datagram, const stamp& when,
                           time_point now) {
  vita_packet packet;
  if (const vita_fault fault = read_vita_packet(datagram, packet); fault != vita_fault::none) {
    receiver.malformed(text_of(fault));
    return;
  }
  const bool difi = settings_.framing == udp_framing::difi;
  if (difi && classify_difi(packet) == difi_packet::not_difi) {
    receiver.malformed("a VITA-49 packet is not as DIFI allows");
    return;
  }
  if (!packet.is_data() && packet.kind != vita_packet::kind_of::context) {
    return;  // commands, extensions, versions
  }
  wire_stream* const stream = stream_of(receiver, packet.stream.value_or(0), packet.stream.has_value());
  if (stream == nullptr) {
    return;
  }
  if (!packet.is_data()) {
    take_context(receiver, *stream, packet);
    return;
  }
  if (stream->other_format) {
    receiver.malformed("samples of another format than dtype says");
    return;
  }
  const std::span<std::byte> samples = datagram.subspan(packet.header_bytes, packet.payload_bytes);
  swap_numbers(samples, settings_.number_bytes);
  const std::uint64_t number = number_of(*stream, packet);
  const std::optional<std::int64_t> time = packet.time_ns(stream->sample_rate, difi);
  if (packet.sample_loss().value_or(false)) {
    receiver.suspect(stream->packets.stream());
  }
  stream->packets.take(receiver,
                       {.number = number,
                        .samples = samples,
                        .time_ns = time.value_or(when.time_ns),
                        .quality = time ? quality_of(*stream, packet) : time_quality::arrival,
                        .whole = true},
                       now);
  if (!stream->begun || number - stream->last_number < std::uint64_t{1} << 63U) {
    stream->begun = true;
    stream->last = packet;
    stream->last.payload = {};
    stream->last_number = number;
  }
  learn({packet.header_bytes, packet.payload_bytes, packet.has_trailer ? sizeof(std::uint32_t) : 0});
}

void udp_reader::take_context(sample_receiver& receiver, wire_stream& stream, const vita_packet& packet) {
  const std::optional<vita_context> context = read_vita_context(packet);
  if (!context) {
    receiver.malformed("a VITA-49 context packet can't be read");
    return;
  }
  if (context->format) {
    const vita_payload_format& format = *context->format;
    const std::size_t numbers = format.number == vita_payload_format::number_of::complex ? 2 : 1;
    const std::size_t bytes = std::size_t{format.item_bits} / 8 * numbers;
    stream.other_format = !format.is_plain() || std::size_t{format.item_bits} / 8 != settings_.number_bytes ||
                          settings_.sample_bytes % bytes != 0;
  }
  stream.disciplined = context->reference_lock().value_or(stream.disciplined);
  const bool known = stream.context_rate.has_value() || stream.rf_frequency.has_value();
  const bool rate_changed = context->sample_rate && context->sample_rate != stream.context_rate;
  const bool frequency_changed = context->rf_frequency && context->rf_frequency != stream.rf_frequency;
  if (known && stream.packets.window().started() && (rate_changed || frequency_changed)) {
    stream.packets.epoch(receiver, rate_changed ? "the sample rate changed" : "the frequency changed", true);
  }
  if (context->sample_rate && *context->sample_rate > 0) {
    stream.context_rate = context->sample_rate;
    stream.sample_rate = *context->sample_rate;
  }
  if (context->rf_frequency) {
    stream.rf_frequency = context->rf_frequency;
  }
}

// The count has 4 bits only; the time tells how often it went round.
std::uint64_t udp_reader::number_of(const wire_stream& stream, const vita_packet& packet) const noexcept {
  if (!stream.begun) {
    return first_vita_number + packet.count;
  }
  std::uint64_t expected = stream.packets.window().next();
  const std::optional<double> samples = packet.samples_since(stream.last, stream.sample_rate);
  if (samples && stream.packets.packet_samples() > 0 && std::abs(*samples) < furthest_samples) {
    const double packets = *samples / static_cast<double>(stream.packets.packet_samples());
    expected = stream.last_number + static_cast<std::uint64_t>(std::llround(packets));
  }
  return extend_number(packet.count, 4, expected);
}

void udp_reader::note_drops(sample_receiver& receiver, std::uint32_t counter) {
  const std::uint32_t dropped = counter - drop_counter_;
  drop_counter_ = counter;
  kernel_drops_ += dropped;
  if (streams_.empty()) {
    return;
  }
  if (settings_.framing == udp_framing::raw) {
    receiver.loss(streams_.front().packets.stream(), loss_kind::kernel,
                  std::uint64_t{dropped} * (layout_.samples / settings_.sample_bytes));
    return;
  }
  // Of several streams nobody knows whose they were; what is missing of one is told by its numbers.
  for (wire_stream& each : streams_) {
    each.packets.dropped_by_kernel(dropped);
  }
}

// Another layout holds from the next batch on, where two packets in a row have it.
void udp_reader::learn(const layout& seen) {
  if (seen == layout_ || seen.header > head_bytes || seen.samples > max_datagram / 2) {
    return;
  }
  if (layout_.samples == 0 || seen == other_layout_) {
    wanted_ = seen;
  }
  other_layout_ = seen;
}

udp_reader::wire_stream* udp_reader::stream_of(sample_receiver& receiver, std::uint32_t id, bool named) {
  for (wire_stream& each : streams_) {
    if (each.id == id) {
      return &each;
    }
  }
  if (streams_.size() >= settings_.max_streams) {
    if (!std::exchange(too_many_said_, true)) {
      receiver.malformed("more streams than a source may have");
    }
    return nullptr;
  }
  std::array<char, 16> text{};
  const auto written = std::to_chars(text.begin(), text.end(), id, 16);
  const std::string name = named ? "0x" + std::string(text.begin(), written.ptr) : settings_.stream_name;
  const std::optional<stream_number> number = receiver.stream(name);
  if (!number) {
    return nullptr;
  }
  const reorder_window::settings reorder{
      .packets = settings_.window, .max_wait = settings_.max_wait, .packet_bytes = max_held_bytes};
  wire_stream& made =
      streams_.emplace_back(wire_stream{.id = id,
                                        .packets = packet_stream(*number, reorder, settings_.sample_bytes),
                                        .sample_rate = settings_.sample_rate});
  return &made;
}

udp_reader::stamp udp_reader::stamp_of(std::size_t index) noexcept {
  stamp found{.time_ns = taken_ns_};
  msghdr& message = messages_[index].msg_hdr;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SO_TIMESTAMPNS) {
      timespec time{};
      std::memcpy(&time, CMSG_DATA(each), sizeof time);
      found.time_ns = std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
    } else if (each->cmsg_level == IPPROTO_UDP && each->cmsg_type == UDP_GRO) {
      int bytes = 0;
      std::memcpy(&bytes, CMSG_DATA(each), sizeof bytes);
      found.segment = static_cast<std::size_t>(std::max(bytes, 0));
    }
  }
  return found;
}

std::uint32_t udp_reader::drop_counter_of(std::size_t index) noexcept {
  msghdr& message = messages_[index].msg_hdr;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SO_RXQ_OVFL) {
      std::uint32_t counter = 0;
      std::memcpy(&counter, CMSG_DATA(each), sizeof counter);
      return counter;
    }
  }
  return 0;
}

}  // namespace penstock::live
