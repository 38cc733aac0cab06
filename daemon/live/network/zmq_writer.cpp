#include "daemon/live/network/zmq_writer.hpp"

#include <cstring>
#include <stdexcept>

#include "daemon/live/wire/gnuradio_tags.hpp"

namespace penstock::live {
namespace {

constexpr int farewell_ms = 500;
constexpr std::size_t most_streams = 4096;

zmq::message_t copy_of(std::span<const std::byte> bytes) {
  return zmq::message_t(bytes.data(), bytes.size());
}

}  // namespace

zmq_writer::zmq_writer(const zmq_writer_settings& settings) try
    : settings_(settings),
      context_(1),
      socket_(context_, settings.pattern == zmq_writer_settings::pattern_of::pub ? zmq::socket_type::xpub
                                                                                 : zmq::socket_type::push) {
  socket_.set(zmq::sockopt::linger, farewell_ms);
  socket_.set(zmq::sockopt::sndhwm, settings.high_water_mark);
  keep_connected(socket_);
  if (settings.pattern == zmq_writer_settings::pattern_of::pub) {
    socket_.set(zmq::sockopt::xpub_nodrop, true);
    socket_.set(zmq::sockopt::xpub_verbose, true);
  } else {
    socket_.set(zmq::sockopt::immediate, true);
  }
  if (settings.keys) {
    keys_.emplace(context_, socket_, *settings.keys);
  }
  descriptor_ = socket_.get(zmq::sockopt::fd);
  endpoints_ = bind_all(socket_, settings.bind);
  connect_all(socket_, settings.connect);
} catch (const zmq::error_t& error) {
  throw std::runtime_error(std::string("ZeroMQ can't make its socket: ") + error.what());
}

void zmq_writer::descriptors(std::vector<pollfd>& wanted) const {
  wanted.push_back({descriptor_, POLLIN, 0});
  if (keys_) {
    keys_->descriptors(wanted);
  }
}

// The descriptors are edge-triggered: what they tell of is taken.
void zmq_writer::idle() {
  if (keys_) {
    keys_->answer();
  }
  hear_of_receivers();
  (void)socket_.get(zmq::sockopt::events);
}

// A receiver that asks for a topic says so in a message.
void zmq_writer::hear_of_receivers() {
  zmq::message_t asked;
  while (settings_.pattern == zmq_writer_settings::pattern_of::pub && socket_.recv(asked, zmq::recv_flags::dontwait)) {
    const bool begins = asked.size() > 0 && *asked.data<std::byte>() == std::byte{1};
    arrivals_ += begins ? 1U : 0U;
  }
}

write_progress zmq_writer::write(const result_message& message) {
  try {
    if (keys_) {
      keys_->answer();
    }
    hear_of_receivers();
    parts_.clear();
    if (settings_.has_topic) {
      parts_.emplace_back(message.name.data(), message.name.size());
    }
    compose(message);
    if (try_send()) {
      return write_progress::written;
    }
    // Looks at what the receivers have taken meanwhile; the socket's descriptor tells of what comes later.
    (void)socket_.get(zmq::sockopt::events);
    if (try_send()) {
      return write_progress::written;
    }
    if (!settings_.drops) {
      return write_progress::full;
    }
    if (settings_.pattern == zmq_writer_settings::pattern_of::push) {
      return write_progress::full;  // the queue drops
    }
    (void)send_to_those_with_room();
    return write_progress::dropped;
  } catch (const zmq::error_t& error) {
    failure_ = error.what();
    return write_progress::failed;
  }
}

bool zmq_writer::try_send() {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const auto flags =
        zmq::send_flags::dontwait | (part + 1 < parts_.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    if (!socket_.send(parts_[part], flags)) {
      return false;  // only the first part can find no room
    }
  }
  return true;
}

bool zmq_writer::send_to_those_with_room() {
  socket_.set(zmq::sockopt::xpub_nodrop, false);
  const bool sent = try_send();
  socket_.set(zmq::sockopt::xpub_nodrop, true);
  return sent;
}

void zmq_writer::compose(const result_message& message) {
  switch (settings_.framing) {
    case zmq_framing::raw:
      parts_.push_back(copy_of(message.bytes));
      return;
    case zmq_framing::gnuradio_tags:
      return compose_tagged(message);
    case zmq_framing::penstock:
      return compose_penstock(message);
  }
}

void zmq_writer::compose_tagged(const result_message& message) {
  std::string stream(message.session);
  stream.append(1, '\0').append(message.output);
  if (told_.size() > most_streams) {
    told_.clear();
  }
  std::uint64_t& told = told_[stream];
  gnuradio_header_writer header(header_, message.offset);
  if ((message.begins || told != arrivals_) && !message.bytes.empty()) {
    told = arrivals_;
    if (message.time_ns) {
      header.time(message.offset, *message.time_ns);
    }
    if (message.item_rate > 0) {
      header.rate(message.offset, message.item_rate);
    }
  }
  zmq::message_t& part = parts_.emplace_back(header_.size() + message.bytes.size());
  std::memcpy(part.data(), header_.data(), header_.size());
  if (!message.bytes.empty()) {
    std::memcpy(part.data<std::byte>() + header_.size(), message.bytes.data(), message.bytes.size());
  }
}

// A PUBLISHED of one tensor: a source reads it, and knows from its number and its index what is missing.
void zmq_writer::compose_penstock(const result_message& message) {
  wire::message_header header;
  header.type = wire::message_type::published;
  header.sequence = message.sequence;
  header.tensors = 1;
  header.frames = message.frames;
  header.header_len =
      static_cast<std::uint16_t>(message.account ? wire::account_header_bytes_of(1) : wire::header_bytes);
  zmq::message_t& part = parts_.emplace_back(header.header_len + wire::tensor_header_bytes);
  const std::span<std::byte> out(part.data<std::byte>(), part.size());
  wire::encode(header, out);
  if (message.account) {
    wire::encode(*message.account, out.subspan(wire::header_bytes));
    wire::encode_output_index(message.index, out.subspan(wire::account_header_bytes));
  }
  wire::encode(message.shape, out.subspan(header.header_len));
  parts_.push_back(copy_of(message.bytes));
}

}  // namespace penstock::live
