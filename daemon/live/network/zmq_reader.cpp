#include "daemon/live/network/zmq_reader.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "daemon/net/connection_limits.hpp"
#include "proto/message.hpp"

namespace penstock::live {
namespace {

constexpr std::size_t max_parts = 3;
constexpr std::size_t max_topic_bytes = 256;
constexpr const char* events_address = "inproc://events";

std::int64_t wall_clock_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::span<const std::byte> bytes_of(const zmq::message_t& part) noexcept {
  return {part.data<std::byte>(), part.size()};
}

bool begins_like_penstock(const zmq::message_t& part) noexcept {
  wire::message_header header;
  return wire::decode(bytes_of(part), header) == wire::decode_error::none;
}

/// Of an event of zmq_socket_monitor.
std::uint16_t number_of(const zmq::message_t& event) noexcept {
  std::uint16_t number = 0;
  std::memcpy(&number, event.data(), std::min(sizeof number, event.size()));
  return number;
}

std::int32_t value_of(const zmq::message_t& event) noexcept {
  std::int32_t value = -1;
  if (event.size() >= sizeof(std::uint16_t) + sizeof value) {
    std::memcpy(&value, event.data<std::byte>() + sizeof(std::uint16_t), sizeof value);
  }
  return value;
}

}  // namespace

zmq_reader::zmq_reader(const zmq_settings& settings) try
    : settings_(settings),
      context_(1),
      socket_(context_,
              settings.pattern == zmq_settings::pattern_of::sub ? zmq::socket_type::sub : zmq::socket_type::pull),
      parts_(max_parts) {
  assert(settings.sample_bytes > 0);
  set_up(settings);
  watch();
  endpoints_ = bind_all(socket_, settings.bind);
  give_senders_room();
  connect_all(socket_, settings.connect);
} catch (const zmq::error_t& error) {
  throw std::runtime_error(std::string("ZeroMQ can't make its socket: ") + error.what());
}

// Before either socket closes: otherwise libzmq's thread blocks forever on an event that nobody reads.
zmq_reader::~zmq_reader() {
  if (socket_) {
    zmq_socket_monitor(socket_.handle(), nullptr, 0);
  }
}

void zmq_reader::set_up(const zmq_settings& settings) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvhwm, settings.high_water_mark);
  socket_.set(zmq::sockopt::maxmsgsize, settings.max_message_bytes);
  keep_connected(socket_);
  if (settings.keys) {
    keys_.emplace(context_, socket_, *settings.keys);
  }
  if (settings.pattern == zmq_settings::pattern_of::sub) {
    for (const std::string& topic : settings.topics) {
      socket_.set(zmq::sockopt::subscribe, topic);
    }
    if (settings.topics.empty()) {
      socket_.set(zmq::sockopt::subscribe, "");
    }
  }
  descriptor_ = socket_.get(zmq::sockopt::fd);
}

void zmq_reader::watch() {
  constexpr int watched = ZMQ_EVENT_LISTENING | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                          ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                          ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
  if (zmq_socket_monitor(socket_.handle(), events_address, watched) != 0) {
    throw zmq::error_t{};
  }
  events_ = zmq::socket_t(context_, zmq::socket_type::pair);
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(events_address);
  event_descriptor_ = events_.get(zmq::sockopt::fd);
}

// They never say HELLO.
void zmq_reader::give_senders_room() {
  zmq::message_t event;
  zmq::message_t address;
  while (events_.recv(event, zmq::recv_flags::dontwait)) {
    (void)events_.recv(address, zmq::recv_flags::dontwait);
    if (number_of(event) == ZMQ_EVENT_LISTENING) {
      meter_as_clients(value_of(event));
    }
  }
}

void zmq_reader::descriptors(std::vector<pollfd>& wanted) const {
  wanted.push_back({descriptor_, POLLIN, 0});
  wanted.push_back({event_descriptor_, POLLIN, 0});
  if (keys_) {
    keys_->descriptors(wanted);
  }
}

read_progress zmq_reader::read(sample_receiver& receiver, time_point now, time_point until) {
  const time_point began = std::chrono::steady_clock::now();
  try {
    if (keys_) {
      keys_->answer();
    }
    hear_of_connections(receiver);
    constexpr int between_looks_at_the_clock = 16;
    for (int messages = 1;; ++messages) {
      if (!receive(receiver)) {
        return read_progress::none;
      }
      if (messages % between_looks_at_the_clock == 0 && now + (std::chrono::steady_clock::now() - began) >= until) {
        return read_progress::some;
      }
    }
  } catch (const zmq::error_t& error) {
    failure_ = error.what();
    return read_progress::failed;
  }
}

