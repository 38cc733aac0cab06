#include "daemon/security/gatekeeper.hpp"

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

using clock = std::chrono::steady_clock;

// So often it comes round when nobody is at the door: its sign of life.
constexpr std::chrono::milliseconds round{500};

constexpr const char* zap_endpoint = "inproc://zeromq.zap.01";
constexpr const char* events_endpoint = "inproc://penstock.handshakes";
constexpr std::string_view zap_version = "1.0";
constexpr std::string_view zap_domain = "penstock";
// The parts of a ZAP question about CURVE, in this order.
enum zap_part : std::size_t { version, request, domain, address, routing_id, mechanism, key, zap_parts };

constexpr int watched_events = ZMQ_EVENT_ACCEPT_FAILED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                               ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;

// One whole message; false when there is none.
bool receive(zmq::socket_t& from, std::vector<zmq::message_t>& parts) {
  parts.clear();
  do {
    zmq::message_t part;
    if (!from.recv(part, zmq::recv_flags::dontwait)) {
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

gatekeeper::gatekeeper(zmq::context_t& context, zmq::socket_t& watched, const keyring* keys)
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

gatekeeper::~gatekeeper() {
  stop();
}

void gatekeeper::stop() noexcept {
  if (thread_.joinable()) {
    // First, because libzmq does not free the news that it cannot tell any more.
    ::zmq_socket_monitor(watched_.handle(), nullptr, 0);
    context_.shutdown();
    thread_.join();
  }
  questions_.close();
  events_.close();
}

// The sockets stay open when the thread has failed: libzmq lets every key in where nobody could be asked, and none
// while the answer is missing.
void gatekeeper::run() {
  ::pthread_setname_np(::pthread_self(), "gatekeeper");
  try {
    serve();
  } catch (const zmq::error_t& error) {
    if (error.num() == ENOMEM) {
      throw std::bad_alloc();
    }
    if (error.num() != ETERM) {
      spdlog::error("nobody can connect any more: the gatekeeper failed: {}", error.what());
    }
  } catch (const std::bad_alloc&) {
    throw;  // which ends the daemon, into which nobody could come any more
  } catch (const std::exception& error) {
    spdlog::error("nobody can connect any more: the gatekeeper failed: {}", error.what());
  }
}

void gatekeeper::serve() {
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

void gatekeeper::answer(std::vector<zmq::message_t>& question) {
  std::string user;
  const bool in = lets_in(question, user);
  const zmq::message_t number = question.size() > request ? std::move(question[request]) : zmq::message_t();
  const std::array<std::string_view, 6> answer{
      zap_version, number.to_string_view(), in ? "200" : "400", in ? "OK" : "not authorised", user, ""};
  for (std::size_t part = 0; part < answer.size(); ++part) {
    const auto more = part + 1 < answer.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    (void)questions_.send(zmq::buffer(answer[part]), more);
  }
}

// Only libzmq itself can ask, from within this process; what is not as RFC 27 has it is refused all the same.
bool gatekeeper::lets_in(const std::vector<zmq::message_t>& question, std::string& user) {
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

// What `lets_in` has refused may come here once more, as unfinished, when its connection ends.
void gatekeeper::note(std::uint16_t event, std::uint32_t value) {
  switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      account_.succeed();
      return;
    case ZMQ_EVENT_ACCEPT_FAILED:
      if (value == EAGAIN) {
        return;  // connections that came too often are gone: counted, and told in the log, by themselves
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

void gatekeeper::refuse(handshake_refusal why, const std::string& from) {
  account_.refuse(why);
  if (why != handshake_refusal::no_descriptor) {  // the log has a line for that as long as it lasts
    log_.note(why, from, clock::now());
  }
}

}  // namespace penstock
