#include "tests/client/session_rig.hpp"

#include <stdexcept>

namespace penstock::test {

using namespace std::chrono_literals;
using wire::message_type;

session_rig::session_rig() {
  daemon_.offer().pipelines[0].keeps_state = true;
}

std::future<session> session_rig::begin_to_open(const std::string& name) {
  return std::async(std::launch::async, [this, name] { return client_->open_session("double", name); });
}

session session_rig::open(std::uint32_t number, const std::string& name) {
  auto opening = begin_to_open(name);
  daemon_.opened(daemon_.expect(message_type::open_session), number);
  return opening.get();
}

std::future<result> session_rig::submit(session& to, std::uint32_t frames,
                                        std::optional<std::chrono::nanoseconds> timeout) {
  const auto bytes = counting_bytes(frames);
  client::request request;
  request.bytes = bytes;
  request.frames = frames;
  request.timeout = timeout;
  return to.submit(request);
}

received session_rig::expect_submit(std::uint64_t sequence) {
  received submit = daemon_.expect(message_type::submit);
  if (submit.header.sequence != sequence) {
    throw std::runtime_error("expected the frames from " + std::to_string(sequence) + ", not from " +
                             std::to_string(submit.header.sequence));
  }
  return submit;
}

void session_rig::settle() {
  auto pinged = std::async(std::launch::async, [this] { return client_->ping(20s); });
  const received ping = daemon_.expect(message_type::ping);
  wire::message_header header;
  header.type = message_type::pong;
  header.request_id = ping.header.request_id;
  daemon_.send(ping.from, {header_part(header)});
  pinged.get();
}

request_error session_rig::error_of(std::future<result>& from) {
  try {
    from.get();
  } catch (const request_error& error) {
    return error;
  }
  throw std::logic_error("there was a result");
}

request_error session_rig::refusal_of(session& to) {
  try {
    (void)submit(to);
  } catch (const request_error& error) {
    return error;
  }
  throw std::logic_error("it was taken");
}

}  // namespace penstock::test
