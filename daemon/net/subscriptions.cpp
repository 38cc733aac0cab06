#include "daemon/net/subscriptions.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/shm/segment.hpp"

namespace penstock {
namespace {

using wire::status;

// A queue takes at most this part of what is left for queues, and of the memory that is left at all: there is always
// room for another.
constexpr std::size_t share_of_queues = 4;
constexpr std::size_t share_of_memory_left = 8;
// The last part of the memory is for clients alone.
constexpr std::size_t share_of_clients = 8;
// What a message costs beside its bytes, at least: bounds the number of small ones that wait.
constexpr std::size_t bytes_of_small_message = 512;

// What is published of a pipeline: its requests, or their results.

std::size_t tensors_of(const plan& pipeline, bool requests) noexcept {
  return requests ? pipeline.inputs : pipeline.outputs.size();
}

const tensor_spec& spec_of(const plan& pipeline, bool requests, std::size_t tensor) noexcept {
  return requests ? pipeline.buffers[tensor].spec : pipeline.output_spec(tensor);
}

std::size_t largest_of(const plan& pipeline, bool requests) noexcept {
  std::size_t bytes = 0;
  for (std::size_t tensor = 0; tensor < tensors_of(pipeline, requests); ++tensor) {
    bytes += spec_of(pipeline, requests, tensor).bytes() * static_cast<std::size_t>(pipeline.max_frames);
  }
  return bytes;
}

bool has_output(const plan& pipeline, std::string_view name) noexcept {
  return std::any_of(pipeline.outputs.begin(), pipeline.outputs.end(),
                     [&](const plan_output& each) { return each.name == name; });
}

}  // namespace

// Goes back only to the latest "*": what an earlier one could take as well, the latest can.
bool matches(std::string_view pattern, std::string_view text) noexcept {
  std::size_t at = 0;
  std::size_t read = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_read = 0;
  while (read < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      star_read = read;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[read])) {
      ++at;
      ++read;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      read = ++star_read;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

subscriptions::subscription* subscriptions::find(const client_record& client, std::uint64_t id) const noexcept {
  const auto found = std::find_if(all_.begin(), all_.end(),
                                  [&](const auto& each) { return &each->client == &client && each->id == id; });
  return found == all_.end() ? nullptr : found->get();
}

const plan* subscriptions::served(std::string_view name) const noexcept {
  const auto& all = parts_.served.in_order;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const plan* each) { return each->declaration.name == name; });
  return found == all.end() ? nullptr : *found;
}

verdict subscriptions::check(const wire::subscribe& wanted) const {
  for (const std::string& name : wanted.pipelines) {
    if (served(name) == nullptr) {
      const auto& refused = parts_.served.refused;
      const auto found =
          std::find_if(refused.begin(), refused.end(), [&](const auto& each) { return each.name == name; });
      return {status::unknown_pipeline,
              found != refused.end() ? found->reason : "there is no pipeline '" + name + "' to subscribe to"};
    }
  }
  if (wanted.requests && !wanted.outputs.empty()) {
    return {status::malformed, "a subscription to requests has no outputs"};
  }
  for (const std::string& output : wanted.outputs) {
    if (std::none_of(wanted.pipelines.begin(), wanted.pipelines.end(),
                     [&](const std::string& name) { return has_output(*served(name), output); })) {
      return {status::malformed, "no pipeline of the subscription has an output '" + output + "'"};
    }
  }
  return {};
}

std::size_t subscriptions::queue_for(const wire::subscribe& wanted) const noexcept {
  std::size_t usual = usual_queue_bytes;
  for (const std::string& name : wanted.pipelines) {
    usual = std::max(usual, 2 * largest_of(*served(name), wanted.requests));
  }
  const std::size_t left = parts_.memory.left();
  const std::size_t asked = wanted.queue_bytes != 0 ? static_cast<std::size_t>(wanted.queue_bytes) : usual;
  return std::min({std::max(asked, least_queue_bytes), (most_bytes_ - granted_bytes_) / share_of_queues,
                   (left - std::min(left, parts_.memory.limit() / share_of_clients)) / share_of_memory_left});
}

