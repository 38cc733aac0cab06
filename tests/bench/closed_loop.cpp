#include "tests/bench/closed_loop.hpp"

#include <algorithm>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>

#include <sys/epoll.h>
#include <unistd.h>
#include <zmq.hpp>

#include "client/cpp/endpoint.hpp"
#include "proto/control.hpp"
#include "proto/message.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t max_latencies = 100'000;
constexpr int patience_ms = 20'000;
constexpr std::size_t events_at_once = 64;

}  // namespace

/// The clients of one thread. Thread: one at a time.
class closed_loop_thread {
 public:
  /// `first`: the number of its first client among all.
  closed_loop_thread(const closed_loop_settings& settings, std::size_t first);
  ~closed_loop_thread();
  closed_loop_thread(const closed_loop_thread&) = delete;
  closed_loop_thread& operator=(const closed_loop_thread&) = delete;

  struct outcome {
    std::uint64_t replies = 0;
    std::vector<double> latencies_us;
  };
  outcome run(std::chrono::milliseconds span);

 private:
  using clock = std::chrono::steady_clock;

  struct request {
    std::uint64_t id = 0;
    clock::time_point sent;
  };
  struct client {
    zmq::socket_t socket;
    submit_message* message = nullptr;
    std::vector<request> requests;  ///< in flight; index: id modulo size
  };

  void connect(client& peer);
  void greet(client& peer);
  void send(client& peer, std::size_t place);
  [[nodiscard]] std::size_t receive(client& peer);
  void serve(client& peer);
  void wait();

  closed_loop_settings settings_;
  zmq::context_t context_{1};
  std::vector<submit_message> messages_;  // by pipeline
  std::vector<client> clients_;
  int poll_ = -1;
  clock::time_point until_;
  std::size_t in_flight_ = 0;
  outcome outcome_;
};

closed_loop::closed_loop(const closed_loop_settings& settings) {
  const std::size_t cores = std::max<std::size_t>(std::thread::hardware_concurrency() / 4, 1);
  const std::size_t count = std::min(cores, settings.clients);
  std::size_t first = 0;
  for (std::size_t at = 0; at < count; ++at) {
    closed_loop_settings share = settings;
    share.clients = (settings.clients - first) / (count - at);
    threads_.push_back(std::make_unique<closed_loop_thread>(share, first));
    first += share.clients;
  }
}

closed_loop::~closed_loop() = default;
closed_loop::closed_loop(closed_loop&& other) noexcept = default;

load_result closed_loop::run(std::chrono::milliseconds span) {
  using clock = std::chrono::steady_clock;
  const clock::time_point begin = clock::now();
  std::vector<std::future<closed_loop_thread::outcome>> running;
  for (std::size_t at = 1; at < threads_.size(); ++at) {
    running.push_back(std::async(std::launch::async, [&each = *threads_[at], span] { return each.run(span); }));
  }
  closed_loop_thread::outcome all = threads_.front()->run(span);
  for (auto& each : running) {
    const closed_loop_thread::outcome part = each.get();
    all.replies += part.replies;
    all.latencies_us.insert(all.latencies_us.end(), part.latencies_us.begin(), part.latencies_us.end());
  }
  const std::chrono::duration<double> took = clock::now() - begin;
  return {static_cast<double>(all.replies) / took.count(), quantile(all.latencies_us, 0.5),
          quantile(all.latencies_us, 0.99), static_cast<std::size_t>(all.replies)};
}

closed_loop_thread::closed_loop_thread(const closed_loop_settings& settings, std::size_t first) : settings_(settings) {
  context_.set(zmq::ctxopt::max_sockets, static_cast<int>(settings.clients) + 16);
  for (std::uint32_t pipeline = 0; pipeline < settings.pipelines; ++pipeline) {
    messages_.emplace_back(settings.pipeline + pipeline, settings.floats, settings.frames);
  }
  poll_ = ::epoll_create1(EPOLL_CLOEXEC);
  clients_.resize(settings.clients);
  for (std::size_t at = 0; at < clients_.size(); ++at) {
    client& each = clients_[at];
    each.message = &messages_[(first + at) % messages_.size()];
    each.requests.resize(settings.in_flight);
    for (std::size_t place = 0; place < settings.in_flight; ++place) {
      each.requests[place].id = settings.in_flight + place;  // 0 is no id
    }
    connect(each);
    epoll_event event{EPOLLIN | EPOLLET, {.u64 = at}};
    ::epoll_ctl(poll_, EPOLL_CTL_ADD, each.socket.get(zmq::sockopt::fd), &event);
  }
}

closed_loop_thread::~closed_loop_thread() {
  ::close(poll_);
}

void closed_loop_thread::connect(client& peer) {
  peer.socket = zmq::socket_t(context_, zmq::socket_type::dealer);
  peer.socket.set(zmq::sockopt::linger, 0);
  peer.socket.set(zmq::sockopt::rcvtimeo, patience_ms);
  peer.socket.connect(settings_.endpoint);
  if (settings_.hello) {
    greet(peer);
  }
}

