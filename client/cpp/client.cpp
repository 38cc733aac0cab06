#include <utility>

#include <penstock/client.hpp>

#include "client/cpp/connection.hpp"
#include "client/cpp/outgoing.hpp"

namespace penstock {
namespace {

using link::time_point;

request_error local_error(wire::status code, std::string reason) {
  return request_error{static_cast<std::uint16_t>(code), {std::move(reason), "client", {}, {}}};
}

/// The moment `after` from now; never for zero and for what no clock can hold.
time_point moment(time_point now, std::chrono::nanoseconds after) {
  return after.count() <= 0 || after > link::never - now ? link::never : now + after;
}

/// A completion that keeps a promise.
completion keep(std::shared_ptr<std::promise<result>> promise) {
  return [promise = std::move(promise)](outcome&& how) {
    if (auto* const good = std::get_if<result>(&how)) {
      promise->set_value(std::move(*good));
    } else {
      promise->set_exception(std::make_exception_ptr(std::get<request_error>(std::move(how))));
    }
  };
}

}  // namespace

class client::implementation {
 public:
  explicit implementation(client_options options)
      : options_(std::move(options)), connection_(options_, credits_, counters_) {
    connection_.wait_for_welcome(options_.connect_timeout);
  }

  ~implementation() { credits_.close(); }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  [[nodiscard]] std::shared_ptr<const link::catalogue> catalogue() const { return connection_.newest(); }
  [[nodiscard]] std::uint64_t reserve_id() noexcept { return next_id_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] const link::atomic_counters& counters() const noexcept { return counters_; }

  /// 0 when `may_wait` is false and there is no credit.
  std::uint64_t submit(std::string_view pipeline, request& what, completion&& done, bool may_wait) {
    link::pending_request pending;
    pending.pipeline = catalogue()->check(pipeline, what);
    pending.submitted = std::chrono::steady_clock::now();
    pending.deadline = moment(pending.submitted, what.timeout.value_or(options_.request_timeout));
    const std::size_t bytes = what.bytes.size();
    if (!take_credit(bytes, pending.deadline, may_wait)) {
      return 0;
    }
    const std::uint64_t id = what.id != 0 ? what.id : reserve_id();
    pending.id = id;
    pending.payload = link::payload_of(what);
    pending.frames = what.frames;
    pending.leading = what.leading;
    pending.trace_id = what.trace_id;
    pending.done = std::move(done);
    link::command command{std::move(pending)};
    if (!connection_.post(command)) {
      credits_.give_back(bytes);
      throw local_error(wire::status::shutdown, "the client is being closed");
    }
    link::atomic_counters::count(counters_.submitted);
    return id;
  }

  void cancel(std::uint64_t id) {
    link::command command{link::cancellation{id}};
    [[maybe_unused]] const bool posted = connection_.post(command);  // a closing client ends everything anyway
  }

  link::probe::answer ask(wire::message_type question, std::chrono::nanoseconds timeout) {
    link::probe probe;
    probe.question = question;
    probe.id = reserve_id();
    probe.deadline = moment(std::chrono::steady_clock::now(), timeout);
    auto reply = probe.reply.get_future();
    link::command command{std::move(probe)};
    if (!connection_.post(command)) {
      throw local_error(wire::status::shutdown, "the client is being closed");
    }
    return reply.get();
  }

 private:
  bool take_credit(std::size_t bytes, time_point deadline, bool may_wait) {
    using answer = link::credit_gate::answer;
    const bool on_own_thread = connection_.is_own_thread();
    const answer given = may_wait && !on_own_thread ? credits_.take(bytes, deadline) : credits_.try_take(bytes);
    switch (given) {
      case answer::taken:
        return true;
      case answer::closed:
        throw local_error(wire::status::shutdown, "the client is being closed");
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

  client_options options_;
  std::atomic<std::uint64_t> next_id_{link::hello_id + 1};  ///< written and read by every caller
  link::atomic_counters counters_;
  link::credit_gate credits_;
  link::connection connection_;
};

client::client(client_options options) : self_(std::make_unique<implementation>(std::move(options))) {}
client::~client() = default;

server_info client::server() const {
  return self_->catalogue()->server();
}
std::vector<pipeline_info> client::pipelines() const {
  return self_->catalogue()->pipelines();
}

std::uint64_t client::submit(std::string_view pipeline, request what, completion done) {
  return self_->submit(pipeline, what, std::move(done), true);
}

std::future<result> client::submit(std::string_view pipeline, request what) {
  auto promise = std::make_shared<std::promise<result>>();
  auto future = promise->get_future();
  self_->submit(pipeline, what, keep(std::move(promise)), true);
  return future;
}

std::optional<std::uint64_t> client::try_submit(std::string_view pipeline, request what, completion done) {
  const std::uint64_t id = self_->submit(pipeline, what, std::move(done), false);
  return id == 0 ? std::nullopt : std::optional{id};
}

std::optional<std::future<result>> client::try_submit(std::string_view pipeline, request what) {
  auto promise = std::make_shared<std::promise<result>>();
  auto future = promise->get_future();
  const std::uint64_t id = self_->submit(pipeline, what, keep(std::move(promise)), false);
  return id == 0 ? std::nullopt : std::optional{std::move(future)};
}

std::uint64_t client::reserve_id() noexcept {
  return self_->reserve_id();
}
void client::cancel(std::uint64_t id) {
  self_->cancel(id);
}

std::chrono::nanoseconds client::ping(std::chrono::nanoseconds timeout) {
  return self_->ask(wire::message_type::ping, timeout).round_trip;
}

std::string client::status_json(std::chrono::nanoseconds timeout) {
  return self_->ask(wire::message_type::get_status, timeout).body;
}

client_counters client::counters() const noexcept {
  const auto read = [](const std::atomic<std::uint64_t>& each) { return each.load(std::memory_order_relaxed); };
  const link::atomic_counters& from = self_->counters();
  return {read(from.submitted), read(from.results),           read(from.errors),           read(from.sent_again),
          read(from.hellos),    read(from.unmatched_replies), read(from.malformed_replies)};
}

}  // namespace penstock
