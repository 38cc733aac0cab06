#include <utility>

#include "client/cpp/exchange.hpp"
#include "client/cpp/outgoing.hpp"
#include "client/cpp/reply_reader.hpp"

namespace penstock::link {

bool exchange::receive(int most) {
  int taken = 0;
  for (; taken < most && socket_.receive(parts_); ++taken) {
    if (taken == 0) {
      last_heard_ = std::chrono::steady_clock::now();
    }
    handle(parts_);
  }
  return taken == most;
}

void exchange::handle(std::vector<zmq::message_t>& parts) {
  wire::message_header header;
  const wire::decode_error wrong = wire::decode(bytes_of(parts.front()), header);
  if (wrong == wire::decode_error::unsupported_version && header.request_id == hello_id) {
    listener_.refused(request_error{static_cast<std::uint16_t>(wire::status::unsupported_version),
                                    {"the daemon speaks another major version of the protocol", {}, {}, {}}});
  }
  if (wrong != wire::decode_error::none) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  switch (header.type) {
    case wire::message_type::result:
      return handle_result(header, parts);
    case wire::message_type::error:
      return handle_error(header, parts);
    case wire::message_type::welcome:
      return handle_welcome(parts);
    case wire::message_type::pong:
    case wire::message_type::status_report:
      return handle_answer(header, parts);
    default:
      atomic_counters::count(counters_.malformed_replies);
  }
}

void exchange::handle_welcome(const std::vector<zmq::message_t>& parts) {
  auto body = parts.size() == 2 ? wire::decode_welcome(bytes_of(parts[1])) : std::nullopt;
  if (!body) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  catalogue_ = std::make_shared<const catalogue>(*body);
  credits_.grant(body->credit_requests, body->credit_bytes);
  const bool anew = greeting_.welcomed(body->instance);
  listener_.welcomed(catalogue_);
  if (!anew) {
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  for (const std::uint64_t id : requests_.ids()) {
    pending_request* const each = requests_.find(id);
    if (each != nullptr && renew(*each)) {
      each->patience = options_.retry_after;
      tend_request(*each, now);
    }
  }
  for (auto& [id, each] : probes_) {
    ask(each);
  }
}

void exchange::handle_result(const wire::message_header& header, std::vector<zmq::message_t>& parts) {
  pending_request* const found = requests_.find(header.request_id);
  if (found == nullptr) {
    atomic_counters::count(counters_.unmatched_replies);
    return;
  }
  auto good = header.frames == found->frames ? read_result(header, std::move(parts), found->pipeline) : std::nullopt;
  if (!good) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  finish(header.request_id, std::move(*good));
}

void exchange::handle_error(const wire::message_header& header, const std::vector<zmq::message_t>& parts) {
  auto error = read_error(header, parts);
  if (!error) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  if (header.code == wire::status::hello_required) {
    greeting_.required(std::chrono::steady_clock::now());
    return;
  }
  if (header.request_id == hello_id) {
    listener_.refused(*error);
    return;
  }
  if (const auto asked = probes_.find(header.request_id); asked != probes_.end()) {
    asked->second.reply.set_exception(std::make_exception_ptr(std::move(*error)));
    probes_.erase(asked);
    return;
  }
  if (requests_.find(header.request_id) == nullptr) {
    atomic_counters::count(counters_.unmatched_replies);
    return;
  }
  finish(header.request_id, std::move(*error));
}

void exchange::handle_answer(const wire::message_header& header, const std::vector<zmq::message_t>& parts) {
  const auto asked = probes_.find(header.request_id);
  if (asked == probes_.end()) {
    atomic_counters::count(counters_.unmatched_replies);
    return;
  }
  const bool is_status = asked->second.question == wire::message_type::get_status;
  if (is_status != (header.type == wire::message_type::status_report) || parts.size() != (is_status ? 2U : 1U)) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  probe::answer answer{std::chrono::steady_clock::now() - asked->second.asked, {}};
  if (is_status) {
    answer.body.assign(static_cast<const char*>(parts[1].data()), parts[1].size());
  }
  asked->second.reply.set_value(std::move(answer));
  probes_.erase(asked);
}

}  // namespace penstock::link
