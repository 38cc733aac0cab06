#include "daemon/net/zap_handler.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string_view>

#include <pthread.h>
#include <spdlog/spdlog.h>

namespace penstock {
namespace {

const char* text_of(handshake_refusal why) noexcept {
  switch (why) {
    case handshake_refusal::unlisted_key:
      return "the key is not in security.authorized_keys_file";
    case handshake_refusal::wrong_mechanism:
      return "it speaks plain text where keys are asked for, or has keys where none are";
    case handshake_refusal::wrong_server_key:
      return "it takes another key for this daemon's";
    case handshake_refusal::malformed:
      return "it does not keep to ZeroMQ's handshake";
    case handshake_refusal::unfinished:
      return "it did not finish its handshake within security.handshake_timeout, or left";
    case handshake_refusal::no_descriptor:
      return "too many files are open: raise the limit (LimitNOFILE)";
  }
  return "";
}

}  // namespace

void refusal_log::note(handshake_refusal why, const std::string& peer, time_point now) {
  kind& entry = kinds_[static_cast<std::size_t>(why)];
  ++entry.silent;
  entry.peer = peer;
  if (entry.last == time_point::min() || now - entry.last >= interval) {
    write(why, entry, now);
  }
}

void refusal_log::flush(time_point now) {
  for (std::size_t index = 0; index < kinds_.size(); ++index) {
    kind& entry = kinds_[index];
    if (entry.silent > 0 && now - entry.last >= interval) {
      write(static_cast<handshake_refusal>(index), entry, now);
    }
  }
}

refusal_log::time_point refusal_log::next() const noexcept {
  time_point soonest = time_point::max();
  for (const kind& entry : kinds_) {
    soonest = entry.silent > 0 ? std::min(soonest, entry.last + interval) : soonest;
  }
  return soonest;
}

void refusal_log::write(handshake_refusal why, kind& kind, time_point now) {
  spdlog::warn("refused {}{}{}: {}", kind.silent == 1 ? "a connection" : fmt::format("{} connections", kind.silent),
               kind.peer.empty()  ? ""
               : kind.silent == 1 ? " from "
                                  : ", the last from ",
               kind.peer, text_of(why));
  kind.silent = 0;
  kind.last = now;
}

namespace {

using clock = std::chrono::steady_clock;

// The longest wait of the loop, so that `rounds` goes on.
constexpr std::chrono::milliseconds round{500};

constexpr const char* zap_endpoint = "inproc://zeromq.zap.01";
constexpr const char* events_endpoint = "inproc://penstock.handshakes";
constexpr std::string_view zap_version = "1.0";
constexpr std::string_view zap_domain = "penstock";
// The parts of a ZAP question about CURVE, in this order.
enum zap_part : std::size_t { version, request_id, domain, address, routing_id, mechanism, key, zap_parts };

constexpr int watched_events = ZMQ_EVENT_ACCEPT_FAILED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                               ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;

// Receives one whole message; false if there is none.
bool receive(zmq::socket_t& socket, std::vector<zmq::message_t>& parts) {
  parts.clear();
  do {
    zmq::message_t part;
    if (!socket.recv(part, zmq::recv_flags::dontwait)) {
      return false;
    }
    parts.push_back(std::move(part));
  } while (parts.back().more());
  return true;
}

std::chrono::milliseconds until(clock::time_point moment) {
  const clock::time_point now = clock::now();
  const clock::duration left = std::min<clock::duration>(std::max(moment, now) - now, round);
  return std::chrono::ceil<std::chrono::milliseconds>(left);
}

}  // namespace

zap_handler::zap_handler(zmq::context_t& context, zmq::socket_t& watched, const keyring* keys)
    : context_(context), watched_(watched), keys_(keys), events_(context, zmq::socket_type::pair) {
  if (keys_ != nullptr) {
    questions_ = zmq::socket_t(context_, zmq::socket_type::rep);
    questions_.set(zmq::sockopt::linger, 0);
    questions_.bind(zap_endpoint);
    const auto& secret = keys_->secret().bytes();
    watched.set(zmq::sockopt::zap_domain, zap_domain);
    watched.set(zmq::sockopt::curve_server, true);
    watched.set(zmq::sockopt::curve_secretkey, zmq::const_buffer(secret.data(), secret.size()));
  }
  if (::zmq_socket_monitor(watched.handle(), events_endpoint, watched_events) != 0) {
    throw zmq::error_t();
  }
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(events_endpoint);
  thread_ = std::thread([this] { run(); });
}

zap_handler::~zap_handler() {
  stop();
}

void zap_handler::stop() noexcept {
  if (thread_.joinable()) {
    // First, because libzmq does not free events that it can no longer deliver.
    ::zmq_socket_monitor(watched_.handle(), nullptr, 0);
    context_.shutdown();
    thread_.join();
  }
  questions_.close();
  events_.close();
}

// The sockets stay open if the thread fails: without a ZAP socket libzmq admits every key, but while an answer is
// missing it admits none.
void zap_handler::run() {
  ::pthread_setname_np(::pthread_self(), "zap-handler");
  try {
    serve();
  } catch (const zmq::error_t& error) {
    if (error.num() == ENOMEM) {
      throw std::bad_alloc();
    }
    if (error.num() != ETERM) {
      spdlog::error("nobody can connect any more: the ZAP handler failed: {}", error.what());
    }
  } catch (const std::bad_alloc&) {
    throw;  // ends the daemon, to which nobody could connect any more
  } catch (const std::exception& error) {
    spdlog::error("nobody can connect any more: the ZAP handler failed: {}", error.what());
  }
}

void zap_handler::serve() {
  std::array<zmq::pollitem_t, 2> items{
      {{events_.handle(), 0, ZMQ_POLLIN, 0}, {keys_ != nullptr ? questions_.handle() : nullptr, 0, ZMQ_POLLIN, 0}}};
  std::vector<zmq::message_t> parts;
  for (;;) {
    rounds_.fetch_add(1, std::memory_order_relaxed);
    zmq::poll(items.data(), keys_ != nullptr ? 2 : 1, until(log_.next()));
    while (keys_ != nullptr && receive(questions_, parts)) {
      answer(parts);
    }
    while (receive(events_, parts)) {
      std::uint16_t event = 0;
      std::uint32_t value = 0;
      if (parts.front().size() >= sizeof event + sizeof value) {
        std::memcpy(&event, parts.front().data(), sizeof event);
        std::memcpy(&value, static_cast<const char*>(parts.front().data()) + sizeof event, sizeof value);
      }
      note(event, value);
    }
    log_.flush(clock::now());
  }
}

void zap_handler::answer(std::vector<zmq::message_t>& question) {
  std::string user;
  const bool admitted = authorises(question, user);
  const zmq::message_t number = question.size() > request_id ? std::move(question[request_id]) : zmq::message_t();
  const std::array<std::string_view, 6> answer{
      zap_version, number.to_string_view(), admitted ? "200" : "400", admitted ? "OK" : "not authorised", user, ""};
  for (std::size_t part = 0; part < answer.size(); ++part) {
    const auto more = part + 1 < answer.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    (void)questions_.send(zmq::buffer(answer[part]), more);
  }
}

// Only libzmq itself can ask, within this process. A question that violates RFC 27 is refused nevertheless.
bool zap_handler::authorises(const std::vector<zmq::message_t>& question, std::string& user) {
  curve_public_key theirs{};
  if (question.size() != zap_parts || question[version].to_string_view() != zap_version ||
      question[domain].to_string_view() != zap_domain || question[mechanism].to_string_view() != "CURVE" ||
      question[key].size() != theirs.size()) {
    refuse(handshake_refusal::malformed, "");
    return false;
  }
  std::memcpy(theirs.data(), question[key].data(), theirs.size());
  if (theirs == keys_->own_client().public_key) {
    return true;
  }
  const std::shared_ptr<const authorized_keys> list = keys_->authorized();
  if (!list->find(theirs)) {
    refuse(handshake_refusal::unlisted_key, question[address].to_string());
    return false;
  }
  std::array<char, 41> text{};
  user = ::zmq_z85_encode(text.data(), theirs.data(), theirs.size());
  return true;
}

// A handshake that `authorises` refused may appear here again, as unfinished, when its connection ends.
void zap_handler::note(std::uint16_t event, std::uint32_t value) {
  switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      account_.succeed();
      return;
    case ZMQ_EVENT_ACCEPT_FAILED:
      if (value == EAGAIN) {
        return;  // connections beyond the rate are counted and logged elsewhere
      }
      refuse(value == EMFILE || value == ENFILE ? handshake_refusal::no_descriptor : handshake_refusal::unfinished, "");
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      refuse(value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? handshake_refusal::wrong_mechanism
             : value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC    ? handshake_refusal::wrong_server_key
                                                                 : handshake_refusal::malformed,
             "");
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      refuse(handshake_refusal::unfinished, "");
      return;
    default:
      return;
  }
}

void zap_handler::refuse(handshake_refusal why, const std::string& peer) {
  account_.refuse(why);
  if (why != handshake_refusal::no_descriptor) {  // that is logged elsewhere, for as long as it lasts
    log_.note(why, peer, clock::now());
  }
}

}  // namespace penstock
