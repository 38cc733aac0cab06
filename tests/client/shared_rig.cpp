#include "tests/client/shared_rig.hpp"

#include <stdexcept>
#include <thread>
#include <vector>

namespace penstock::test {

using namespace std::chrono_literals;
using wire::message_type;

shared_rig::shared_rig() {
  daemon_.offer().shared_bytes = scripted_arena::usual_bytes;
  daemon_.offer().pipelines[0].max_frames = 4096;
}

client_options shared_rig::options(transport how) {
  client_options made = quick_options();
  made.transport = how;
  made.shared_from_bytes = 129;
  return made;
}

client_options shared_rig::impatient() {
  client_options made = options();
  made.retry_after = 20ms;
  made.retry_limit = 40ms;
  return made;
}

received shared_rig::next_of(message_type type) {
  received message = daemon_.next();
  while (message.header.type != type) {
    if (message.header.type == message_type::hello) {
      daemon_.welcome(message);
    }
    message = daemon_.next();
  }
  return message;
}

std::uint64_t shared_rig::refuse_attach(const std::string& why) {
  const received attach = daemon_.expect(message_type::attach);
  daemon_.error(attach, wire::status::rejected, {why, "", "", ""});
  return wire::decode_attach(std::as_bytes(std::span{attach.parts.at(1)})).value().bytes;
}

void shared_rig::connect_shared(client_options how) {
  how.url = daemon_.url();
  how.transport = transport::shared_memory;
  auto connecting = std::async(std::launch::async, [how] { return std::make_unique<client>(how); });
  daemon_.greet();
  daemon_.share(arena_);
  client_ = connecting.get();
}

std::future<result> shared_rig::submit(std::uint32_t frames, std::uint8_t first,
                                       std::optional<std::chrono::nanoseconds> timeout) {
  const auto bytes = counting_bytes(frames, first);
  client::request request;
  request.bytes = bytes;
  request.frames = frames;
  request.timeout = timeout;
  return client_->submit("double", request);
}

std::future<result> shared_rig::submit(std::span<const std::byte> bytes) {
  client::request request;
  request.bytes = bytes;
  request.frames = static_cast<std::uint32_t>(bytes.size() / 4);
  return client_->submit("double", request);
}

void shared_rig::settle() {
  auto pinged = std::async(std::launch::async, [this] { return client_->ping(20s); });
  daemon_.answer(daemon_.expect(message_type::ping), message_type::pong);
  pinged.get();
}

void shared_rig::await_sharing(bool wanted) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while ((client_->shared_memory().bytes > 0) != wanted) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(wanted ? "the client gets no memory" : "the client keeps its memory");
    }
    std::this_thread::yield();
  }
}

void shared_rig::expect_right(const result& got, std::uint8_t first) {
  std::vector<std::int16_t> expected;
  for (const std::byte each : counting_bytes(got.frames(), first)) {
    expected.push_back(static_cast<std::int16_t>(2 * std::to_integer<int>(each)));
  }
  EXPECT_EQ(got.output("twice").to_vector<std::int16_t>(), expected);
  EXPECT_EQ(got.output("sum").to_vector<float>().size(), got.frames());
}

request_error shared_rig::error_of(std::future<result>& from) {
  try {
    from.get();
  } catch (const request_error& error) {
    return error;
  }
  throw std::logic_error("there was a result");
}

}  // namespace penstock::test