verdict subscriptions::subscribe(client_record& client, std::uint64_t id, const wire::subscribe& wanted,
                                 wire::subscribed& granted) {
  if (subscription* const known = find(client, id)) {  // asked again: messages may have been lost
    known->unreachable = false;
    for (auto& [key, source] : known->publishers) {
      source.told = false;
    }
    granted = {.queue_bytes = known->grant.bytes(), .next_sequence = known->sequence};
    return {};
  }
  if (verdict wrong = check(wanted); !wrong.admitted()) {
    return wrong;
  }
  if (client.subscriptions >= most_of_a_client) {
    return {status::rejected, "a client may have " + std::to_string(most_of_a_client) + " subscriptions"};
  }
  if (all_.size() >= most_ && !client.within_process) {
    return {status::rejected, most_ == 0 ? "this daemon takes no subscriptions (clients.max_subscriptions)"
                                         : "there are as many subscriptions as there may be: " + std::to_string(most_) +
                                               " (clients.max_subscriptions)"};
  }
  memory_grant memory(parts_.memory);
  const std::size_t bytes = queue_for(wanted);
  if (bytes < least_queue_bytes || !memory.resize(bytes)) {
    return {status::rejected, "no memory is left for another subscription's queue (limits.memory)"};
  }
  all_.push_back(std::make_unique<subscription>(client, id, wanted, std::move(memory), memory_));
  ++client.subscriptions;
  to_requests_ += wanted.requests ? 1U : 0U;
  granted_bytes_ += bytes;
  granted = {.queue_bytes = bytes, .next_sequence = 0};
  return {};
}

void subscriptions::unsubscribe(const client_record& client, std::uint64_t id) noexcept {
  if (subscription* const ended = find(client, id)) {
    drop(*ended);
    std::erase_if(all_, [ended](const auto& each) { return each.get() == ended; });
  }
}

void subscriptions::forget(const client_record& client) noexcept {
  if (client.subscriptions == 0) {
    return;
  }
  std::erase_if(all_, [&](const auto& each) {
    if (&each->client != &client) {
      return false;
    }
    drop(*each);
    return true;
  });
}

void subscriptions::drop(subscription& ended) noexcept {
  --ended.client.subscriptions;
  to_requests_ -= ended.wanted.requests ? 1U : 0U;
  granted_bytes_ -= ended.grant.bytes();
  waiting_ -= ended.waiting.empty() ? 0U : 1U;
  for (const message& each : ended.waiting) {
    parts_.counters.results_lost += each.is_result ? 1U : 0U;
  }
}

subscriptions::publisher_key subscriptions::key_of(const request& done) noexcept {
  const std::uint32_t session = done.session != nullptr ? done.session->number : 0;
  return {.plan_place = done.pipeline->place,
          .session = session,
          .incarnation = session == 0 ? done.client->incarnation : 0};
}

subscriptions::known_publisher& subscriptions::publisher_of(subscription& each, const request& done) {
  const auto [place, is_new] = each.publishers.try_emplace(key_of(done));
  known_publisher& source = place->second;
  if (!is_new) {
    return source;
  }
  const wire::subscribe& wanted = each.wanted;
  const std::string_view name = done.session != nullptr ? std::string_view(done.session->name) : "";
  const bool of_pipeline = std::find(wanted.pipelines.begin(), wanted.pipelines.end(),
                                     done.pipeline->declaration.name) != wanted.pipelines.end();
  const bool of_session = wanted.sessions.empty() || std::any_of(wanted.sessions.begin(), wanted.sessions.end(),
                                                                 [&](const auto& one) { return matches(one, name); });
  if (of_pipeline && of_session) {
    for (std::size_t output = 0; output < tensors_of(*done.pipeline, wanted.requests); ++output) {
      if (wanted.outputs.empty() || std::find(wanted.outputs.begin(), wanted.outputs.end(),
                                              done.pipeline->outputs[output].name) != wanted.outputs.end()) {
        source.outputs.push_back(static_cast<std::uint16_t>(output));
      }
    }
  }
  source.wanted = !source.outputs.empty();
  return source;
}

void subscriptions::publish(const request& done, std::span<const published_output> outputs) {
  publish(done, outputs, false);
}

void subscriptions::publish_request(const request& accepted, std::span<const std::byte> body) {
  const client_arena* const arena = accepted.shared.arena;
  const bool readable = arena == nullptr || arena->memory() == arena_memory::host;
  inputs_.clear();
  for (std::size_t input = 0; readable && input < accepted.pipeline->inputs; ++input) {
    const std::size_t bytes = bytes_of_input(accepted, input);
    if (arena != nullptr) {
      inputs_.push_back({{accepted.shared.input + offset_of_input(accepted, input), bytes}, accepted.leading});
    } else {
      inputs_.push_back({body.first(bytes), accepted.leading});
      body = body.subspan(bytes);
    }
  }
  publish(accepted, inputs_, true);
}

