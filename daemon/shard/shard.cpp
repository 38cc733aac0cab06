#include "daemon/shard/shard.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <random>
#include <set>
#include <system_error>
#include <utility>

#include <boost/asio/post.hpp>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "daemon/settings/client_memory.hpp"
#include "daemon/shard/status_report.hpp"
#include "daemon/socket/message_memory.hpp"
#include "penstock_version.hpp"

namespace penstock {
namespace {

using clock = std::chrono::steady_clock;
using boost::system::error_code;

constexpr std::size_t messages_a_turn = 256;
// After so many the clock is read again: a request's time counts from when it was taken in.
constexpr std::size_t messages_a_clock = 16;
// Messages that are no requests: each may take as long as many requests, and requests are behind them.
constexpr std::size_t control_a_turn = 32;
constexpr std::uint32_t turns_between_polls = 32;
// Sending takes in ZeroMQ's news as well, after the look at some other client: what fell between the two is found then.
constexpr auto retry_interval = std::chrono::milliseconds{10};
constexpr auto sweep_interval = std::chrono::seconds{1};
// For clients that do not answer the farewell.
constexpr int linger_ms = 2000;

// The priorities that pipelines have, each once.
std::vector<stream_priority> priorities_of(std::span<const plan> plans) {
  std::set<stream_priority> all;
  for (const plan& each : plans) {
    all.insert(each.declaration.priority);
  }
  return {all.begin(), all.end()};
}

served_pipelines all_of(std::span<const plan> plans) {
  served_pipelines made;
  for (const plan& each : plans) {
    made.in_order.push_back(&each);
    made.put(each);
  }
  return made;
}

// No more batches than these are with the device at once, and only those have a clock.
std::size_t clocks_for(const settings& how, std::span<const plan> plans) {
  const std::size_t most = wheel::depth * static_cast<std::size_t>(how.wheel.streams) * priorities_of(plans).size();
  return how.timing.batches_per_second == 0 ? 0 : std::min(most, static_cast<std::size_t>(how.wheel.slots));
}

std::string new_instance() {
  std::random_device entropy;
  std::string text;
  for (int word = 0; word < 2; ++word) {
    text += fmt::format("{:08x}", entropy());
  }
  return text;
}

int duplicate(int descriptor) {
  const int copy = ::dup(descriptor);
  if (copy < 0) {
    throw std::system_error(errno, std::generic_category(), "cannot duplicate a descriptor");
  }
  return copy;
}

// Room above the limit, so that a request somewhat too large gets an ERROR instead of a closed connection.
router_settings socket_settings(const settings& how, const keyring* keys) {
  return {.listen = how.daemon.listen,
          .max_part_bytes = 2 * how.clients.max_request_bytes + wire::max_body_bytes,
          .replies_under_way = replies_under_way(how.clients),
          .handshake_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(how.security.handshake_timeout),
          .ipc = {.mode = how.security.ipc_mode, .group = group_of(how.security.ipc_group)},
          .keys = keys,
          .io_threads = std::max(how.daemon.io_threads, 1)};
}

}  // namespace

shard::shard(const settings& how, device& on, std::span<const plan> plans, memory_budget& memory, std::uint32_t number,
             const keyring* keys, const std::function<void(const std::string&)>& tell)
    : how_(how),
      device_(on),
      memory_(memory),
      served_(all_of(plans)),
      next_place_(static_cast<std::uint32_t>(plans.size())),
      number_(number),
      instance_(new_instance()),
      started_(clock::now()),
      ring_(on, static_cast<std::size_t>(how.wheel.slots),
            with_room(size_for(plans), static_cast<std::size_t>(how.wheel.streams)),
            how.wheel.completion != completion_mode::callback, completed_, signal_),
      states_(on, plans, how.sessions.max_sessions),
      clocks_(on, plans, clocks_for(how, plans)),
      wheel_(on, how.wheel.streams, priorities_of(plans), how.wheel.completion, states_),
      timeline_(on, clocks_, plans, ring_.size(), how.timing, clock::now),
      pages_({number, on.facts().name, wheel_.streams(), ring_.size()}, plans),
      socket_(socket_settings(how, keys)),
      clients_(how.clients.max_clients, how.clients.credit_requests),
      sessions_(how.sessions.max_sessions, how.sessions.idle_timeout, std::random_device{}(),
                how.sessions.max_per_client),
      ingress_(socket_, received_),
      egress_(socket_, ring_, received_, how.clients, counters_, memory),
      book_(plans.size(), egress_, counters_),
      dispatcher_(plans, ring_, wheel_, completed_, book_, ingress_, timeline_),
      reception_({ingress_, egress_, clients_, sessions_, book_, dispatcher_, counters_, served_, memory}, how.clients,
                 {std::string("penstockd ") + version, instance_, [this] { return report_status(report()); },
                  [this](std::uint64_t cursor) {
                    return pages_.write(timeline_.batches(), cursor, clock::now(), client_page_bytes);
                  },
                  number}),
      sweep_at_(started_ + sweep_interval) {
  // Duplicates: Asio closes what it watches, ZeroMQ and the signal close their own.
  socket_watch_.descriptor.assign(duplicate(socket_.descriptor()));
  signal_watch_.descriptor.assign(duplicate(signal_.descriptor()));
  warm_up(tell);
}

void shard::warm_up(const std::function<void(const std::string&)>& tell) {
  slot* const scratch = ring_.claim();
  for (const plan* const each : served_.in_order) {
    if (tell) {
      tell("pipeline '" + each->declaration.name + "' is run for the first time");
    }
    wheel_.set_brief(each->place, wheel_.warm_up(*each, *scratch));
  }
  ring::drop(*scratch);
  ring_.collect();
}

void shard::stop() {
  boost::asio::post(io_, [this] {
    if (state_ == state::serving) {
      begin_drain();
    } else {
      drain_until_ = clock::now();
      part_until_ = drain_until_;
    }
  });
}

shard_ending shard::run() {
  while (state_ != state::ended) {
    try {
      go_round();
    } catch (const std::exception& error) {
      if (!is_want_of_memory(error)) {
        throw;
      }
      if (ending_ == shard_ending::out_of_memory) {
        throw std::bad_alloc();
      }
      end_without_memory(clock::now());
    }
  }
  // What failed within libzmq may have left it so that its end never comes. The process ends without.
  if (ending_ != shard_ending::out_of_memory) {
    socket_.close(linger_ms);
  }
  return ending_;
}

void shard::go_round() {
  const time_point now = clock::now();
  const bool busy = turn(now);
  if (busy) {
    spin_until_ = now + how_.daemon.spin;
  }
  if (busy || now < spin_until_ || (wheel_.polling() && state_ != state::parting)) {
    if (++busy_turns_ % turns_between_polls == 0) {
      io_.poll();
    }
  } else if (state_ != state::ended) {
    sleep(now);
  }
}

bool shard::turn(time_point now) {
  if (state_ == state::parting) {
    return part(now);
  }
  timeline_.turn(now);
  std::size_t received = 0;
  if (reception_.control_waiting() > 0) {
    // While there is something to receive, libzmq looks for clients that have begun to send only once in 100 parts. Of
    // a flood that would be long.
    (void)socket_.readable();
  }
  const std::uint64_t accepted = counters_.requests.accepted;
  const std::uint64_t control = reception_.control_taken();
  for (std::size_t last = messages_a_clock; last == messages_a_clock && received < messages_a_turn; received += last) {
    const std::size_t taken = reception_.control_taken() - control;
    last = reception_.receive(clock::now(), messages_a_clock, control_a_turn - std::min(taken, control_a_turn));
  }
  bool progress = received > 0;
  if (progress && state_ == state::draining) {
    stay_quiet(now);
  }
  bool served = counters_.requests.accepted != accepted;
  served |= dispatcher_.turn(clock::now());
  expire(now);
  served |= egress_.flush();
  progress |= served;
  progress |= reception_.work_off(/*idle=*/!served);
  if (now >= sweep_at_) {
    sweep(now);
  }
  check_end(now);
  return progress;
}

void shard::expire(time_point now) {
  while (request* const due = book_.due(now)) {
    dispatcher_.end(*due, wire::status::expired,
                    fmt::format("the request's timeout ran out while it was {}", name_of(due->step)));
  }
}

void shard::sweep(time_point now) {
  sweep_at_ = now + sweep_interval;
  reception_.sweep(now);
  dispatcher_.check_device(now, how_.wheel.hang_timeout);
  look_after_memory(now);
}

void shard::look_after_memory(time_point now) {
  constexpr std::uint64_t worth_keeping = std::uint64_t{1} << 20U;
  const std::uint64_t came = counters_.payload_bytes_in - std::exchange(swept_bytes_, counters_.payload_bytes_in);
  if (came >= worth_keeping) {
    note_message_memory(now);
  } else if (counters_.requests.in_flight == 0) {
    (void)return_message_memory(now);
  }
}

// A watch is set anew only before the shard sleeps: set from its own handler, a descriptor that stays readable until
// the next turn would keep Asio busy for ever.
void shard::watch(descriptor_watch& which) {
  if (!which.set) {
    which.set = true;
    which.descriptor.async_wait(
        boost::asio::posix::stream_descriptor::wait_read,
        remembered_handler(waits_, [&which](const error_code& /*ended*/) { which.set = false; }));
  }
}

// Handlers only end the wait: the next turn looks at everything.
void shard::sleep(time_point now) {
  const bool parting = state_ == state::parting;  // whatever the device still does concerns nobody
  const time_point retry_at = egress_.idle() ? never : now + retry_interval;
  const time_point until = parting ? std::min(part_until_, retry_at)
                                   : std::min({book_.next_deadline(), dispatcher_.next_decision(), sweep_at_,
                                               drain_until_, next_end(), retry_at, reception_.next_control()});
  if (until <= now) {
    io_.poll();
    return;
  }
  signal_.prepare();
  // ZMQ_FD is edge-triggered: only after this look is its next edge news. The look may be what takes in that a slow
  // client reads again, so its queue is tried once more after it.
  if (!socket_.readable() && !egress_.flush() && (parting || (completed_.empty() && !ring_.has_returned()))) {
    if (timer_at_ != until) {
      timer_at_ = until;
      timer_.expires_at(until);
      timer_.async_wait(remembered_handler(waits_, [this](const error_code& error) {
        if (!error) {
          timer_at_ = never;
        }
      }));
    }
    watch(socket_watch_);
    watch(signal_watch_);
    io_.run_one();
  }
  signal_.awake();
}

void shard::ask(std::function<void(shard&)> question) {
  boost::asio::post(io_, [this, question = std::move(question)] { question(*this); });
}

void shard::join(shard_directory& among, arena_keeper* keeper, const configuration_report& configuration) {
  reception_.join(among, keeper);
  keeper_ = keeper;
  among_ = &among;
  configuration_ = configuration;
}

}  // namespace penstock
