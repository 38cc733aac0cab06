#include "daemon/net/reply_sender.hpp"

#include <algorithm>
#include <bit>

#include "daemon/config/client_memory.hpp"
#include "daemon/net/subscriptions.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/sessions.hpp"
#include "daemon/request/wire_tensor.hpp"
#include "daemon/shm/segment.hpp"

namespace penstock {
namespace {

// Called by ZeroMQ's I/O thread when the bytes are sent, or dropped with their connection.
void drop_reference(void* /*data*/, void* hint) {
  slot_ring::drop(*static_cast<slot*>(hint));
}

wire::message_header reply_header(const request& request, wire::message_type type, wire::status code) noexcept {
  wire::message_header header;
  header.type = type;
  header.request_id = request.id;
  header.code = code;
  header.trace_id = request.trace_id;
  header.session = request.session != nullptr ? request.session->number : 0;
  header.sequence = request.sequence;
  return header;
}

}  // namespace

reply_sender::reply_sender(router_socket& socket, const slot_ring& slots, payload_store& payloads,
                           const client_settings& limits, account& counters, memory_budget& memory)
    : socket_(socket), ring_(slots), payloads_(payloads), limits_(limits), counters_(counters), memory_(memory) {}

void reply_sender::result(const request& done, slot& slot) {
  const bool published = subscriptions_ != nullptr && subscriptions_->wants_results();
  // Where the reply gives the outputs' memory away, nobody can read them after it.
  const bool leaves = done.payload == payload_mode::shared || done.payload == payload_mode::rewritten;
  if (published && leaves) {
    publish(done, slot);
  }
  answer(done, slot);
  if (published && !leaves) {
    publish(done, slot);
  }
}

void reply_sender::publish(const request& done, const slot& slot) {
  (void)measure(done);
  published_.clear();
  const bool shared = done.payload == payload_mode::shared;
  const bool readable = !shared || done.shared.arena->memory() == arena_memory::host;
  std::size_t offset = 0;  // of a shared output
  for (std::size_t output = 0; readable && output < extents_.size(); ++output) {
    const result_extent& extent = extents_[output];
    const std::byte* const data = shared                                    ? done.shared.output + offset
                                  : done.payload == payload_mode::rewritten ? payloads_.bytes(done.index).data()
                                                                            : output_of(done, slot, output);
    published_.push_back({{data, extent.bytes}, extent.leading});
    offset += wire::room_for(extent.bytes);
  }
  subscriptions_->publish(done, published_);
}

void reply_sender::answer(const request& done, slot& slot) {
  const bool shared = done.payload == payload_mode::shared;
  const bool rewritten = done.payload == payload_mode::rewritten;
  const std::size_t outputs = done.pipeline->outputs.size();
  wire::message_header header =
      reply_header(done, shared ? wire::message_type::result_shared : wire::message_type::result, wire::status::ok);
  header.pipeline = done.pipeline->id;
  header.frames = done.frames;
  header.tensors = static_cast<std::uint16_t>(outputs);
  header.header_len = static_cast<std::uint16_t>(result_header_bytes(done));
  const std::size_t total = measure(done);
  if (!shared && total >= reply_memory::least_bytes && !has_room(*done.client, total)) {
    if (rewritten) {
      payloads_.drop(done.index);
    }
    count_dropped(&box_of(*done.client));
    return;
  }
  // One part is cheaper than two on both sides. A client that did not ask for it never gets it, not even without bytes.
  const std::size_t most_behind = shared || rewritten ? 0 : done.client->inline_bytes;
  const bool inlined = most_behind > 0 && total <= most_behind;
  parts_.clear();
  const std::size_t head_bytes = header.header_len + outputs * wire::tensor_header_bytes;
  zmq::message_t& head = parts_.emplace_back(head_bytes + (inlined ? total : 0));
  auto* const bytes = static_cast<std::byte*>(head.data());
  wire::encode(header, {bytes, wire::header_bytes});
  if (done.account) {
    encode_account(done, {bytes + wire::header_bytes, header.header_len - wire::header_bytes});
  }
  std::byte* payload = bytes + head_bytes;
  for (std::size_t output = 0; output < outputs; ++output) {
    const result_extent& extent = extents_[output];
    wire::encode(wire_header(done.pipeline->output_spec(output), done.frames, extent.leading),
                 {bytes + header.header_len + output * wire::tensor_header_bytes, wire::tensor_header_bytes});
    if (inlined) {
      payload = std::copy_n(output_of(done, slot, output), extent.bytes, payload);
    } else if (!shared) {
      append_output(done, slot, output, extent.bytes);
    }
  }
  counters_.payload_bytes_out += total;
  keep(done);
  deliver(done.client->identity, done.client);
}

std::size_t reply_sender::measure(const request& request) {
  extents_.clear();
  std::size_t total = 0;
  for (std::size_t output = 0; output < request.pipeline->outputs.size(); ++output) {
    extents_.push_back(
        extent_of(request.pipeline->output_buffer(output), request.steps_before, request.leading, request.frames));
    total += extents_.back().bytes;
  }
  return total;
}

std::byte* reply_sender::output_of(const request& request, const slot& slot, std::size_t output) {
  return slot.pinned_output.get() + request.pipeline->outputs[output].pinned_offset +
         static_cast<std::size_t>(request.first_frame) *
             request.pipeline->output_buffer(output).pitch(slot.work.leading);
}

void reply_sender::append_output(const request& request, slot& slot, std::size_t output, std::size_t bytes) {
  if (request.payload == payload_mode::rewritten) {
    zmq::message_t written = payloads_.take(request.index);
    const bool counted = written.size() >= reply_memory::least_bytes;
    parts_.push_back(counted ? box_of(*request.client).memory.hold(std::move(written)) : std::move(written));
    return;
  }
  std::byte* const data = output_of(request, slot, output);
  // A slow reader keeps a lent slot, so a reply is copied if slots are scarce. So is one that the cache keeps, which
  // would hold the slot for long.
  const bool kept = request.session != nullptr && box_of(*request.client).of_sessions.takes(bytes);
  if (bytes >= lend_bytes && !kept && ring_.free() > ring_.size() / 4) {
    slot.references.fetch_add(1, std::memory_order_relaxed);
    parts_.emplace_back(data, bytes, drop_reference, &slot);
  } else {
    parts_.push_back(part({data, bytes}, &box_of(*request.client)));
  }
}

zmq::message_t reply_sender::part(std::span<const std::byte> bytes, outbox* box) {
  zmq::message_t made(bytes.data(), bytes.size());
  return box != nullptr && bytes.size() >= reply_memory::least_bytes ? box->memory.hold(std::move(made))
                                                                     : std::move(made);
}

// A client that is gone gets no replies, so it needs no room.
bool reply_sender::has_room(const client_record& client, std::size_t bytes) {
  return client.gone || box_of(client).memory.has_room(bytes);
}

void reply_sender::count_dropped(outbox* box) noexcept {
  ++counters_.replies_dropped;
  if (box != nullptr) {
    ++box->dropped;
  }
}

void reply_sender::error(const request& ended, wire::status code, const wire::error_body& why) {
  if (compose(reply_header(ended, wire::message_type::error, code), wire::encode(why), ended.client)) {
    keep(ended);
    deliver(ended.client->identity, ended.client);
  }
}

// Keeps the reply in case the client repeats its request. Lent outputs are too large for the recent replies, so they
// never hold a slot.
void reply_sender::keep(const request& request) {
  if (request.session != nullptr) {
    box_of(*request.client).of_sessions.keep(request.id, parts_);
  } else if (bytes_of(parts_) <= std::min(most_recent_reply_bytes, limits_.reply_cache_bytes)) {
    recent_.keep(request.client->index, request.id, parts_);
  }
}

// The kept ERROR says that the memory is in use, which is no longer true.
void reply_sender::released(const request& ended) {
  box_of(*ended.client).of_sessions.remove(ended.id);
  recent_.remove(ended.client->index, ended.id);
  if (compose(reply_header(ended, wire::message_type::released, wire::status::ok), "", ended.client)) {
    deliver(ended.client->identity, ended.client);
  }
}

void reply_sender::refuse(std::string_view identity, const client_record* client, const wire::message_header& about,
                          wire::status code, const wire::error_body& why) {
  wire::message_header header;
  header.type = wire::message_type::error;
  header.request_id = about.request_id;
  header.code = code;
  header.trace_id = about.trace_id;
  header.session = about.session;
  header.sequence = about.sequence;
  if (compose(header, wire::encode(why), client)) {
    deliver(identity, client);
  }
}

bool reply_sender::control(std::string_view identity, const client_record* client, const wire::message_header& header,
                           std::string_view body) {
  return compose(header, body, client) && deliver(identity, client);
}

bool reply_sender::compose(const wire::message_header& header, std::string_view body, const client_record* client) {
  parts_.clear();
  outbox* const box = client != nullptr ? &box_of(*client) : nullptr;
  if (box != nullptr && body.size() >= reply_memory::least_bytes && !has_room(*client, body.size())) {
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

reply_sender::outbox& reply_sender::box_of(const client_record& client) {
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

void reply_sender::find_kept(const client_record& client, std::uint64_t request_id) {
  recent_.find(client.index, request_id, parts_);
  if (parts_.empty()) {
    box_of(client).of_sessions.find(request_id, parts_);
  }
}

bool reply_sender::kept(const client_record& client, std::uint64_t request_id) {
  find_kept(client, request_id);
  const bool found = !parts_.empty();
  parts_.clear();
  return found;
}

bool reply_sender::repeat(const client_record& client, std::uint64_t request_id) {
  find_kept(client, request_id);
  if (parts_.empty()) {
    return false;
  }
  deliver(client.identity, &client);
  return true;
}

// Sends `parts_`, or queues it behind earlier replies to that client, or drops it and returns false.
bool reply_sender::deliver(std::string_view identity, const client_record* client) {
  outbox* const box = client != nullptr ? &box_of(*client) : nullptr;
  attempt outcome = attempt::full;
  if (box == nullptr || box->waiting.empty()) {
    outcome = client != nullptr && client->gone ? attempt::unreachable : try_send(identity, parts_);
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
    parts_.clear();  // now, not with the next reply: a lent slot returns with its parts
    return false;
  }
  if (box->waiting.empty()) {
    waiting_.push_back(client->index);
  }
  box->waiting_bytes += bytes;
  box->waiting.push_back(std::move(parts_));
  parts_ = reply_parts{};
  return true;
}

reply_sender::attempt reply_sender::try_send(std::string_view identity, reply_parts& parts) {
  const attempt outcome = socket_.send(identity, parts);
  counters_.replies_sent += outcome == attempt::sent ? 1U : 0U;
  return outcome;
}

// If replies wait, sending them finds out.
bool reply_sender::reaches(const client_record& client) {
  if (client.index < boxes_.size() && boxes_[client.index] != nullptr && !boxes_[client.index]->waiting.empty()) {
    return true;
  }
  wire::message_header header;
  header.type = wire::message_type::pong;
  (void)compose(header, "", nullptr);
  const attempt outcome = try_send(client.identity, parts_);
  parts_.clear();
  counters_.replies_sent -= outcome == attempt::sent ? 1U : 0U;  // it is not a reply
  return outcome != attempt::unreachable;
}

bool reply_sender::flush() {
  bool progress = false;
  for (std::size_t index = 0; index < waiting_.size();) {
    outbox& box = *boxes_[waiting_[index]];
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
      waiting_[index] = waiting_.back();
      waiting_.pop_back();
    } else {
      ++index;
    }
  }
  return progress;
}

void reply_sender::forget(const client_record& client) noexcept {
  if (subscriptions_ != nullptr) {
    subscriptions_->forget(client);
  }
  recent_.forget(client.index);
  if (client.index >= boxes_.size() || boxes_[client.index] == nullptr) {
    return;
  }
  counters_.replies_undeliverable += boxes_[client.index]->waiting.size();
  boxes_[client.index] = nullptr;
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), client.index), waiting_.end());
}

}  // namespace penstock