void subscriptions::publish(const request& done, std::span<const published_output> outputs, bool requests) {
  const bool is_withheld = outputs.empty() || (!requests && done.account &&
                                               (account_of_result(done).flags & wire::sample_flag::withheld) != 0);
  bool counts = false;
  for (const auto& each : all_) {
    if (each->wanted.requests != requests) {
      continue;
    }
    known_publisher& source = publisher_of(*each, done);
    if (!source.wanted) {
      continue;
    }
    if (is_withheld) {
      counts = true;
      continue;
    }
    const std::uint64_t sequence = each->sequence++;
    offer(*each, source, done, sequence, outputs);
  }
  parts_.counters.results_withheld += counts ? 1U : 0U;
  copies_.clear();
}

void subscriptions::offer(subscription& each, known_publisher& source, const request& done, std::uint64_t sequence,
                          std::span<const published_output> outputs) {
  std::size_t bytes = 0;
  for (const std::uint16_t output : source.outputs) {
    bytes += outputs[output].bytes.size();
  }
  const std::size_t heads = wire::account_header_bytes_of(source.outputs.size()) +
                            source.outputs.size() * wire::tensor_header_bytes +
                            (source.told ? 0 : bytes_of_small_message);
  if (each.unreachable || each.queue.held() + heads + bytes > each.grant.bytes() ||
      each.waiting.size() >= each.grant.bytes() / bytes_of_small_message) {
    lose(each);
    return;
  }
  if (!source.told) {
    source.number = source.number != 0 ? source.number : ++each.publishers_told;
    wire::publisher body{.session = source.number,
                         .name = done.session != nullptr ? done.session->name : "",
                         .client = done.client->name,
                         .pipeline = done.pipeline->declaration.name,
                         .source = done.client->within_process};
    for (const std::uint16_t output : source.outputs) {
      body.outputs.push_back(each.wanted.requests ? done.pipeline->buffers[output].name
                                                  : done.pipeline->outputs[output].name);
    }
    compose_publisher(each, body);
    source.told = send(each);
    if (!source.told) {
      lose(each);
      return;
    }
  }
  compose_result(each, source, done, sequence, outputs, bytes);
  (void)send(each);
}

void subscriptions::compose_publisher(subscription& each, const wire::publisher& body) {
  wire::message_header header;
  header.type = wire::message_type::publisher;
  header.request_id = each.id;
  header.session = body.session;
  zmq::message_t head(wire::header_bytes);
  wire::encode(header, {static_cast<std::byte*>(head.data()), head.size()});
  const std::string text = wire::encode(body);
  composed_.is_result = false;
  composed_.parts.push_back(each.queue.hold(std::move(head)));
  composed_.parts.push_back(each.queue.hold(zmq::message_t(text.data(), text.size())));
}

void subscriptions::compose_result(subscription& each, const known_publisher& source, const request& done,
                                   std::uint64_t sequence, std::span<const published_output> outputs,
                                   std::size_t bytes) {
  const std::size_t tensors = source.outputs.size();
  wire::message_header header;
  header.type = wire::message_type::published;
  header.request_id = each.id;
  header.pipeline = done.pipeline->id;
  header.session = source.number;
  header.sequence = sequence;
  header.tensors = static_cast<std::uint16_t>(tensors);
  header.frames = done.frames;
  header.trace_id = done.trace_id;
  header.header_len =
      static_cast<std::uint16_t>(done.account ? wire::account_header_bytes_of(tensors) : wire::header_bytes);
  const bool inlined = each.client.inline_bytes > 0 && bytes <= each.client.inline_bytes;
  std::size_t tensor_at = header.header_len;
  std::size_t payload_at = tensor_at + tensors * wire::tensor_header_bytes;
  zmq::message_t head(payload_at + (inlined ? bytes : 0));
  const std::span<std::byte> out(static_cast<std::byte*>(head.data()), head.size());
  wire::encode(header, out);
  if (done.account) {
    wire::encode(each.wanted.requests ? *done.account : account_of_result(done), out.subspan(wire::header_bytes));
    std::size_t index_at = wire::account_header_bytes;
    for (const std::uint16_t output : source.outputs) {
      wire::encode_output_index(each.wanted.requests ? done.account->index : index_of_output(done, output),
                                out.subspan(index_at));
      index_at += sizeof(std::int64_t);
    }
  }
  for (const std::uint16_t output : source.outputs) {
    const tensor_spec& spec = spec_of(*done.pipeline, each.wanted.requests, output);
    wire::encode(wire_header(spec, done.frames, outputs[output].leading), out.subspan(tensor_at));
    tensor_at += wire::tensor_header_bytes;
    if (inlined && !outputs[output].bytes.empty()) {
      std::memcpy(&out[payload_at], outputs[output].bytes.data(), outputs[output].bytes.size());
      payload_at += outputs[output].bytes.size();
    }
  }
  composed_.is_result = true;
  composed_.parts.push_back(each.queue.hold(std::move(head)));
  if (inlined) {
    return;
  }
  for (const std::uint16_t output : source.outputs) {
    composed_.parts.push_back(each.queue.hold(shared_copy(output, outputs[output].bytes)));
  }
}