// The descriptors are edge-triggered: all sockets are read until nothing is there.
void zmq_reader::hear_of_connections(sample_receiver& receiver) {
  zmq::message_t event;
  zmq::message_t address;
  while (events_.recv(event, zmq::recv_flags::dontwait)) {
    (void)events_.recv(address, zmq::recv_flags::dontwait);
    switch (number_of(event)) {
      case ZMQ_EVENT_LISTENING:
        break;
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        receiver.connected(true, address.to_string_view());
        if (std::exchange(was_connected_, true) && settings_.framing == zmq_framing::raw) {
          for (const topic_stream& each : streams_) {
            receiver.suspect(each.number);
          }
        }
        break;
      case ZMQ_EVENT_DISCONNECTED:
        receiver.connected(false, address.to_string_view());
        break;
      default:
        receiver.malformed("a peer has other keys, or none, or speaks otherwise: its handshake failed");
    }
  }
}

// One message. False where there is none.
bool zmq_reader::receive(sample_receiver& receiver) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (;;) {
    zmq::message_t& part = parts_[std::min(count, max_parts - 1)];
    if (!socket_.recv(part, count == 0 ? zmq::recv_flags::dontwait : zmq::recv_flags::none)) {
      return false;
    }
    ++count;
    bytes += part.size();
    if (!part.more()) {
      break;
    }
  }
  if (!endpoints_.empty()) {
    // Of what the daemon accepts it counts how much libzmq holds.
    meter_heard(::zmq_msg_get(parts_.front().handle(), ZMQ_SRCFD), bytes, count);
  }
  if (count > max_parts) {
    receiver.malformed("a message has too many parts");
    return true;
  }
  take(receiver, count);
  return true;
}

void zmq_reader::take(sample_receiver& receiver, std::size_t parts) {
  const bool is_penstock = settings_.framing == zmq_framing::penstock;
  const bool has_topic = is_penstock ? !begins_like_penstock(parts_[0]) : parts > 1;
  const std::size_t first = has_topic ? 1 : 0;
  const std::size_t rest = parts - first;
  if (rest == 0 || rest > (is_penstock ? 2U : 1U)) {
    receiver.malformed("a message has too many parts, or too few");
    return;
  }
  topic_stream* const stream =
      stream_of(receiver, has_topic ? parts_[0].to_string_view() : std::string_view(settings_.stream_name));
  if (stream == nullptr) {
    return;
  }
  switch (settings_.framing) {
    case zmq_framing::raw:
      return take_raw(receiver, *stream, bytes_of(parts_[first]));
    case zmq_framing::gnuradio_tags:
      return take_tagged(receiver, *stream, bytes_of(parts_[first]));
    case zmq_framing::penstock:
      return take_penstock(receiver, *stream, bytes_of(parts_[first]),
                           rest > 1 ? bytes_of(parts_[first + 1]) : std::span<const std::byte>{});
  }
}

zmq_reader::topic_stream* zmq_reader::stream_of(sample_receiver& receiver, std::string_view name) {
  if (last_stream_ != nullptr && last_stream_->name == name) {
    return last_stream_;
  }
  const auto found =
      std::find_if(streams_.begin(), streams_.end(), [&](const topic_stream& each) { return each.name == name; });
  if (found != streams_.end()) {
    return last_stream_ = &*found;
  }
  if (name.size() > max_topic_bytes) {
    receiver.malformed("a topic is longer than 256 bytes");
    return nullptr;
  }
  const std::optional<stream_number> number = receiver.stream(name);
  if (!number) {
    return nullptr;
  }
  streams_.push_back({.name = std::string(name), .number = *number, .sample_rate = settings_.sample_rate});
  return last_stream_ = &streams_.back();
}

void zmq_reader::take_raw(sample_receiver& receiver, topic_stream& stream, std::span<const std::byte> samples) {
  if (samples.size() % settings_.sample_bytes != 0) {
    receiver.malformed("a message holds no whole number of samples");
    return;
  }
  if (!samples.empty()) {
    receiver.samples(stream.number, {.bytes = samples, .time_ns = wall_clock_ns(), .quality = time_quality::arrival});
  }
}

void zmq_reader::take_tagged(sample_receiver& receiver, topic_stream& stream, std::span<const std::byte> message) {
  const std::optional<gnuradio_message> read = read_gnuradio_message(message);
  if (!read || read->offset > std::uint64_t{INT64_MAX} - message.size()) {
    receiver.malformed("a message does not begin with GNU Radio's header (\"Pass Tags\" of the sink)");
    return;
  }
  if (read->samples.size() % settings_.sample_bytes != 0) {
    receiver.malformed("a message holds no whole number of samples");
    return;
  }
  if (stream.begun && read->offset < stream.next) {
    receiver.epoch(stream.number, "the flowgraph began again");
  }
  stream.begun = true;
  const std::uint64_t end = read->offset + read->samples.size() / settings_.sample_bytes;
  stream.next = end;
  // A tag says something of one sample: where it says something new, the run before it ends.
  std::uint64_t begin = read->offset;
  sample_run run{.bytes = {}, .time_ns = wall_clock_ns(), .quality = time_quality::arrival};
  const auto hand_on = [&](std::uint64_t until) {
    if (until > begin) {
      run.bytes = read->samples.subspan((begin - read->offset) * settings_.sample_bytes,
                                        (until - begin) * settings_.sample_bytes);
      run.at = static_cast<std::int64_t>(begin);
      receiver.samples(stream.number, run);
      run = {};
      begin = until;
    }
  };
  gnuradio_tag_cursor tags(*read);
  while (const std::optional<gnuradio_tag> tag = tags.next()) {
    const radio_tag said = decode(*tag);
    if (said.kind == radio_tag::kind_of::other || tag->offset < begin || tag->offset >= end) {
      continue;  // of a sample that is not here
    }
    hand_on(tag->offset);
    take_tag(receiver, stream, said, run);
  }
  hand_on(end);
}

