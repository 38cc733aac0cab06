#include "tests/client/client_fixtures.hpp"

#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

namespace penstock::test {

using namespace std::chrono_literals;
using wire::message_type;

std::future<result> client_fixture::submit_frames(std::uint32_t frames, std::uint8_t first,
                                                  std::optional<std::chrono::nanoseconds> timeout) {
  const auto bytes = counting_bytes(frames, first);
  client::request request;
  request.bytes = bytes;
  request.frames = frames;
  request.timeout = timeout;
  return client_->submit("double", request);
}

void client_fixture::settle() {
  auto pinged = std::async(std::launch::async, [this] { return client_->ping(20s); });
  daemon_.answer(daemon_.expect(message_type::ping), message_type::pong);
  pinged.get();
}

request_error client_fixture::error_of(std::future<result>& reply) {
  try {
    reply.get();
  } catch (const request_error& error) {
    return error;
  }
  throw std::logic_error("there was a result");
}

session_fixture::session_fixture() {
  daemon_.offer().pipelines[0].keeps_state = true;
}

std::future<session> session_fixture::begin_to_open(const std::string& name) {
  return std::async(std::launch::async, [this, name] { return client_->open_session("double", name); });
}

session session_fixture::open(std::uint32_t number, const std::string& name) {
  auto opening = begin_to_open(name);
  daemon_.opened(daemon_.expect(message_type::open_session), number);
  return opening.get();
}

std::future<result> session_fixture::submit(session& target, std::uint32_t frames,
                                            std::optional<std::chrono::nanoseconds> timeout) {
  const auto bytes = counting_bytes(frames);
  client::request request;
  request.bytes = bytes;
  request.frames = frames;
  request.timeout = timeout;
  return target.submit(request);
}

received session_fixture::expect_submit(std::uint64_t sequence) {
  received submit = daemon_.expect(message_type::submit);
  if (submit.header.sequence != sequence) {
    throw std::runtime_error("expected the frames from " + std::to_string(sequence) + ", not from " +
                             std::to_string(submit.header.sequence));
  }
  return submit;
}

request_error session_fixture::refusal_of(session& target) {
  try {
    (void)submit(target);
  } catch (const request_error& error) {
    return error;
  }
  throw std::logic_error("it was taken");
}

shared_memory_fixture::shared_memory_fixture() {
  daemon_.offer().shared_bytes = scripted_arena::usual_bytes;
  daemon_.offer().pipelines[0].max_frames = 4096;
}

client_options shared_memory_fixture::options(transport transport_kind) {
  client_options made = quick_options();
  made.transport = transport_kind;
  made.shared_from_bytes = 129;
  return made;
}

client_options shared_memory_fixture::impatient() {
  client_options made = options();
  made.retry_after = 20ms;
  made.retry_limit = 40ms;
  return made;
}

received shared_memory_fixture::next_of(message_type type) {
  received message = daemon_.next();
  while (message.header.type != type) {
    if (message.header.type == message_type::hello) {
      daemon_.welcome(message);
    }
    message = daemon_.next();
  }
  return message;
}

std::uint64_t shared_memory_fixture::refuse_attach(const std::string& reason) {
  const received attach = daemon_.expect(message_type::attach);
  daemon_.error(attach, wire::status::rejected, {reason, "", "", ""});
  return wire::decode_attach(std::as_bytes(std::span{attach.parts.at(1)})).value().bytes;
}

void shared_memory_fixture::connect_shared(client_options options_used) {
  options_used.url = daemon_.url();
  options_used.transport = transport::shared_memory;
  auto connecting = std::async(std::launch::async, [options_used] { return std::make_unique<client>(options_used); });
  daemon_.greet();
  daemon_.share(arena_);
  client_ = connecting.get();
}

std::future<result> shared_memory_fixture::submit(std::span<const std::byte> bytes) {
  client::request request;
  request.bytes = bytes;
  request.frames = static_cast<std::uint32_t>(bytes.size() / 4);
  return client_->submit("double", request);
}

void shared_memory_fixture::await_sharing(bool wanted) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while ((client_->shared_memory().bytes > 0) != wanted) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(wanted ? "the client gets no memory" : "the client keeps its memory");
    }
    std::this_thread::yield();
  }
}

void shared_memory_fixture::expect_right(const result& got, std::uint8_t first) {
  std::vector<std::int16_t> expected;
  for (const std::byte each : counting_bytes(got.frames(), first)) {
    expected.push_back(static_cast<std::int16_t>(2 * std::to_integer<int>(each)));
  }
  EXPECT_EQ(got.output("twice").to_vector<std::int16_t>(), expected);
  EXPECT_EQ(got.output("sum").to_vector<float>().size(), got.frames());
}

}  // namespace penstock::test
