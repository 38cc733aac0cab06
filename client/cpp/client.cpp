#include "client/cpp/client.hpp"

#include <algorithm>
#include <future>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include <penstock/client.hpp>
#include <penstock/session.hpp>
#include <penstock/subscription.hpp>
#include <unistd.h>

#include "client/cpp/errors.hpp"
#include "client/cpp/feed.hpp"
#include "proto/control.hpp"

namespace penstock {
namespace {

using link::local_error;
using link::time_point;

constexpr std::size_t max_session_name_bytes = 64;
constexpr std::chrono::nanoseconds longest_time = std::chrono::hours{24 * 365};

/// `now + delay`; `never` for zero and on overflow.
time_point moment(time_point now, std::chrono::nanoseconds delay) {
  return delay.count() <= 0 || delay > link::never - now ? link::never : now + delay;
}

/// 16 hex digits. A session needs a name so that a repeated OPEN finds it.
std::string random_name() {
  constexpr std::string_view digits = "0123456789abcdef";
  std::random_device entropy;
  std::uniform_int_distribution<std::size_t> any{0, digits.size() - 1};
  std::string name(16, '0');
  for (char& each : name) {
    each = digits[any(entropy)];
  }
  return name;
}

void check_name(std::string_view name) {
  const auto is_control = [](char letter) { return static_cast<unsigned char>(letter) < 0x20U || letter == '\x7F'; };
  if (name.size() > max_session_name_bytes || std::any_of(name.begin(), name.end(), is_control)) {
    throw local_error(wire::status::malformed, "a session's name has at most 64 bytes, and no control characters");
  }
}

/// Validates the options and limits times so that adding them can't overflow. Throws connect_error.
client_options checked(client_options options) {
  const auto positive = [](std::chrono::nanoseconds& time, const char* name) {
    if (time.count() <= 0) {
      throw connect_error(std::string(name) + " is a time above 0");
    }
    time = std::min<std::chrono::nanoseconds>(time, longest_time);
  };
  positive(options.retry_after, "retry_after");
  positive(options.retry_limit, "retry_limit");
  if (options.expiry_grace.count() < 0 || options.request_timeout.count() < 0 ||
      options.connect_timeout.value_or(std::chrono::nanoseconds{0}).count() < 0 || options.linger.count() < 0 ||
      options.reconnect_after.count() < 0) {
    throw connect_error("a client's times are not negative");
  }
  options.expiry_grace = std::min<std::chrono::nanoseconds>(options.expiry_grace, longest_time);
  options.linger = std::min<std::chrono::milliseconds>(options.linger, std::chrono::hours{24});
  options.reconnect_after = std::min<std::chrono::milliseconds>(options.reconnect_after, std::chrono::hours{1});
  return options;
}

}  // namespace

completion keep_promise_of(std::future<result>& future) {
  auto promise = std::make_shared<std::promise<result>>();
  future = promise->get_future();
  return [promise = std::move(promise)](outcome&& ended) {
    if (auto* const good = std::get_if<result>(&ended)) {
      promise->set_value(std::move(*good));
    } else {
      promise->set_exception(std::make_exception_ptr(std::get<request_error>(std::move(ended))));
    }
  };
}

client::implementation::implementation(client_options options)
    : process_(::getpid()), options_(checked(std::move(options))), connection_(options_, credits_, arenas_, counters_) {
  const time_point deadline =
      moment(std::chrono::steady_clock::now(), options_.connect_timeout.value_or(std::chrono::seconds{5}));
  connection_.wait_for_welcome(options_.connect_timeout);
  if (options_.transport == transport::zmq) {
    arenas_.withdraw("the transport is ZeroMQ alone");
  }
  if (options_.transport == transport::shared_memory && fetch_arena(0, deadline) == nullptr) {
    throw connect_error("no memory is shared with the daemon at " + options_.url + ": " + arenas_.absence());
  }
}

std::uint64_t client::implementation::submit(std::string_view pipeline,
                                             const std::shared_ptr<link::session_record>& session, request& input,
                                             completion&& done, bool may_wait) {
  check_process();
  const std::chrono::nanoseconds timeout = input.timeout.value_or(options_.request_timeout);
  if (timeout.count() < 0) {
    throw local_error(wire::status::expired, "the request's timeout was over before it was submitted");
  }
  link::pending_request pending;
  const auto known = catalogue();
  // If a session's pipeline is gone, the daemon gives the reason.
  pending.pipeline = session != nullptr && known->find(pipeline) == nullptr
                         ? session->kept_pipeline()
                         : known->check(pipeline, input, session != nullptr);
  pending.submitted = std::chrono::steady_clock::now();
  pending.deadline = moment(pending.submitted, timeout);
  const std::size_t bytes = input.bytes.size();
  if (!take_credit(bytes, pending.deadline, may_wait)) {
    return 0;
  }
  const std::uint64_t id = input.id != 0 ? input.id : reserve_id();
  pending.id = id;
  pending.frames = input.frames;
  pending.leading = input.leading;
  pending.trace_id = input.trace_id;
  pending.account = input.account;
  pending.done = std::move(done);
  pending.session = session;
  bool shared = false;
  bool unshared = false;
  const auto hand_on = [&](std::uint64_t sequence) {
    pending.sequence = sequence;
    load(pending, input);
    shared = pending.payload.shared();
    unshared = pending.need > 0 && !shared;
    link::command command{std::move(pending)};
    const bool posted = connection_.post(command);
    if (!posted) {
      std::get<link::pending_request>(command).payload.keep_unreleased();
    }
    return posted;
  };
  try {
    const bool posted = session != nullptr ? session->number_next(input.frames, hand_on) : hand_on(0);
    if (!posted) {
      throw closed_error();
    }
  } catch (...) {
    credits_.give_back(bytes);
    credits_.notify_waiting();
    throw;
  }
  link::atomic_counters::count(counters_.submitted);
  if (shared) {
    link::atomic_counters::count(counters_.shared);
  }
  if (unshared) {
    link::atomic_counters::count(counters_.unshared);
  }
  return id;
}

void client::implementation::load(link::pending_request& pending, request& input) {
  const auto output_bytes = link::output_room(*pending.pipeline, input.frames);
  const bool may_share = pending.pipeline->inputs.size() <= 1;
  const bool large = may_share && options_.transport != transport::zmq && output_bytes &&
                     std::max<std::uint64_t>(input.bytes.size(),
                                             link::likely_output(*pending.pipeline, input.frames, input.leading)) >=
                         options_.shared_from_bytes;
  pending.need = large ? wire::room_for(input.bytes.size()) + *output_bytes : 0;
  const auto arena = output_bytes ? arenas_.current() : nullptr;
  auto through = may_share && arena != nullptr && (large || arena->holds(input.bytes))
                     ? link::payload::through(*arena, input, *output_bytes)
                     : std::nullopt;
  pending.payload = through ? std::move(*through) : link::payload::over_socket(input);
}

std::shared_ptr<link::arena> client::implementation::fetch_arena(std::uint64_t need, time_point deadline) {
  auto arena = arenas_.current();
  if (arena == nullptr && options_.transport != transport::zmq) {
    post(link::arena_wish{need});
    arena = connection_.is_own_thread() ? nullptr : arenas_.wait(deadline);
  }
  return arena;
}

std::shared_ptr<link::arena> client::implementation::grow_arena(std::uint64_t need, time_point deadline) {
  const std::uint64_t seen = arenas_.changes();
  post(link::arena_wish{need});
  if (!connection_.is_own_thread()) {
    arenas_.wait_for_change(seen, deadline);
  }
  return arenas_.current();
}

std::optional<lent_memory> client::implementation::lend(std::size_t bytes) {
  check_process();
  const time_point deadline = std::chrono::steady_clock::now() + link::longest_attachment;
  const auto arena = fetch_arena(bytes, deadline);
  if (arena == nullptr) {
    return std::nullopt;
  }
  auto block = std::make_shared<link::arena_block>(arena->take(bytes));
  if (!*block) {
    const auto larger = grow_arena(bytes, deadline);
    *block = larger != nullptr && larger != arena ? larger->take(bytes) : link::arena_block{};
  }
  if (!*block) {
    return std::nullopt;
  }
  const std::span<std::byte> lent{block->data(), bytes};
  return lent_memory{lent, std::move(block)};
}

shared_memory_info client::implementation::shared_memory() const {
  const auto arena = arenas_.current();
  return arena != nullptr ? shared_memory_info{arena->bytes(), arena->used_bytes(), {}}
                          : shared_memory_info{0, 0, arenas_.absence()};
}

void client::implementation::cancel(std::uint64_t id) {
  check_process();
  link::command command{link::cancellation{id}};
  [[maybe_unused]] const bool posted = connection_.post(command);  // a closing client ends everything
}

void client::implementation::post(link::command&& next) {
  if (!connection_.post(next)) {
    throw closed_error();
  }
}

link::probe::answer client::implementation::ask(wire::message_type question, std::uint64_t cursor,
                                                std::chrono::nanoseconds timeout) {
  check_process();
  link::probe probe;
  probe.question = question;
  probe.id = reserve_id();
  probe.cursor = cursor;
  probe.deadline = moment(std::chrono::steady_clock::now(), timeout);
  auto reply = probe.reply.get_future();
  post(std::move(probe));
  return reply.get();
}

stage_numbers client::implementation::ask_values(const std::shared_ptr<link::session_record>& session,
                                                 std::string body) {
  check_may_wait();
  if (const std::optional<request_error> ended = session->ended()) {
    throw request_error{*ended};
  }
  link::probe probe;
  probe.question = body.empty() ? wire::message_type::get_values : wire::message_type::set_values;
  probe.id = reserve_id();
  probe.session = session;
  probe.body = std::move(body);
  probe.deadline = moment(std::chrono::steady_clock::now(), options_.request_timeout);
  auto reply = probe.reply.get_future();
  post(std::move(probe));
  const link::probe::answer answer = reply.get();
  const auto values = wire::decode_values(std::as_bytes(std::span(answer.body)));
  if (!values) {
    throw local_error(wire::status::malformed, "the daemon's VALUES can't be read");
  }
  stage_numbers made{answer.next_cursor, {}};
  for (const wire::number_report& each : values->values) {
    made.numbers.push_back({each.stage, each.name, each.value, each.own});
  }
  return made;
}

std::shared_ptr<link::session_record> client::implementation::open_session(std::string_view pipeline,
                                                                           std::string_view name) {
  check_process();
  check_name(name);
  link::session_opening opening;
  opening.record = std::make_shared<link::session_record>(catalogue()->at(pipeline),
                                                          name.empty() ? random_name() : std::string(name));
  opening.id = reserve_id();
  opening.deadline = moment(std::chrono::steady_clock::now(), options_.request_timeout);
  auto record = opening.record;
  auto opened = opening.opened.get_future();
  post(std::move(opening));
  opened.get();
  return record;
}

void client::implementation::close_session(const std::shared_ptr<link::session_record>& session) noexcept try {
  if (is_foreign()) {
    return;
  }
  if (session->end(local_error(wire::status::session_lost, "the session is closed"))) {
    link::command command{link::session_closing{session}};
    [[maybe_unused]] const bool posted = connection_.post(command);  // a closing client leaves nothing open
  }
} catch (const std::exception&) {  // out of memory: the daemon drops a session that is idle for long
}

std::uint64_t client::implementation::subscribe(const std::shared_ptr<link::feed>& feed, std::uint64_t& queue_bytes) {
  check_may_wait();
  link::subscription_opening opening;
  opening.feed = feed;
  opening.id = reserve_id();
  opening.deadline = moment(std::chrono::steady_clock::now(), options_.request_timeout);
  const std::uint64_t id = opening.id;
  auto granted = opening.granted.get_future();
  post(std::move(opening));
  queue_bytes = granted.get();
  return id;
}

void client::implementation::close_subscription(const std::shared_ptr<link::feed>& feed, std::uint64_t id) noexcept
    try {
  if (is_foreign()) {
    return;
  }
  feed->end(std::nullopt);
  link::command command{link::subscription_closing{id}};
  [[maybe_unused]] const bool posted = connection_.post(command);  // a closing client leaves nothing open
} catch (const std::exception&) {  // out of memory: the subscription ends with the client
}

void client::implementation::check_may_wait() const {
  check_process();
  if (connection_.is_own_thread()) {
    throw local_error(wire::status::rejected, "a completion can't wait for the daemon");
  }
}

bool client::implementation::is_foreign() const noexcept {
  return ::getpid() != process_;
}

/// The thread and the sockets are the parent's, and a lock may have been held by a thread that is not here.
void client::implementation::check_process() const {
  if (is_foreign()) {
    throw local_error(wire::status::rejected, "this client belongs to process " + std::to_string(process_) +
                                                  ", which forked this one: make a client here, after the fork");
  }
}

request_error client::implementation::closed_error() const {
  const std::string failure = connection_.failure();
  return failure.empty() ? local_error(wire::status::shutdown, "the client is being closed")
                         : local_error(wire::status::failed, "the client's thread has ended: " + failure);
}

bool client::implementation::take_credit(std::size_t bytes, time_point deadline, bool may_wait) {
  using answer = link::credit_window::answer;
  const bool on_own_thread = connection_.is_own_thread();
  const answer given = may_wait && !on_own_thread ? credits_.take(bytes, deadline) : credits_.try_take(bytes);
  switch (given) {
    case answer::taken:
      return true;
    case answer::closed:
      throw closed_error();
    case answer::never_enough:
      throw local_error(wire::status::too_large,
                        std::to_string(bytes) + " bytes are more than the daemon ever grants this client");
    case answer::none_left:
      break;
  }
  if (!may_wait) {
    return false;
  }
  throw on_own_thread
      ? local_error(wire::status::no_credit, "the credits are used up, and a completion can't wait for more")
      : local_error(wire::status::expired, "no credit came back within the request's timeout");
}

client::client(client_options options) : self_(std::make_unique<implementation>(std::move(options))) {}

client::~client() {
  if (self_->is_foreign()) {
    [[maybe_unused]] const auto* const parents = self_.release();  // thread and sockets belong to the parent process
  }
}

server_info client::server() const {
  return self_->catalogue()->server();
}
std::vector<pipeline_info> client::pipelines() const {
  return self_->catalogue()->pipelines();
}

std::uint64_t client::submit(std::string_view pipeline, request input, completion done) {
  return self_->submit(pipeline, nullptr, input, std::move(done), true);
}

std::future<result> client::submit(std::string_view pipeline, request input) {
  std::future<result> future;
  self_->submit(pipeline, nullptr, input, keep_promise_of(future), true);
  return future;
}

std::optional<std::uint64_t> client::try_submit(std::string_view pipeline, request input, completion done) {
  const std::uint64_t id = self_->submit(pipeline, nullptr, input, std::move(done), false);
  return id == 0 ? std::nullopt : std::optional{id};
}

std::optional<std::future<result>> client::try_submit(std::string_view pipeline, request input) {
  std::future<result> future;
  const std::uint64_t id = self_->submit(pipeline, nullptr, input, keep_promise_of(future), false);
  return id == 0 ? std::nullopt : std::optional{std::move(future)};
}

session client::open_session(std::string_view pipeline, std::string_view name) {
  return {*self_, self_->open_session(pipeline, name)};
}

subscription client::subscribe(std::string_view pipeline) {
  return subscribe(pipeline, subscribe_options{}, {});
}

subscription client::subscribe(std::string_view pipeline, const subscribe_options& options) {
  return subscribe(pipeline, options, {});
}

subscription client::subscribe(std::string_view pipeline, const subscribe_options& options,
                               std::function<void(published&&)> received) {
  wire::subscribe wanted{.pipelines = {std::string(pipeline)},
                         .sessions = options.sessions,
                         .outputs = options.outputs,
                         .queue_bytes = options.queue_bytes,
                         .requests = options.requests};
  wanted.pipelines.insert(wanted.pipelines.end(), options.more_pipelines.begin(), options.more_pipelines.end());
  auto feed = std::make_shared<link::feed>(std::move(wanted), options.buffer_bytes, std::move(received));
  std::uint64_t queue_bytes = 0;
  const std::uint64_t id = self_->subscribe(feed, queue_bytes);
  return {*self_, std::move(feed), id, queue_bytes};
}

std::optional<lent_memory> client::lend(std::size_t bytes) {
  return self_->lend(bytes);
}
shared_memory_info client::shared_memory() const {
  return self_->shared_memory();
}

std::uint64_t client::reserve_id() noexcept {
  return self_->reserve_id();
}
void client::cancel(std::uint64_t id) {
  self_->cancel(id);
}

std::chrono::nanoseconds client::ping(std::chrono::nanoseconds timeout) {
  return self_->ask(wire::message_type::ping, 0, timeout).round_trip;
}

std::string client::status_json(std::chrono::nanoseconds timeout) {
  return self_->ask(wire::message_type::get_status, 0, timeout).body;
}

trace_page client::trace(std::uint64_t cursor, std::chrono::nanoseconds timeout) {
  link::probe::answer answer = self_->ask(wire::message_type::get_trace, cursor, timeout);
  return {std::move(answer.body), answer.next_cursor};
}

client_counters client::counters() const noexcept {
  const auto read = [](const std::atomic<std::uint64_t>& each) { return each.load(std::memory_order_relaxed); };
  const link::atomic_counters& current = self_->counters();
  return {read(current.submitted),         read(current.results), read(current.errors),
          read(current.sent_again),        read(current.hellos),  read(current.unmatched_replies),
          read(current.malformed_replies), read(current.shared),  read(current.thrown),
          read(current.unshared)};
}

}  // namespace penstock
