#include "tests/bench/open_loop.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>

#include <poll.h>
#include <zmq.hpp>

#include "proto/message.hpp"
#include "tests/bench/load_client.hpp"

namespace penstock::bench {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Requests sent between two looks for replies, and about as many replies read between two sends: neither starves the
// other when both are late.
constexpr std::size_t most_in_a_row = 64;

struct departure {
  nanoseconds after;
  std::size_t client;
};

// Of all clients, in order of time. Those of one client depend only on the seed and its number.
std::vector<departure> departures_of(const open_loop_settings& settings) {
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

class open_loop_run {
 public:
  explicit open_loop_run(const open_loop_settings& settings)
      : settings_(settings), message_(settings.pipeline, settings.floats), departures_(departures_of(settings)) {
    report_.latencies_us.resize(settings.clients);
    for (std::size_t client = 0; client < settings.clients; ++client) {
      zmq::socket_t& socket = sockets_.emplace_back(context_, zmq::socket_type::dealer);
      socket.set(zmq::sockopt::linger, 0);
      // As in the clients: without high-water marks a send never waits for a server that itself waits for a reader.
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

  open_loop_report run() {
    while (welcomes_ > 0) {
      if (!receive_or_wait(clock::time_point::max())) {
        throw std::runtime_error("the daemon does not answer HELLO");
      }
    }
    if (settings_.before_sending) {
      settings_.before_sending();
    }
    begin_ = clock::now();
    last_reply_ = begin_;
    report_.begin = begin_;
    bool patient = true;
    while (patient) {
      send_due();
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
  // A request's id is the number of its departure, from 1.
  void send_due() {
    if (settings_.stop.stop_requested()) {
      departures_.resize(next_);
    }
    for (std::size_t sent = 0; sent < most_in_a_row && next_ < departures_.size(); ++sent, ++next_) {
      if (clock::now() - begin_ < departures_[next_].after) {
        return;
      }
      if (answered_ == next_) {  // no reply was due until now
        last_reply_ = clock::now();
      }
      message_.set_id(next_ + 1);
      message_.send(sockets_[departures_[next_].client]);
    }
  }

  // False when every socket is empty.
  bool receive_available() {
    const std::size_t most = std::max<std::size_t>(most_in_a_row / sockets_.size(), 1);
    bool any = false;
    for (std::size_t client = 0; client < sockets_.size(); ++client) {
      for (std::size_t taken = 0; taken < most && has_reply(client); ++taken) {
        receive(client);
        any = true;
      }
    }
    return any;
  }
  bool has_reply(std::size_t client) { return (sockets_[client].get(zmq::sockopt::events) & ZMQ_POLLIN) != 0; }

  // False when a reply is due and none has arrived within `patience`. ZMQ_FD is edge-triggered: wait for it only when
  // every socket is empty.
  bool receive_or_wait(clock::time_point until) {
    if (receive_available()) {
      last_reply_ = clock::now();
      return true;
    }
    const clock::time_point now = clock::now();
    if (welcomes_ > 0 || answered_ < next_) {
      const clock::time_point end = last_reply_ + settings_.patience;
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
    if (is_unsolicited(*came)) {
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
    const nanoseconds scheduled = departures_[header.request_id - 1].after;
    const double latency_us = std::chrono::duration<double, std::micro>(now - begin_ - scheduled).count();
    report_.latencies_us[client].push_back(latency_us);
    report_.results.push_back({scheduled, latency_us});
  }

  const open_loop_settings& settings_;
  submit_message message_;
  std::vector<departure> departures_;
  open_loop_report report_;
  zmq::context_t context_{1};
  std::vector<zmq::socket_t> sockets_;
  std::vector<pollfd> polled_;
  std::size_t welcomes_ = 0;  // not yet received
  std::size_t next_ = 0;      // index of the next departure
  std::size_t answered_ = 0;
  clock::time_point begin_ = clock::now();
  clock::time_point last_reply_ = clock::now();
};

}  // namespace

std::vector<double> open_loop_report::latencies_of_first(std::size_t clients) const {
  std::vector<double> all;
  for (std::size_t client = 0; client < std::min(clients, latencies_us.size()); ++client) {
    all.insert(all.end(), latencies_us[client].begin(), latencies_us[client].end());
  }
  return all;
}

open_loop_report run_open_loop(const open_loop_settings& settings) {
  return open_loop_run(settings).run();
}

open_loop_report run_answered_open_loop(const open_loop_settings& settings) {
  open_loop_report report = run_open_loop(settings);
  if (report.unanswered > 0) {
    throw std::runtime_error(std::to_string(report.unanswered) + " requests had no answer");
  }
  return report;
}

namespace {

bool is_done(const std::future<open_loop_report>& thread, milliseconds wait = milliseconds{0}) {
  return thread.wait_for(wait) == std::future_status::ready;
}

}  // namespace

open_loop_threads::open_loop_threads(const open_loop_settings& settings) {
  const std::size_t cores = std::max<std::size_t>(std::thread::hardware_concurrency() / 4, 1);
  std::size_t clients = settings.clients;
  for (std::size_t left = std::min(cores, settings.clients); left > 0; --left) {
    open_loop_settings share = settings;
    share.clients = clients / left;
    share.seed = settings.seed * settings.clients + left;
    share.stop = stop_.get_token();
    share.before_sending = [this] {
      ++ready_;
      start_.wait();
    };
    clients -= share.clients;
    threads_.push_back(std::async(std::launch::async, [share] { return run_open_loop(share); }));
  }
  // A thread that has ended by now has failed; totals() rethrows.
  const auto failed = [this] {
    return std::any_of(threads_.begin(), threads_.end(), [](const auto& each) { return is_done(each); });
  };
  while (ready_ < threads_.size() && !failed()) {
    std::this_thread::sleep_for(milliseconds{1});
  }
}

open_loop_threads::~open_loop_threads() {
  stop();
  if (!start_.try_wait()) {
    start();
  }
}

bool open_loop_threads::done_within(milliseconds wait) const {
  const auto end = std::chrono::steady_clock::now() + wait;
  return std::all_of(threads_.begin(), threads_.end(), [&](const std::future<open_loop_report>& each) {
    return is_done(each, std::chrono::ceil<milliseconds>(
                             std::max(end - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration{})));
  });
}

open_loop_totals open_loop_threads::totals() {
  open_loop_totals all;
  for (std::future<open_loop_report>& each : threads_) {
    const open_loop_report report = each.get();
    all.sent += report.sent;
    all.refused += report.refused;
    all.results.insert(all.results.end(), report.results.begin(), report.results.end());
    all.unanswered += report.unanswered;
    for (const auto& [code, count] : report.errors) {
      all.errors[code] += count;
    }
    all.begin = &each == &threads_.front() ? report.begin : std::min(all.begin, report.begin);
  }
  return all;
}

}  // namespace penstock::bench
