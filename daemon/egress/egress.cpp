#include "daemon/egress/egress.hpp"

#include <algorithm>
#include <bit>

#include "daemon/pipeline/plan.hpp"
#include "daemon/request/session_table.hpp"
#include "daemon/request/wire_type.hpp"
#include "daemon/settings/client_memory.hpp"

namespace penstock {
namespace {

// ZeroMQ's I/O thread has sent the bytes, or dropped them with their connection.
void let_go(void* /*data*/, void* hint) {
  ring::drop(*static_cast<slot*>(hint));
}

wire::message_header reply_header(const request& of, wire::message_type type, wire::status code) noexcept {
  wire::message_header header;
  header.type = type;
  header.request_id = of.id;
  header.code = code;
  header.trace_id = of.trace_id;
  header.session = of.session != nullptr ? of.session->number : 0;
  header.sequence = of.sequence;
  return header;
}

}  // namespace

egress::egress(router_socket& to, const ring& slots, message_store& received, const client_settings& limits,
               account& counters, memory_budget& memory)
    : to_(to), ring_(slots), received_(received), limits_(limits), counters_(counters), memory_(memory) {}

void egress::result(const request& of, slot& from) {
  const bool shared = of.shared.arena != nullptr;
  const std::size_t outputs = of.pipeline->outputs.size();
  wire::message_header header =
      reply_header(of, shared ? wire::message_type::result_shared : wire::message_type::result, wire::status::ok);
  header.pipeline = of.pipeline->id;
  header.frames = of.frames;
  header.tensors = static_cast<std::uint16_t>(outputs);
  const std::size_t total = measure(of);
  if (!shared && total >= reply_memory::least_bytes && !has_room(*of.client, total)) {
    if (from.work.rewrites) {
      received_.drop(of.index);
    }
    count_dropped(&box_of(*of.client));
    return;
  }
  // One part is cheaper than two on both sides. Who has said nothing of it gets no result so, not even one of no bytes.
  const std::size_t most_behind = shared || from.work.rewrites ? 0 : of.client->inline_bytes;
  const bool inlined = most_behind > 0 && total <= most_behind;
  parts_.clear();
  zmq::message_t& head = parts_.emplace_back(wire::part_bytes(outputs) + (inlined ? total : 0));
  auto* const bytes = static_cast<std::byte*>(head.data());
  wire::encode(header, {bytes, wire::header_bytes});
  std::byte* payload = bytes + wire::part_bytes(outputs);
  for (std::size_t output = 0; output < outputs; ++output) {
    const result_extent& extent = extents_[output];
    wire::encode(wire_header(of.pipeline->output_spec(output), of.frames, extent.leading),
                 {bytes + wire::part_bytes(output), wire::tensor_header_bytes});
    if (inlined) {
      payload = std::copy_n(output_of(of, from, output), extent.bytes, payload);
    } else if (!shared) {
      append_output(of, from, output, extent.bytes);
    }
  }
  counters_.payload_bytes_out += total;
  keep(of);
  deliver(of.client->identity, of.client);
}

std::size_t egress::measure(const request& of) {
  extents_.clear();
  std::size_t total = 0;
  for (std::size_t output = 0; output < of.pipeline->outputs.size(); ++output) {
    extents_.push_back(extent_of(of.pipeline->output_buffer(output), of.steps_before, of.leading, of.frames));
    total += extents_.back().bytes;
  }
  return total;
}

std::byte* egress::output_of(const request& of, const slot& from, std::size_t output) {
  return from.pinned_output.get() + of.pipeline->outputs[output].pinned_offset +
         static_cast<std::size_t>(of.first_frame) * of.pipeline->output_buffer(output).pitch(from.work.leading);
}

void egress::append_output(const request& of, slot& from, std::size_t output, std::size_t bytes) {
  if (from.work.rewrites) {
    zmq::message_t written = received_.take(of.index);
    const bool counted = written.size() >= reply_memory::least_bytes;
    parts_.push_back(counted ? box_of(*of.client).memory.hold(std::move(written)) : std::move(written));
    return;
  }
  std::byte* const data = output_of(of, from, output);
  // A client that reads slowly keeps a lent slot; when slots are scarce its reply is copied instead. So is one that the
  // cache keeps, which would hold the slot for long.
  const bool kept = of.session != nullptr && box_of(*of.client).of_sessions.takes(bytes);
  if (bytes >= lend_bytes && !kept && ring_.free() > ring_.size() / 4) {
    from.references.fetch_add(1, std::memory_order_relaxed);
    parts_.emplace_back(data, bytes, let_go, &from);
  } else {
    parts_.push_back(part({data, bytes}, &box_of(*of.client)));
  }
}

zmq::message_t egress::part(std::span<const std::byte> bytes, outbox* of) {
  zmq::message_t made(bytes.data(), bytes.size());
  return of != nullptr && bytes.size() >= reply_memory::least_bytes ? of->memory.hold(std::move(made))
                                                                    : std::move(made);
}

// Nothing is made for a client that is gone, so it needs no room.
bool egress::has_room(const client_record& client, std::size_t bytes) {
  return client.gone || box_of(client).memory.has_room(bytes);
}

void egress::count_dropped(outbox* of) noexcept {
  ++counters_.replies_dropped;
  if (of != nullptr) {
    ++of->dropped;
  }
}

void egress::error(const request& of, wire::status code, const wire::error_body& why) {
  if (compose(reply_header(of, wire::message_type::error, code), wire::encode(why), of.client)) {
    keep(of);
    deliver(of.client->identity, of.client);
  }
}

// For the case that its client asks again. What is lent is never kept among the recent: its slot would not come back.
void egress::keep(const request& of) {
  if (of.session != nullptr) {
    box_of(*of.client).of_sessions.keep(of.id, parts_);
  } else if (bytes_of(parts_) <= std::min(most_recent_reply_bytes, limits_.reply_cache_bytes)) {
    recent_.keep(of.client->index, of.id, parts_);
  }
}

// From now on the kept ERROR would say what is not so any more.
void egress::released(const request& of) {
  box_of(*of.client).of_sessions.remove(of.id);
  recent_.remove(of.client->index, of.id);
  if (compose(reply_header(of, wire::message_type::released, wire::status::ok), "", of.client)) {
    deliver(of.client->identity, of.client);
  }
}

void egress::refuse(std::string_view identity, const client_record* to, const wire::message_header& about,
                    wire::status code, const wire::error_body& why) {
  wire::message_header header;
  header.type = wire::message_type::error;
  header.request_id = about.request_id;
  header.code = code;
  header.trace_id = about.trace_id;
  header.session = about.session;
  header.sequence = about.sequence;
  if (compose(header, wire::encode(why), to)) {
    deliver(identity, to);
  }
}

bool egress::control(std::string_view identity, const client_record* to, const wire::message_header& header,
                     std::string_view body) {
  return compose(header, body, to) && deliver(identity, to);
}

bool egress::compose(const wire::message_header& header, std::string_view body, const client_record* to) {
  parts_.clear();
  outbox* const box = to != nullptr ? &box_of(*to) : nullptr;
  if (box != nullptr && body.size() >= reply_memory::least_bytes && !has_room(*to, body.size())) {
    count_dropped(box);
    return false;
  }
  zmq::message_t& head = parts_.emplace_back(wire::header_bytes);
  wire::encode(header, {static_cast<std::byte*>(head.data()), wire::header_bytes});
  if (!body.empty()) {
    parts_.push_back(part(std::as_bytes(std::span(body)), box));
  }
  return true;
}

egress::outbox& egress::box_of(const client_record& client) {
  if (client.index >= boxes_.size()) {
    boxes_.resize(client.index + 1);
  }
  std::unique_ptr<outbox>& box = boxes_[client.index];
  if (box == nullptr) {
    const std::size_t places = std::bit_ceil(std::size_t{limits_.credit_requests});
    box = std::make_unique<outbox>(client, memory_, session_replies(places, limits_.reply_cache_bytes));
  }
  return *box;
}

void egress::find_kept(const client_record& of, std::uint64_t request_id) {
  recent_.find(of.index, request_id, parts_);
  if (parts_.empty()) {
    box_of(of).of_sessions.find(request_id, parts_);
  }
}

bool egress::kept(const client_record& of, std::uint64_t request_id) {
  find_kept(of, request_id);
  const bool found = !parts_.empty();
  parts_.clear();
  return found;
}

bool egress::repeat(const client_record& to, std::uint64_t request_id) {
  find_kept(to, request_id);
  if (parts_.empty()) {
    return false;
  }
  deliver(to.identity, &to);
  return true;
}

// Sends parts_, or queues it behind what its client has not taken yet, or drops it and returns false.
bool egress::deliver(std::string_view identity, const client_record* to) {
  outbox* const box = to != nullptr ? &box_of(*to) : nullptr;
  attempt outcome = attempt::full;
  if (box == nullptr || box->waiting.empty()) {
    outcome = to != nullptr && to->gone ? attempt::unreachable : try_send(identity, parts_);
  }
  if (outcome == attempt::sent) {
    return true;
  }
  const std::size_t bytes = bytes_of(parts_);
  const bool fits = box != nullptr && box->waiting_bytes + bytes <= limits_.reply_queue_bytes;
  if (outcome == attempt::unreachable || !fits) {
    if (outcome == attempt::unreachable) {
      ++counters_.replies_undeliverable;
    } else {
      count_dropped(box);
    }
    parts_.clear();  // now, not with the next reply: a lent slot goes back with its parts
    return false;
  }
  if (box->waiting.empty()) {
    waiting_.push_back(to->index);
  }
  box->waiting_bytes += bytes;
  box->waiting.push_back(std::move(parts_));
  parts_ = reply_parts{};
  return true;
}

egress::attempt egress::try_send(std::string_view identity, reply_parts& parts) {
  try {
    // Only the routing id can be refused; ROUTER then takes the other parts whole.
    if (!to_.get().send(zmq::const_buffer(identity.data(), identity.size()),
                        zmq::send_flags::dontwait | zmq::send_flags::sndmore)) {
      return attempt::full;
    }
    for (std::size_t index = 0; index < parts.size(); ++index) {
      const auto more = index + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
      (void)to_.get().send(parts[index], zmq::send_flags::dontwait | more);
    }
  } catch (const zmq::error_t& error) {
    if (error.num() == EHOSTUNREACH) {
      return attempt::unreachable;
    }
    throw;
  }
  ++counters_.replies_sent;
  return attempt::sent;
}

// What waits finds out by itself.
bool egress::reaches(const client_record& client) {
  if (client.index < boxes_.size() && boxes_[client.index] != nullptr && !boxes_[client.index]->waiting.empty()) {
    return true;
  }
  wire::message_header header;
  header.type = wire::message_type::pong;
  (void)compose(header, "", nullptr);
  const attempt outcome = try_send(client.identity, parts_);
  parts_.clear();
  counters_.replies_sent -= outcome == attempt::sent ? 1U : 0U;  // it is none
  return outcome != attempt::unreachable;
}

bool egress::flush() {
  bool progress = false;
  for (std::size_t at = 0; at < waiting_.size();) {
    outbox& box = *boxes_[waiting_[at]];
    attempt outcome = attempt::sent;
    while (!box.waiting.empty() && outcome != attempt::full) {
      const std::size_t bytes = bytes_of(box.waiting.front());
      outcome = try_send(box.client.identity, box.waiting.front());
      if (outcome == attempt::full) {
        break;
      }
      counters_.replies_undeliverable += outcome == attempt::unreachable ? 1 : 0;
      box.waiting_bytes -= bytes;
      box.waiting.pop_front();
      progress = true;
    }
    if (box.waiting.empty()) {
      waiting_[at] = waiting_.back();
      waiting_.pop_back();
    } else {
      ++at;
    }
  }
  return progress;
}

void egress::forget(const client_record& client) noexcept {
  recent_.forget(client.index);
  if (client.index >= boxes_.size() || boxes_[client.index] == nullptr) {
    return;
  }
  counters_.replies_undeliverable += boxes_[client.index]->waiting.size();
  boxes_[client.index] = nullptr;
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), client.index), waiting_.end());
}

}  // namespace penstock
