#include "daemon/net/message_reader.hpp"

#include <algorithm>
#include <utility>

#include "base/thread_handover.hpp"
#include "proto/message.hpp"

namespace penstock {
namespace {

// The tensors of a message, but for the first.
constexpr std::size_t most_further = wire::max_tensors - 1;

std::span<const std::byte> bytes_of(const zmq::message_t& part) noexcept {
  return {static_cast<const std::byte*>(part.data()), part.size()};
}

}  // namespace

std::optional<incoming> message_reader::receive() {
  // The last message may be large and refused, and the next one may be long in coming.
  for (zmq::message_t& each : parts_) {
    each.rebuild();
  }
  for (zmq::message_t& each : std::span(more_).first(further_)) {
    each.rebuild();
  }
  further_ = 0;
  const zmq::recv_result_t identity_bytes = socket_.get().recv(identity_, zmq::recv_flags::dontwait);
  if (!identity_bytes) {
    return std::nullopt;
  }
  incoming message;
  // ROUTER delivers whole messages: if the first part is here, all are.
  bool more = identity_.more();
  std::size_t all_bytes = 0;
  while (more) {
    zmq::message_t& part = message.parts < parts_.size() ? parts_[message.parts] : further_part(message.parts);
    if (!socket_.get().recv(part, zmq::recv_flags::dontwait)) {
      break;
    }
    take_over(part.data());
    more = part.more();
    all_bytes += part.size();
    message.bytes += message.parts > 0 ? part.size() : 0;
    ++message.parts;
  }
  // Not the identity's: where the socket was polled before, libzmq makes one that knows no connection.
  zmq::message_t& sent = message.parts > 0 ? parts_[0] : identity_;
  message.connection = connection_at(::zmq_msg_get(sent.handle(), ZMQ_SRCFD));
  meter_heard(message.connection.descriptor, all_bytes, message.parts);
  if (message.parts > parts_.size() + most_further) {
    surplus_.rebuild();
  }
  message.identity = {static_cast<const char*>(identity_.data()), *identity_bytes};
  message.head = message.parts > 0 ? bytes_of(parts_[0]) : std::span<const std::byte>{};
  message.body = message.parts > 1 ? bytes_of(parts_[1]) : std::span<const std::byte>{};
  if (message.parts > parts_.size()) {
    further_ = std::min(message.parts - parts_.size(), most_further);
    message.more = std::span(more_).first(further_);
  }
  return message;
}

zmq::message_t& message_reader::further_part(std::size_t number) {
  const std::size_t place = number - parts_.size();
  if (place >= most_further) {
    return surplus_;
  }
  if (place >= more_.size()) {
    more_.resize(place + 1);
  }
  return more_[place];
}

void message_reader::join_payloads(incoming& message) {
  zmq::message_t joined(message.bytes);
  auto* next = static_cast<std::byte*>(joined.data());
  next = std::copy(message.body.begin(), message.body.end(), next);
  for (const zmq::message_t& each : message.more) {
    const std::span<const std::byte> bytes = bytes_of(each);
    next = std::copy(bytes.begin(), bytes.end(), next);
  }
  parts_[1] = std::move(joined);
  message.body = bytes_of(parts_[1]);
  message.more = {};
}

// Copied letter by letter: ThreadSanitizer can't see how libzmq passes on a text that another of its threads wrote.
__attribute__((no_sanitize("thread"))) std::string message_reader::user() const {
  const char* const found = ::zmq_msg_gets(parts_[0].handle(), "User-Id");
  std::string made;
  for (const char* letter = found; letter != nullptr && *letter != '\0'; ++letter) {
    const char own = *letter;
    made += own;
  }
  return made;
}

void message_reader::keep_payload(const incoming& message, std::uint32_t index) {
  zmq::message_t& part = parts_[message.parts > 1 ? 1 : 0];
  const std::size_t offset = part.size() - message.body.size();
  if (offset <= wire::account_header_bytes + wire::tensor_header_bytes) {
    payloads_.keep(index, std::move(part), offset);
  } else {  // credits do not count headers, so large ones are not kept
    payloads_.keep(index, zmq::message_t(message.body.data(), message.body.size()));
  }
}

}  // namespace penstock
