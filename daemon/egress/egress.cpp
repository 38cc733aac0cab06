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
               account& counters)
    : to_(to), ring_(slots), received_(received), limits_(limits), counters_(counters) {}

void egress::result(const request& of, slot& from) {
  const bool shared = of.shared.arena != nullptr;
  const std::size_t outputs = of.pipeline->outputs.size();
  wire::message_header header =
      reply_header(of, shared ? wire::message_type::result_shared : wire::message_type::result, wire::status::ok);
  header.pipeline = of.pipeline->id;
  header.frames = of.frames;
  header.tensors = static_cast<std::uint16_t>(outputs);
  const std::size_t total = measure(of);
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
    parts_.push_back(received_.take(of.index));
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
    parts_.emplace_back(data, bytes);
  }
}

void egress::error(const request& of, wire::status code, const wire::error_body& why) {
  compose(reply_header(of, wire::message_type::error, code), wire::encode(why));
  keep(of);
  deliver(of.client->identity, of.client);
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
  compose(reply_header(of, wire::message_type::released, wire::status::ok), "");
  deliver(of.client->identity, of.client);
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
  compose(header, wire::encode(why));
  deliver(identity, to);
}

bool egress::control(std::string_view identity, const client_record* to, const wire::message_header& header,
                     std::string_view body) {
  compose(header, body);
  return deliver(identity, to);
}

void egress::compose(const wire::message_header& header, std::string_view body) {
  parts_.clear();
  zmq::message_t& head = parts_.emplace_back(wire::header_bytes);
  wire::encode(header, {static_cast<std::byte*>(head.data()), wire::header_bytes});
  if (!body.empty()) {
    parts_.emplace_back(body.data(), body.size());
  }
}

egress::outbox& egress::box_of(const client_record& client) {
  if (client.index >= boxes_.size()) {
    boxes_.resize(client.index + 1);
  }
  std::unique_ptr<outbox>& box = boxes_[client.index];
  if (box == nullptr) {
    const std::size_t places = std::bit_ceil(std::size_t{limits_.credit_requests});
    box = std::make_unique<outbox>(outbox{.client = client, .of_sessions = {places, limits_.reply_cache_bytes}});
  }
  return *box;
}

bool egress::repeat(const client_record& to, std::uint64_t request_id) {
  recent_.find(to.index, request_id, parts_);
  if (parts_.empty()) {
    box_of(to).of_sessions.find(request_id, parts_);
  }
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
    ++(outcome == attempt::unreachable ? counters_.replies_undeliverable : counters_.replies_dropped);
    if (outcome != attempt::unreachable && box != nullptr) {
      ++box->dropped;
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
