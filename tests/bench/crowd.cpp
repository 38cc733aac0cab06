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

constexpr auto patience = std::chrono::seconds{20};

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
      receive_or_wait(clock::now() + patience);
    }
    begin_ = clock::now();
    report_.begin = begin_;
    report_.sent = departures_.size();
    std::size_t next = 0;
    while (next < departures_.size() || answered_ < departures_.size()) {
      while (next < departures_.size() && clock::now() - begin_ >= departures_[next].after) {
        send(next++);
      }
      receive_or_wait(next < departures_.size() ? begin_ + departures_[next].after : clock::now() + patience);
    }
    return std::move(report_);
  }

 private:
  // A request's id is its place among the departures, from 1.
  void send(std::size_t place) {
    message_.set_id(place + 1);
    zmq::socket_t& socket = sockets_[departures_[place].client];
    message_.send(socket);
  }

  // ZMQ_FD tells of edges alone: it is waited for only when no socket has anything.
  void receive_or_wait(clock::time_point until) {
    bool any = false;
    for (std::size_t client = 0; client < sockets_.size(); ++client) {
      while ((sockets_[client].get(zmq::sockopt::events) & ZMQ_POLLIN) != 0) {
        receive(client);
        any = true;
      }
    }
    if (any) {
      last_heard_ = clock::now();
      return;
    }
    const clock::time_point now = clock::now();
    if (now - last_heard_ > patience && now - begin_ > patience && answered_ < departures_.size() && until > now) {
      throw std::runtime_error("no reply came");
    }
    if (until > now) {
      const auto left = std::chrono::duration_cast<nanoseconds>(until - now).count();
      const timespec wait{left / 1'000'000'000, left % 1'000'000'000};
      ::ppoll(polled_.data(), polled_.size(), &wait, nullptr);
    }
  }

  void receive(std::size_t client) {
    const std::optional<reply> came = receive_reply(sockets_[client]);
    const clock::time_point now = clock::now();
    if (!came) {
      throw std::runtime_error("no reply came");
    }
    const wire::message_header& header = came->header;
    if (header.type == wire::message_type::welcome) {
      --welcomes_;
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
  std::size_t welcomes_ = 0;
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

}  // namespace penstock::bench
