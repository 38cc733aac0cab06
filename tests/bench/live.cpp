#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <zmq.hpp>

#include "base/descriptors.hpp"
#include "daemon/live/network/udp_reader.hpp"
#include "daemon/live/network/zmq_reader.hpp"
#include "daemon/live/wire/gnuradio_tags.hpp"
#include "tests/bench/benchmarks.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

constexpr std::size_t payload_bytes = 1456;  // with a header of 8, IP and UDP a frame of 1492
constexpr std::size_t burst = 2000;          // datagrams that wait in the socket's buffer
constexpr int buffer_bytes = 16 << 20;
constexpr std::size_t block_bytes = 8192 * 8;    // of a source: 8192 complex samples
constexpr std::size_t message_bytes = 8192 * 8;  // of a flowgraph

/// A source's block: takes samples as they come, and counts them.
class block_receiver final : public live::sample_receiver {
 public:
  explicit block_receiver(bool has_room) : has_room_(has_room), block_(block_bytes) {}

  std::optional<live::stream_number> stream(std::string_view) override { return 0; }
  void samples(live::stream_number, const live::sample_run& run) override {
    bytes += run.bytes.size();
    std::span<const std::byte> rest = run.bytes;
    while (!rest.empty()) {
      const std::span<const std::byte> now = rest.first(std::min(rest.size(), block_bytes - filled_));
      if (now.data() != block_.data() + filled_) {
        std::memcpy(block_.data() + filled_, now.data(), now.size());
      }
      filled_ = (filled_ + now.size()) % block_bytes;
      rest = rest.subspan(now.size());
    }
  }
  std::span<std::byte> room(live::stream_number) override {
    return has_room_ ? std::span(block_).subspan(filled_) : std::span<std::byte>();
  }
  void loss(live::stream_number, live::loss_kind, std::uint64_t samples) override { lost += samples; }
  void epoch(live::stream_number, std::string_view) override {}
  void duplicate(live::stream_number /*stream*/, std::uint64_t /*samples*/) override {}
  void suspect(live::stream_number) override {}
  void malformed(std::string_view why) override { throw std::runtime_error(std::string(why)); }
  void connected(bool, std::string_view) override {}

  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;

 private:
  bool has_room_;
  std::vector<std::byte> block_;
  std::size_t filled_ = 0;
};