void zmq_reader::take_tag(sample_receiver& receiver, topic_stream& stream, const radio_tag& tag, sample_run& next) {
  switch (tag.kind) {
    case radio_tag::kind_of::time:
      next.time_ns = tag.time_ns;
      next.quality = time_quality::source;
      return;
    case radio_tag::kind_of::rate:
      if (stream.sample_rate != 0 && stream.sample_rate != tag.number) {
        receiver.epoch(stream.number, "the sample rate changed");
      }
      stream.sample_rate = tag.number;
      return;
    case radio_tag::kind_of::frequency:
      if (stream.frequency && *stream.frequency != tag.number) {
        receiver.epoch(stream.number, "the frequency changed");
      }
      stream.frequency = tag.number;
      return;
    case radio_tag::kind_of::other:
      return;
  }
}

void zmq_reader::take_penstock(sample_receiver& receiver, topic_stream& stream, std::span<const std::byte> head,
                               std::span<const std::byte> body) {
  wire::message_header header;
  wire::tensor_header tensor;
  if (wire::decode(head, header) != wire::decode_error::none || header.tensors == 0 ||
      wire::decode_tensor(head, header, 0, tensor) != wire::decode_error::none ||
      (header.type != wire::message_type::submit && header.type != wire::message_type::result &&
       header.type != wire::message_type::published)) {
    receiver.malformed("a message is no SUBMIT, RESULT or PUBLISHED");
    return;
  }
  if (body.empty()) {
    body = wire::inline_payloads(head, header);
  }
  if (tensor.bytes > body.size() || tensor.bytes % settings_.sample_bytes != 0) {
    receiver.malformed("a tensor holds no whole number of samples");
    return;
  }
  sample_run run{.bytes = body.first(tensor.bytes), .time_ns = wall_clock_ns(), .quality = time_quality::arrival};
  if (wire::sample_account account; wire::decode_account(head, header, account)) {
    if (stream.begun && account.epoch != stream.epoch) {
      receiver.epoch(stream.number, "the sender began an epoch");
      stream.samples = 0;
      stream.apart = 0;
    } else if (header.type != wire::message_type::submit && account.lost_before > 0) {
      receiver.suspect(stream.number);  // how many that is after the pipeline, nobody says
    }
    stream.begun = true;
    stream.epoch = account.epoch;
    // A result's samples are not those that its index counts.
    if (header.type == wire::message_type::submit && (account.flags & wire::sample_flag::index_known) != 0) {
      run.at = account.index;
    }
    if (account.quality != wire::time_quality::none) {
      run.time_ns = account.time_ns;
      run.quality = account.quality;
    }
  }
  if (header.type == wire::message_type::published) {
    std::int64_t index = 0;
    const bool has_index = wire::decode_output_index(head, header, 0, index);
    find_missing(receiver, stream, header.sequence, has_index ? std::optional(index) : std::nullopt,
                 run.bytes.size() / settings_.sample_bytes);
  }
  if (!run.bytes.empty()) {
    receiver.samples(stream.number, run);
  }
}

// A PUBLISHED has a number, and says how far its samples are from those of the one before, which also tells of results
// that were withheld. It does not say how long those were that are missing: as its neighbours, if these are equal.
void zmq_reader::find_missing(sample_receiver& receiver, topic_stream& stream, std::uint64_t sequence,
                              std::optional<std::int64_t> index, std::size_t samples) {
  if (index && (*index > furthest_index || *index < -furthest_index)) {
    index.reset();
  }
  const bool follows = stream.samples != 0 && sequence >= stream.sequence;
  const bool is_equal = stream.samples == samples;
  std::uint64_t missing = follows ? sequence - stream.sequence : 0;
  const std::int64_t apart = index ? *index - stream.index : 0;
  if (follows && missing == 0 && is_equal && apart > 0) {
    if (stream.apart == 0 || apart < stream.apart) {
      stream.apart = apart;
    }
    missing = static_cast<std::uint64_t>((apart - 1) / stream.apart);
  }
  if (missing != 0 && is_equal && missing < std::uint64_t{INT32_MAX}) {
    receiver.loss(stream.number, loss_kind::network, missing * samples);
  } else if (missing != 0 || (stream.samples != 0 && !follows)) {
    receiver.epoch(stream.number,
                   follows ? "results of unknown length are missing" : "the sender began to count again");
  }
  stream.sequence = sequence + 1;
  stream.samples = samples;
  stream.index = index.value_or(0);
}

}  // namespace penstock::live