// A message that shares its bytes with those of the other subscribers.
zmq::message_t subscriptions::shared_copy(std::size_t output, std::span<const std::byte> bytes) {
  copies_.resize(std::max(copies_.size(), output + 1));
  zmq::message_t& original = copies_[output];
  if (original.size() != bytes.size()) {
    original.rebuild(bytes.data(), bytes.size());
  }
  zmq::message_t made;
  made.copy(original);
  return made;
}

bool subscriptions::send(subscription& each) {
  router_socket::sending outcome = router_socket::sending::full;
  if (each.waiting.empty()) {
    outcome = try_send(each, composed_);
  }
  if (outcome == router_socket::sending::full) {
    waiting_ += each.waiting.empty() ? 1U : 0U;
    each.waiting.push_back(std::exchange(composed_, message{}));
  }
  composed_.parts.clear();
  return outcome != router_socket::sending::unreachable;
}

// Not again to a connection that has ended: libzmq says so with an exception.
router_socket::sending subscriptions::try_send(subscription& each, message& next) {
  const router_socket::sending outcome =
      each.unreachable ? router_socket::sending::unreachable : parts_.socket.send(each.client.identity, next.parts);
  each.unreachable = outcome == router_socket::sending::unreachable;
  if (next.is_result && outcome == router_socket::sending::sent) {
    ++each.published;
    ++parts_.counters.results_published;
  } else if (next.is_result && each.unreachable) {
    lose(each);
  }
  return outcome;
}

void subscriptions::lose(subscription& each) noexcept {
  ++each.dropped;
  ++parts_.counters.results_lost;
}

bool subscriptions::flush() {
  if (waiting_ == 0) {
    return false;
  }
  bool progress = false;
  for (const auto& each : all_) {
    const bool waited = !each->waiting.empty();
    while (!each->waiting.empty() && try_send(*each, each->waiting.front()) != router_socket::sending::full) {
      each->waiting.pop_front();
      progress = true;
    }
    waiting_ -= waited && each->waiting.empty() ? 1U : 0U;
  }
  return progress;
}

bool subscriptions::alive(const publisher_key& key) const noexcept {
  if (key.session != 0) {
    return parts_.sessions.in_use(key.session);
  }
  const client_record* const client = parts_.clients.find_incarnation(key.incarnation);
  const auto& served = parts_.served.in_order;
  return client != nullptr && !client->gone &&
         std::any_of(served.begin(), served.end(), [&](const plan* each) { return each->place == key.plan_place; });
}

void subscriptions::sweep() {
  for (const auto& each : all_) {
    std::erase_if(each->publishers, [&](const auto& entry) {
      const auto& [key, source] = entry;
      if (alive(key)) {
        return false;
      }
      if (source.told && !each->unreachable) {
        compose_publisher(*each, {.session = source.number, .ended = true});
        (void)send(*each);
      }
      return true;
    });
  }
}

subscriptions::tally subscriptions::of(const client_record& client) const noexcept {
  tally made;
  for (const auto& each : all_) {
    if (&each->client == &client) {
      made.published += each->published;
      made.dropped += each->dropped;
    }
  }
  return made;
}

}  // namespace penstock
