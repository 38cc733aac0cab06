#include "tests/client/scripted_daemon.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/// Suppressions for ThreadSanitizer: libstdc++ counts references to exceptions that a future passes between threads
/// with atomics that it does not see.
extern "C" __attribute__((visibility("default"), used)) const char* __tsan_default_suppressions();

const char* __tsan_default_suppressions() {
  return "race:std::__exception_ptr::exception_ptr::_M_release\n"
         "race:std::runtime_error::~runtime_error\n";
}

namespace penstock::test {
namespace {

constexpr int patience_ms = 20'000;

void require(bool holds, const char* text) {
  if (!holds) {
    throw std::system_error(errno, std::generic_category(), text);
  }
}

void await_readable(int descriptor, const char* text) {
  pollfd item{descriptor, POLLIN, 0};
  if (::poll(&item, 1, patience_ms) != 1) {
    throw std::runtime_error(text);
  }
}

/// Of this process and this moment: tests run beside one another.
std::string unused_name() {
  static std::atomic<int> count{0};
  return "penstock-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

template <class Integer>
void append(std::string& peer, Integer value) {
  for (std::size_t at = 0; at < sizeof value; ++at) {
    peer.push_back(static_cast<char>(value >> (8U * at)));
  }
}

}  // namespace

file_descriptor make_memory(std::size_t bytes, bool sealed) {
  file_descriptor made{::memfd_create("penstock-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  require(static_cast<bool>(made), "memfd_create");
  require(::ftruncate(made.number(), static_cast<off_t>(bytes)) == 0, "ftruncate");
  require(!sealed || ::fcntl(made.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0, "F_ADD_SEALS");
  return made;
}

scripted_arena::scripted_arena(std::uint32_t number, std::size_t bytes)
    : number_(number),
      name_(unused_name()),
      ticket_(32, static_cast<char>('0' + number % 10)),
      listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      descriptor_(make_memory(bytes)) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.number(), 0);
  require(at != MAP_FAILED, "mmap");
  memory_ = {static_cast<std::byte*>(at), bytes};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name_.begin(), name_.end(), std::begin(address.sun_path) + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
  require(::bind(listener_.number(), reinterpret_cast<const sockaddr*>(&address), length) == 0, "bind");
  require(::listen(listener_.number(), 1) == 0, "listen");
}

scripted_arena::~scripted_arena() {
  ::munmap(memory_.data(), memory_.size());
}

void scripted_arena::let_in() {
  await_readable(listener_.number(), "nobody came to fetch the arena");
  lease_ = file_descriptor{::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC)};
  require(static_cast<bool>(lease_), "accept");
  std::string shown(ticket_.size(), '\0');
  await_readable(lease_.number(), "the client showed no ticket");
  require(::recv(lease_.number(), shown.data(), shown.size(), MSG_WAITALL) >= 0, "recv");
  if (shown != ticket_) {
    throw std::runtime_error("the client showed the ticket " + shown);
  }
}

std::string scripted_arena::right_answer() const {
  std::string bytes = "PNSM";
  append(bytes, number_);
  append(bytes, std::uint64_t{memory_.size()});
  return bytes;
}

void scripted_arena::hand_over() {
  answer(right_answer(), descriptor_.number());
}

void scripted_arena::answer(const std::string& bytes, int descriptor) {
  let_in();
  std::string copy = bytes;
  iovec buffer{copy.data(), copy.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof descriptor)> control{};
  msghdr message{};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const first = CMSG_FIRSTHDR(&message);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(first), &descriptor, sizeof descriptor);
  }
  require(::sendmsg(lease_.number(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()), "sendmsg");
}

void scripted_arena::add(const std::string& bytes) {
  require(::send(lease_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()),
          "send");
}

void scripted_arena::turn_away() {
  let_in();
  end_lease();
}

void scripted_arena::end_lease() {
  lease_ = file_descriptor{};
}

void scripted_arena::await_end_of_lease() {
  await_readable(lease_.number(), "the client keeps the lease");
  char more = 0;
  if (::recv(lease_.number(), &more, sizeof more, 0) > 0) {
    throw std::runtime_error("the client sent something else over the lease");
  }
}

namespace {

using wire::message_type;

constexpr std::chrono::seconds patience{20};

std::span<std::byte> writable(std::string& text) {
  return std::as_writable_bytes(std::span{text});
}
std::span<const std::byte> readable(const std::string& text) {
  return std::as_bytes(std::span{text});
}

template <class Element>
std::string bytes_of(const std::vector<Element>& elements) {
  std::string bytes(elements.size() * sizeof(Element), '\0');
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

/// What every reply repeats.
wire::message_header reply_to(const received& message, message_type type) {
  wire::message_header header;
  header.type = type;
  header.request_id = message.header.request_id;
  header.session = message.header.session;
  header.sequence = message.header.sequence;
  return header;
}

wire::tensor_header tensor(wire::data_type type, std::int64_t frames, std::int64_t extent) {
  wire::tensor_header made;
  made.type = type;
  made.dimensions = 2;
  made.shape[0] = frames;
  made.shape[1] = extent;
  made.bytes = static_cast<std::uint64_t>(frames * extent) * type.item_bytes();
  return made;
}

/// The head of a result of two tensors, with that account behind its header: the first stands at its index, the second
/// 100 before.
std::string with_account(std::string head, const wire::sample_account& account) {
  std::string told(wire::account_header_bytes_of(2) - wire::header_bytes, '\0');
  const auto bytes = std::as_writable_bytes(std::span(told));
  wire::encode(account, bytes);
  wire::encode_output_index(account.index, bytes.subspan(wire::sample_account_bytes));
  wire::encode_output_index(account.index - 100, bytes.subspan(wire::sample_account_bytes + sizeof(std::int64_t)));
  head.insert(wire::header_bytes, told);
  head[6] = static_cast<char>(wire::header_bytes + told.size());  // header_len
  return head;
}

/// What "double" makes of the input, as the parts of a RESULT. It repeats the request's account.
std::vector<std::string> result_parts(const received& request, message_type type, const std::string& input) {
  std::vector<std::int16_t> twice;
  std::vector<float> sums;
  const std::size_t length = input.size() / std::max(1U, request.header.frames);
  for (const char each : input) {
    const int value = static_cast<unsigned char>(each);
    if (twice.size() % length == 0) {
      sums.push_back(0);
    }
    twice.push_back(static_cast<std::int16_t>(2 * value));
    sums.back() += static_cast<float>(value);
  }
  wire::message_header header = reply_to(request, type);
  header.frames = request.header.frames;
  const auto frames = static_cast<std::int64_t>(header.frames);
  std::string head = header_part(header, {tensor(wire::int16_type, frames, static_cast<std::int64_t>(length)),
                                          tensor(wire::float32_type, frames, 1)});
  if (wire::sample_account account; wire::decode_account(readable(request.parts.at(0)), request.header, account)) {
    head = with_account(head, account);
  }
  return {head, bytes_of(twice), bytes_of(sums)};
}

}  // namespace

scripted_daemon::scripted_daemon() {
  offer_.server = "scripted 1";
  offer_.instance = "first";
  offer_.credit_requests = 64;
  offer_.credit_bytes = 1 << 20;
  offer_.max_request_bytes = 1 << 16;
  offer_.resume = std::string(wire::resume_token_letters, '1');
  wire::pipeline_description pipeline;
  pipeline.id = 3;
  pipeline.name = "double";
  pipeline.max_frames = 8;
  pipeline.input = {"input", "u8", "u8", {4}, false, ""};
  pipeline.outputs = {{"twice", "i16", "i16", {4}, false, "affine"}, {"sum", "f32", "f32", {1}, false, "moments"}};
  offer_.pipelines = {pipeline};
  url_ = "tcp://127.0.0.1:*";
  start();
}

void scripted_daemon::start() {
  router_ = zmq::socket_t{context_, zmq::socket_type::router};
  router_.set(zmq::sockopt::linger, 0);
  router_.bind(url_);
  url_ = router_.get(zmq::sockopt::last_endpoint);
}

void scripted_daemon::stop() {
  router_.close();
}

void scripted_daemon::restart() {
  offer_.instance += "+";
  break_connections();
}

void scripted_daemon::break_connections() {
  stop();
  // The port is free once the old listener's thread has closed it.
  for (const auto deadline = std::chrono::steady_clock::now() + patience;;) {
    try {
      start();
      return;
    } catch (const zmq::error_t& error) {
      if (error.num() != EADDRINUSE || std::chrono::steady_clock::now() > deadline) {
        throw;
      }
    }
  }
}

received scripted_daemon::next() {
  zmq::pollitem_t item{router_.handle(), 0, ZMQ_POLLIN, 0};
  if (zmq::poll(&item, 1, std::chrono::duration_cast<std::chrono::milliseconds>(patience)) == 0) {
    throw std::runtime_error("the client sent nothing");
  }
  std::vector<std::string> all;
  bool more = true;
  while (more) {
    zmq::message_t part;
    if (!router_.recv(part)) {
      throw std::runtime_error("the message was interrupted");
    }
    all.push_back(part.to_string());
    more = part.more();
  }
  received message{all.front(), {}, {all.begin() + 1, all.end()}};
  if (wire::decode(readable(message.parts.at(0)), message.header) != wire::decode_error::none) {
    throw std::runtime_error("the client's header can't be read");
  }
  return message;
}

received scripted_daemon::expect(wire::message_type type) {
  received message = next();
  if (message.header.type != type) {
    throw std::runtime_error("expected a message of type " + std::to_string(static_cast<int>(type)) + ", not " +
                             std::to_string(static_cast<int>(message.header.type)));
  }
  return message;
}

received scripted_daemon::await(wire::message_type type) {
  received message = next();
  while (message.header.type != type) {
    message = next();
  }
  return message;
}

received scripted_daemon::greet() {
  received hello = await(wire::message_type::hello);
  welcome(hello);
  return hello;
}

void scripted_daemon::welcome(const received& hello) {
  wire::message_header header;
  header.type = wire::message_type::welcome;
  header.request_id = hello.header.request_id;
  send(hello.peer, {header_part(header), wire::encode(offer_)});
}

void scripted_daemon::answer_pings(int count) {
  for (int each = 0; each < count; ++each) {
    const received ping = await(wire::message_type::ping);
    wire::message_header header;
    header.type = wire::message_type::pong;
    header.request_id = ping.header.request_id;
    send(ping.peer, {header_part(header)});
  }
}

std::string token_of(const received& hello) {
  return wire::decode_hello(readable(hello.parts.at(1))).value().resume;
}

std::vector<std::string> result_parts(const received& request) {
  return result_parts(request, message_type::result, payload_of(request));
}

std::vector<std::string> in_one_part(const std::vector<std::string>& parts) {
  return {std::accumulate(parts.begin(), parts.end(), std::string())};
}

std::string payload_of(const received& submit) {
  if (submit.parts.size() == 2) {
    return submit.parts[1];
  }
  const auto behind = wire::inline_payloads(readable(submit.parts.at(0)), submit.header);
  return {reinterpret_cast<const char*>(behind.data()), behind.size()};
}

wire::shared_place place_of(const received& submit) {
  wire::shared_place place;
  if (submit.parts.size() != 2 || !wire::decode(readable(submit.parts[1]), place)) {
    throw std::runtime_error("the client names no place");
  }
  return place;
}

void scripted_daemon::share(scripted_arena& arena) {
  attached(await(message_type::attach), arena.attached());
  arena.hand_over();
}

void scripted_daemon::attached(const received& request, const wire::attached& attached) {
  send(request.peer, {header_part(reply_to(request, message_type::attached)), wire::encode(attached)});
}

std::vector<std::string> scripted_daemon::shared_result_parts(const received& request, const scripted_arena& arena) {
  const wire::shared_place place = place_of(request);
  const std::size_t bytes = std::size_t{4} * request.header.frames;
  const std::string input(reinterpret_cast<const char*>(arena.memory().subspan(place.input, bytes).data()), bytes);
  std::vector<std::string> parts = result_parts(request, message_type::result_shared, input);
  std::size_t at = place.output;
  for (std::size_t part = 1; part < parts.size(); ++part) {
    std::memcpy(arena.memory().subspan(at, parts[part].size()).data(), parts[part].data(), parts[part].size());
    at += wire::room_for(parts[part].size());
  }
  parts.resize(1);
  return parts;
}

void scripted_daemon::shared_result(const received& request, const scripted_arena& arena) {
  send(request.peer, shared_result_parts(request, arena));
}

void scripted_daemon::answer(const received& request, message_type type) {
  send(request.peer, {header_part(reply_to(request, type))});
}

void scripted_daemon::result(const received& request) {
  send(request.peer, result_parts(request));
}

void scripted_daemon::error(const received& request, wire::status code, const wire::error_body& body) {
  wire::message_header header = reply_to(request, message_type::error);
  header.code = code;
  send(request.peer, {header_part(header), wire::encode(body)});
}

void scripted_daemon::gap(const received& request, std::uint64_t expected) {
  wire::message_header header = reply_to(request, message_type::error);
  header.code = wire::status::sequence_gap;
  header.sequence = expected;
  send(request.peer, {header_part(header), wire::encode(wire::error_body{"a gap", "", "", ""})});
}

void scripted_daemon::opened(const received& request, std::uint32_t session, std::uint64_t next_sequence) {
  wire::message_header header = reply_to(request, message_type::session_opened);
  header.session = session;
  send(request.peer, {header_part(header), wire::encode(wire::session_opened{session, next_sequence})});
}

void scripted_daemon::send(const std::string& peer, const std::vector<std::string>& parts) {
  router_.send(zmq::buffer(peer), zmq::send_flags::sndmore);
  for (std::size_t at = 0; at < parts.size(); ++at) {
    router_.send(zmq::buffer(parts[at]), at + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

std::unique_ptr<client> scripted_daemon::connect(client_options options) {
  options.url = url_;
  auto connecting = std::async(std::launch::async, [options] { return std::make_unique<client>(options); });
  greet();
  auto connected = connecting.get();
  // It says HELLO again when it is not answered at once: what the test waits for comes behind that.
  for (std::uint64_t said = connected->counters().hellos; said > 1; --said) {
    (void)expect(message_type::hello);
  }
  return connected;
}

std::string header_part(const wire::message_header& header) {
  return header_part(header, {});
}

std::string header_part(wire::message_header header, const std::vector<wire::tensor_header>& tensors) {
  header.tensors = static_cast<std::uint16_t>(tensors.size());
  std::string part(wire::part_bytes(tensors.size()), '\0');
  wire::encode(header, writable(part));
  for (std::size_t at = 0; at < tensors.size(); ++at) {
    wire::encode(tensors[at], writable(part).subspan(wire::part_bytes(at)));
  }
  return part;
}

client_options quick_options() {
  client_options options;
  options.connect_timeout = patience;
  options.retry_after = std::chrono::seconds{30};
  options.retry_limit = std::chrono::seconds{60};
  options.request_timeout = std::chrono::seconds{60};
  options.reconnect_after = std::chrono::milliseconds{5};
  return options;
}

std::vector<std::byte> counting_bytes(std::size_t frames, std::uint8_t first) {
  std::vector<std::byte> bytes(4 * frames);
  for (std::byte& each : bytes) {
    each = static_cast<std::byte>(first++);
  }
  return bytes;
}

}  // namespace penstock::test