// A daemon with several shards names the endpoint that this client should use.
void closed_loop_thread::greet(client& peer) {
  for (std::string endpoint = settings_.endpoint;;) {
    (void)peer.socket.send(zmq::buffer(hello_head()), zmq::send_flags::sndmore);
    (void)peer.socket.send(zmq::buffer(hello_body()), zmq::send_flags::none);
    zmq::message_t head;
    zmq::message_t body;
    if (!peer.socket.recv(head) || !head.more() || !peer.socket.recv(body)) {
      throw std::runtime_error("the daemon does not answer HELLO");
    }
    const auto welcome = wire::decode_welcome({static_cast<const std::byte*>(body.data()), body.size()});
    if (!welcome) {
      throw std::runtime_error("the daemon answers HELLO with something else: " + body.to_string());
    }
    const auto better = link::better_endpoint(*welcome, endpoint);
    if (!better) {
      return;
    }
    peer.socket.disconnect(endpoint);
    endpoint = *better;
    peer.socket.connect(endpoint);
  }
}

void closed_loop_thread::send(client& peer, std::size_t place) {
  request& next = peer.requests[place];
  next.id += settings_.in_flight;
  peer.message->set_id(next.id);
  next.sent = clock::now();
  peer.message->send(peer.socket);
  ++in_flight_;
}

std::size_t closed_loop_thread::receive(client& peer) {
  std::optional<reply> received;
  do {
    received = receive_reply(peer.socket);
    if (!received) {
      throw std::runtime_error("no reply came");
    }
  } while (is_unsolicited(*received));
  const wire::message_header& header = received->header;
  if (header.code != wire::status::ok || received->payload_bytes != peer.message->payload_bytes()) {
    throw std::runtime_error("the reply is not the RESULT that was asked for: " +
                             std::string(wire::name_of(header.code)));
  }
  const std::size_t place = header.request_id % settings_.in_flight;
  if (peer.requests[place].id != header.request_id) {
    throw std::runtime_error("a reply came twice");
  }
  --in_flight_;
  ++outcome_.replies;
  if (outcome_.latencies_us.size() < max_latencies) {
    const std::chrono::duration<double, std::micro> took = clock::now() - peer.requests[place].sent;
    outcome_.latencies_us.push_back(took.count());
  }
  return place;
}

// ZMQ_FD is edge-triggered and a send may consume an edge: read until there is nothing left.
void closed_loop_thread::serve(client& peer) {
  while ((peer.socket.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0) {
    const std::size_t place = receive(peer);
    if (clock::now() < until_) {
      send(peer, place);
    }
  }
}

void closed_loop_thread::wait() {
  epoll_event events[events_at_once];
  const int count = ::epoll_wait(poll_, events, events_at_once, patience_ms);
  if (count == 0) {
    throw std::runtime_error("no reply came");
  }
  for (int at = 0; at < count; ++at) {
    serve(clients_[events[at].data.u64]);
  }
}

closed_loop_thread::outcome closed_loop_thread::run(std::chrono::milliseconds span) {
  outcome_ = {};
  outcome_.latencies_us.reserve(max_latencies);
  until_ = clock::now() + span;
  for (client& each : clients_) {
    for (std::size_t place = 0; place < settings_.in_flight; ++place) {
      send(each, place);
    }
    serve(each);
  }
  while (in_flight_ > 0) {
    wait();
  }
  return std::move(outcome_);
}

void comparison::add(std::string name, const closed_loop_settings& settings) {
  contenders_.push_back({std::move(name), closed_loop(settings), {}});
}

void comparison::warm_up(std::chrono::milliseconds span) {
  for (contender& each : contenders_) {
    each.loop.run(span);
  }
}

void comparison::turn(std::chrono::milliseconds span) {
  for (contender& each : contenders_) {
    each.results.push_back(each.loop.run(span));
  }
}

nlohmann::ordered_json comparison::figures() const {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const contender& each : contenders_) {
    const std::vector<double> rates = values(each.name, &load_result::requests_per_second);
    const std::vector<double> latencies = values(each.name, &load_result::p50_us);
    all[each.name] = {{"requests_per_second", to_json(spread_of(rates))},
                      {"latency_p50_us", to_json(spread_of(latencies))},
                      {"latency_p99_us", to_json(spread_of(values(each.name, &load_result::p99_us)))},
                      {"of_limit", to_json(spread_of(throughput_ratios(each.name, contenders_.front().name)))},
                      {"turns", {{"requests_per_second", rates}, {"latency_p50_us", latencies}}}};
  }
  return all;
}

std::vector<double> comparison::throughput_ratios(const std::string& name, const std::string& reference) const {
  return ratios(values(name, &load_result::requests_per_second), values(reference, &load_result::requests_per_second));
}

std::vector<double> comparison::latency_ratios(const std::string& name, const std::string& reference) const {
  return ratios(values(name, &load_result::p50_us), values(reference, &load_result::p50_us));
}

std::vector<double> comparison::values(const std::string& name, double load_result::*member) const {
  const auto found =
      std::find_if(contenders_.begin(), contenders_.end(), [&](const contender& each) { return each.name == name; });
  if (found == contenders_.end()) {
    throw std::logic_error("no contender is called " + name);
  }
  std::vector<double> all;
  for (const load_result& result : found->results) {
    all.push_back(result.*member);
  }
  return all;
}

}  // namespace penstock::bench
