#include "tests/bench/closed_loop_thread.hpp"

#include <stdexcept>

#include <sys/epoll.h>
#include <unistd.h>

#include "client/cpp/shard_choice.hpp"
#include "proto/control.hpp"
#include "proto/message.hpp"
#include "tests/bench/reply.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t kept_latencies = 100'000;
constexpr int patience_ms = 20'000;
constexpr std::size_t events_at_once = 64;

}  // namespace

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

void closed_loop_thread::connect(client& which) {
  which.socket = zmq::socket_t(context_, zmq::socket_type::dealer);
  which.socket.set(zmq::sockopt::linger, 0);
  which.socket.set(zmq::sockopt::rcvtimeo, patience_ms);
  which.socket.connect(settings_.endpoint);
  if (settings_.hello) {
    greet(which);
  }
}

// A daemon of several shards says to which one this client should go.
void closed_loop_thread::greet(client& which) {
  for (std::string at = settings_.endpoint;;) {
    (void)which.socket.send(zmq::buffer(hello_head()), zmq::send_flags::sndmore);
    (void)which.socket.send(zmq::buffer(hello_body()), zmq::send_flags::none);
    zmq::message_t head;
    zmq::message_t body;
    if (!which.socket.recv(head) || !head.more() || !which.socket.recv(body)) {
      throw std::runtime_error("the daemon does not answer HELLO");
    }
    const auto welcome = wire::decode_welcome({static_cast<const std::byte*>(body.data()), body.size()});
    if (!welcome) {
      throw std::runtime_error("the daemon answers HELLO with something else: " + body.to_string());
    }
    const auto better = link::better_endpoint(*welcome, at);
    if (!better) {
      return;
    }
    which.socket.disconnect(at);
    at = *better;
    which.socket.connect(at);
  }
}

void closed_loop_thread::send(client& which, std::size_t place) {
  request& made = which.requests[place];
  made.id += settings_.in_flight;
  which.message->set_id(made.id);
  made.sent = clock::now();
  which.message->send(which.socket);
  ++in_flight_;
}

std::size_t closed_loop_thread::receive(client& which) {
  std::optional<reply> came;
  do {
    came = receive_reply(which.socket);
    if (!came) {
      throw std::runtime_error("no reply came");
    }
  } while (is_unasked(*came));
  const wire::message_header& header = came->header;
  if (header.code != wire::status::ok || came->payload_bytes != which.message->payload_bytes()) {
    throw std::runtime_error("the reply is not the RESULT that was asked for: " +
                             std::string(wire::name_of(header.code)));
  }
  const std::size_t place = header.request_id % settings_.in_flight;
  if (which.requests[place].id != header.request_id) {
    throw std::runtime_error("a reply came twice");
  }
  --in_flight_;
  ++outcome_.replies;
  if (outcome_.latencies_us.size() < kept_latencies) {
    const std::chrono::duration<double, std::micro> took = clock::now() - which.requests[place].sent;
    outcome_.latencies_us.push_back(took.count());
  }
  return place;
}

// ZMQ_FD tells of edges alone, and a send may take one in: what has come is looked for until there is nothing.
void closed_loop_thread::serve(client& which) {
  while ((which.socket.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0) {
    const std::size_t place = receive(which);
    if (clock::now() < until_) {
      send(which, place);
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
  outcome_.latencies_us.reserve(kept_latencies);
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

}  // namespace penstock::bench