/// The loop that a datagram reader can't be faster than.
class bare_loop {
 public:
  bare_loop() : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)), memory_(batch * 2048) {
    (void)::setsockopt(socket_.number(), SOL_SOCKET, SO_RCVBUFFORCE, &buffer_bytes, sizeof buffer_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        ::getsockname(socket_.number(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      throw std::runtime_error("no UDP socket");
    }
    port = ntohs(address.sin_port);
    for (std::size_t at = 0; at < batch; ++at) {
      parts_[at] = {&memory_[at * 2048], 2048};
      messages_[at].msg_hdr.msg_iov = &parts_[at];
      messages_[at].msg_hdr.msg_iovlen = 1;
    }
  }
  std::size_t drain() {
    std::size_t sum = 0;
    for (;;) {
      const int count = ::recvmmsg(socket_.number(), messages_.data(), batch, MSG_DONTWAIT, nullptr);
      if (count <= 0) {
        return sum;
      }
      for (int at = 0; at < count; ++at) {
        sum += messages_[static_cast<std::size_t>(at)].msg_len - 8;
      }
    }
  }

  std::uint16_t port = 0;

 private:
  static constexpr std::size_t batch = 64;
  file_descriptor socket_;
  std::vector<std::byte> memory_;
  std::array<iovec, batch> parts_{};
  std::array<mmsghdr, batch> messages_{};
};

class datagram_sender {
 public:
  explicit datagram_sender(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(port);
    (void)::connect(socket_.number(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  void send_burst() {
    for (std::size_t at = 0; at < burst; ++at, ++number_) {
      std::memcpy(packet_.data(), &number_, sizeof number_);
      (void)::send(socket_.number(), packet_.data(), packet_.size(), 0);
    }
  }

 private:
  file_descriptor socket_;
  std::uint64_t number_ = 0;
  std::array<std::byte, 8 + payload_bytes> packet_{};
};

/// Of this thread's processor time: it never waits, and other load on the machine does not count.
template <class Work>
double seconds_of(Work work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double begin = now();
  work();
  return now() - begin;
}

/// One reader of datagrams, its sender and its receiver.
struct datagram_contender {
  explicit datagram_contender(bool has_room) : receiver(has_room) {}

  double drain_seconds() {
    const std::uint64_t before = receiver.bytes;
    sender.send_burst();
    const double seconds = seconds_of([&] {
      const clock::time_point now = clock::now();
      while (reader.read(receiver, now, now + std::chrono::hours{1}) == live::read_progress::some) {
      }
    });
    if (receiver.bytes - before != burst * payload_bytes) {
      throw std::runtime_error("datagrams were lost: the kernel grants too small a buffer");
    }
    return seconds;
  }

  live::udp_reader reader{{.listen = "127.0.0.1:0",
                           .framing = live::udp_framing::sequence,
                           .sample_bytes = 8,
                           .socket_buffer = buffer_bytes}};
  datagram_sender sender{
      static_cast<std::uint16_t>(std::stoi(reader.address().substr(reader.address().rfind(':') + 1)))};
  block_receiver receiver;
};

/// Publishes messages of a flowgraph as fast as somebody takes them.
class publisher {
 public:
  publisher() {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::sndhwm, 100);
    socket_.set(zmq::sockopt::xpub_nodrop, true);
    socket_.bind("tcp://127.0.0.1:*");
    endpoint = socket_.get(zmq::sockopt::last_endpoint);
    thread_ = std::thread([this] { run(); });
  }
  publisher(const publisher&) = delete;
  publisher& operator=(const publisher&) = delete;
  ~publisher() {
    stopped_ = true;
    thread_.join();
  }

  std::string endpoint;

 private:
  void run() {
    std::uint64_t offset = 0;
    std::vector<std::byte> message;
    while (!stopped_) {
      const live::gnuradio_header_writer header(message, offset);
      message.resize(message.size() + message_bytes);
      if (socket_.send(zmq::buffer(message), zmq::send_flags::dontwait)) {
        offset += message_bytes / 8;
      } else {
        std::this_thread::yield();
      }
    }
  }

  zmq::context_t context_;
  zmq::socket_t socket_{context_, zmq::socket_type::xpub};
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

double messages_per_second_of_loop(const std::string& endpoint, std::chrono::milliseconds span) {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::sub);
  socket.set(zmq::sockopt::subscribe, "");
  socket.connect(endpoint);
  std::vector<std::byte> block(message_bytes + 64);
  zmq::message_t message;
  (void)socket.recv(message);
  std::size_t count = 0;
  const clock::time_point begin = clock::now();
  for (; clock::now() - begin < span; ++count) {
    (void)socket.recv(message);
    std::memcpy(block.data(), message.data(), std::min(block.size(), message.size()));
  }
  return static_cast<double>(count) / std::chrono::duration<double>(clock::now() - begin).count();
}

double messages_per_second_of_reader(const std::string& endpoint, std::chrono::milliseconds span) {
  live::zmq_reader reader({.connect = {endpoint}, .framing = live::zmq_framing::gnuradio_tags, .sample_bytes = 8});
  block_receiver receiver(false);
  std::vector<pollfd> wanted;
  const auto read = [&](clock::time_point until) {
    if (reader.read(receiver, clock::now(), until) == live::read_progress::none) {
      wanted.clear();
      reader.descriptors(wanted);
      ::poll(wanted.data(), wanted.size(), 1);
    }
  };
  while (receiver.bytes == 0) {
    read(clock::now());
  }
  const std::uint64_t before = receiver.bytes;
  const clock::time_point begin = clock::now();
  while (clock::now() - begin < span) {
    read(begin + span);
  }
  return static_cast<double>(receiver.bytes - before) / message_bytes /
         std::chrono::duration<double>(clock::now() - begin).count();
}

}  // namespace

// How near live sources' readers of the network come to the system calls below them. UDP: bursts that wait in the
// socket's buffer are taken out of it (in processor time), by a bare loop of recvmmsg, by the reader into a block's
// memory, and by the reader where it has to copy. SUB: messages of 64 KiB with GNU Radio's header, by a loop that
// receives and copies, and by the reader.
ordered_json run_live(const bench_options& options) {
  bare_loop bare;
  datagram_sender bare_sender(bare.port);
  datagram_contender placing(true);
  datagram_contender copying(false);
  const publisher flowgraph;
  const int bursts = options.quick ? 5 : 100;
  std::vector<double> datagrams[3];
  std::vector<double> messages[2];
  std::vector<double> ratios[3];
  interleave(options, "live", [&](int /*repeat*/) {
    double seconds[3] = {};
    for (int each = 0; each < bursts; ++each) {
      bare_sender.send_burst();
      std::size_t bytes = 0;
      seconds[0] += seconds_of([&] { bytes = bare.drain(); });
      if (bytes != burst * payload_bytes) {
        throw std::runtime_error("datagrams were lost: the kernel grants too small a buffer");
      }
      seconds[1] += placing.drain_seconds();
      seconds[2] += copying.drain_seconds();
    }
    for (std::size_t contender = 0; contender < 3; ++contender) {
      datagrams[contender].push_back(static_cast<double>(burst) * bursts / seconds[contender]);
    }
    ratios[0].push_back(seconds[0] / seconds[1]);
    ratios[1].push_back(seconds[0] / seconds[2]);
    messages[0].push_back(messages_per_second_of_loop(flowgraph.endpoint, options.turn()));
    messages[1].push_back(messages_per_second_of_reader(flowgraph.endpoint, options.turn()));
    ratios[2].push_back(messages[1].back() / messages[0].back());
  });
  ordered_json result = new_result("live", options, no_device());
  const auto row = [&](const char* wire, const char* contender, const std::vector<double>& rate,
                       const std::vector<double>* ratio) {
    ordered_json made = {{"wire", wire}, {"contender", contender}, {"per_second", to_json(spread_of(rate))}};
    if (ratio != nullptr) {
      made["of_the_bare_loop"] = to_json(spread_of(*ratio));
    }
    result["rows"].push_back(std::move(made));
  };
  row("udp, 1464 B", "recvmmsg", datagrams[0], nullptr);
  row("udp, 1464 B", "reader, in place", datagrams[1], &ratios[0]);
  row("udp, 1464 B", "reader, copies", datagrams[2], &ratios[1]);
  row("sub, 64 KiB", "recv and copy", messages[0], nullptr);
  row("sub, 64 KiB", "reader", messages[1], &ratios[2]);
  return result;
}

}  // namespace penstock::bench
