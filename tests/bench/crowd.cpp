#include "tests/bench/crowd.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>

#include <poll.h>
#include <zmq.hpp>

#include "proto/message.hpp"
#include "tests/bench/reply.hpp"
#include "tests/bench/submit_message.hpp"

namespace penstock::bench {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

// Requests that leave one after the other, where many are late, before replies are looked for again; and about as many
// replies that are taken in before requests leave again, so that the one does not make the other late for ever.
constexpr std::size_t most_in_a_row = 64;

struct departure {
  nanoseconds after;
  std::size_t client;
};

// Those of all clients, in their order. A client's own depend on the seed and on its number alone.
std::vector<departure> departures_of(const crowd_settings& settings) {
  std::vector<departure> all;
  for (std::size_t client = 0; client < settings.clients; ++client) {
    std::mt19937_64 random(settings.seed * 1000003 + client);
    std::exponential_distribution<double> gap(settings.rate);
    double at = gap(random);
    for (; at < std::chrono::duration<double>(settings.span).count(); at += gap(random)) {
      all.push_back({nanoseconds{static_cast<std::int64_t>(at * 1e9)}, client});
    }
  }
  std::sort(all.begin(), all.end(), [](const departure& a, const departure& b) { return a.after < b.after; });
  return all;
}

class crowd {
 public:
  explicit crowd(const crowd_settings& settings)
      : settings_(settings), message_(settings.pipeline, settings.floats), departures_(departures_of(settings)) {
    report_.latencies_us.resize(settings.clients);
    for (std::size_t client = 0; client < settings.clients; ++client) {
      zmq::socket_t& socket = sockets_.emplace_back(context_, zmq::socket_type::dealer);
      socket.set(zmq::sockopt::linger, 0);
      // As in the clients: with no marks a send never waits for a server that waits for its replies to be read.
      socket.set(zmq::sockopt::sndhwm, 0);
      socket.set(zmq::sockopt::rcvhwm, 0);
      socket.set(zmq::sockopt::sndtimeo, static_cast<int>(settings.patience.count()));
      socket.connect(settings.endpoint);
      polled_.push_back({socket.get(zmq::sockopt::fd), POLLIN, 0});
      if (settings.hello) {
        (void)socket.send(zmq::buffer(hello_head()), zmq::send_flags::sndmore);
        (void)socket.send(zmq::buffer(hello_body()), zmq::send_flags::none);
        welcomes_ += 1;
      }
    }
  }

  crowd_report run() {
    while (welcomes_ > 0) {
      if (!receive_or_wait(clock::time_point::max())) {
        throw std::runtime_error("the daemon does not answer HELLO");
      }
    }
    if (settings_.before_sending) {
      settings_.before_sending();
    }
    begin_ = clock::now();
    last_heard_ = begin_;
    report_.begin = begin_;
    bool patient = true;
    while (patient) {
      send_what_is_due();
      if (next_ >= departures_.size() && answered_ >= departures_.size()) {
        break;
      }
      patient =
          receive_or_wait(next_ < departures_.size() ? begin_ + departures_[next_].after : clock::time_point::max());
    }
    if (answered_ == 0 && !departures_.empty()) {
      throw std::runtime_error("no reply came");
    }
    report_.sent = next_;
    report_.unanswered = next_ - std::min(answered_, next_);
    return std::move(report_);
  }

 private:
  // A request's id is its place among the departures, from 1.
  void send_what_is_due() {
    if (settings_.stop.stop_requested()) {
      departures_.resize(next_);
    }
    for (std::size_t sent = 0; sent < most_in_a_row && next_ < departures_.size(); ++sent, ++next_) {
      if (clock::now() - begin_ < departures_[next_].after) {
        return;
      }
      if (answered_ == next_) {  // nobody owed a reply until now
        last_heard_ = clock::now();
      }
      message_.set_id(next_ + 1);
      message_.send(sockets_[departures_[next_].client]);
    }
  }

  // False when no socket has anything.
  bool receive_what_has_come() {
    const std::size_t most = std::max<std::size_t>(most_in_a_row / sockets_.size(), 1);
    bool any = false;
    for (std::size_t client = 0; client < sockets_.size(); ++client) {
      for (std::size_t taken = 0; taken < most && has_come(client); ++taken) {
        receive(client);
        any = true;
      }
    }
    return any;
  }
  bool has_come(std::size_t client) { return (sockets_[client].get(zmq::sockopt::events) & ZMQ_POLLIN) != 0; }

  // False when a reply is owed and none has come for too long. ZMQ_FD tells of edges alone: it is waited for only when
  // no socket has anything.
  bool receive_or_wait(clock::time_point until) {
    if (receive_what_has_come()) {
      last_heard_ = clock::now();
      return true;
    }
    const clock::time_point now = clock::now();
    if (welcomes_ > 0 || answered_ < next_) {
      const clock::time_point end = last_heard_ + settings_.patience;
      if (now >= end) {
        return false;
      }
      until = std::min(until, end);
    }
    if (until > now) {
      const auto left = std::chrono::duration_cast<nanoseconds>(until - now).count();
      const timespec wait{left / 1'000'000'000, left % 1'000'000'000};
      ::ppoll(polled_.data(), polled_.size(), &wait, nullptr);
    }
    return true;
  }

  void receive(std::size_t client) {
    const std::optional<reply> came = receive_reply(sockets_[client]);
    const clock::time_point now = clock::now();
    if (!came) {
      throw std::runtime_error("no reply came");
    }
    const wire::message_header& header = came->header;
    if (is_unasked(*came)) {
      welcomes_ -= header.type == wire::message_type::welcome && welcomes_ > 0 ? 1 : 0;
      return;
    }
    ++answered_;
    const bool good = header.type == wire::message_type::result || header.type == wire::message_type::submit;
    if (!good || header.request_id == 0 || header.request_id > departures_.size()) {
      ++report_.refused;
      ++report_.errors[std::string(wire::name_of(header.code))];
      return;
    }
    const nanoseconds meant = departures_[header.request_id - 1].after;
    const double latency_us = std::chrono::duration<double, std::micro>(now - begin_ - meant).count();
    report_.latencies_us[client].push_back(latency_us);
    report_.results.push_back({meant, latency_us});
  }

  const crowd_settings& settings_;
  submit_message message_;
  std::vector<departure> departures_;
  crowd_report report_;
  zmq::context_t context_{1};
  std::vector<zmq::socket_t> sockets_;
  std::vector<pollfd> polled_;
  std::size_t welcomes_ = 0;  // yet to come
  std::size_t next_ = 0;      // of the departures
  std::size_t answered_ = 0;
  clock::time_point begin_ = clock::now();
  clock::time_point last_heard_ = clock::now();
};

}  // namespace

std::vector<double> crowd_report::of_first(std::size_t clients) const {
  std::vector<double> all;
  for (std::size_t client = 0; client < std::min(clients, latencies_us.size()); ++client) {
    all.insert(all.end(), latencies_us[client].begin(), latencies_us[client].end());
  }
  return all;
}

crowd_report run_crowd(const crowd_settings& settings) {
  return crowd(settings).run();
}

crowd_report run_answered_crowd(const crowd_settings& settings) {
  crowd_report report = run_crowd(settings);
  if (report.unanswered > 0) {
    throw std::runtime_error(std::to_string(report.unanswered) + " requests had no answer");
  }
  return report;
}

}  // namespace penstock::bench
