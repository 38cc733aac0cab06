#include "daemon/shard/shard.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <new>
#include <random>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include <boost/asio/post.hpp>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "daemon/config/client_memory.hpp"
#include "daemon/net/message_memory.hpp"
#include "daemon/telemetry/report.hpp"
#include "penstock_version.hpp"

namespace penstock {
namespace {

using clock = std::chrono::steady_clock;
using boost::system::error_code;

constexpr std::size_t messages_a_turn = 256;
// The clock is read again after so many, since a request's time begins when it is received.
constexpr std::size_t messages_a_clock = 16;
// Control messages and refusals. Each may take as long as many requests.
constexpr std::size_t control_a_turn = 32;
constexpr std::uint32_t turns_between_polls = 32;
// A send also processes ZeroMQ's news, perhaps of a client whose queue was tried before it. This retry finds it.
constexpr auto retry_interval = std::chrono::milliseconds{10};
constexpr auto sweep_interval = std::chrono::seconds{1};
// For clients that do not answer GOODBYE.
constexpr int linger_ms = 2000;
// A drain ends when nothing has come in for this long, so that clients that could not know of it get their answers.
constexpr auto quiet_interval = std::chrono::milliseconds{100};
constexpr auto longest_wait_for_quiet = std::chrono::seconds{1};
// The time that clients get to answer GOODBYE.
constexpr auto parting_time = std::chrono::seconds{2};

// The classes of streams that pipelines ask for, each once.
std::vector<stream_class> classes_of(std::span<const plan> plans) {
  std::set<stream_class> all;
  for (const plan& each : plans) {
    all.insert(each.streams());
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

// Only batches that are with the device have a clock; there are at most so many at once.
std::size_t clocks_for(const settings& settings, std::span<const plan> plans) {
  const std::size_t most =
      stream_pool::depth * static_cast<std::size_t>(settings.stream_pool.streams) * classes_of(plans).size();
  return settings.timing.batches_per_second == 0 ? 0
                                                 : std::min(most, static_cast<std::size_t>(settings.stream_pool.slots));
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
router_settings socket_settings(const settings& settings, const keyring* keys) {
  return {
      .listen = settings.daemon.listen,
      .max_part_bytes = 2 * settings.clients.max_request_bytes + wire::max_body_bytes,
      .replies_under_way = replies_under_way(settings.clients),
      .handshake_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(settings.security.handshake_timeout),
      .ipc = {.mode = settings.security.ipc_mode, .group = group_of(settings.security.ipc_group)},
      .keys = keys,
      .io_threads = std::max(settings.daemon.io_threads, 1)};
}

/// "stage 'agc' of pipeline 'radio'"; "" without suspects. The batch of a suspect may be of a plan that was replaced.
std::string suspects_text(const device_loss& loss, const served_pipelines& served) {
  std::string text;
  for (const std::string& name : loss.suspects) {
    const auto found = std::find_if(served.in_order.begin(), served.in_order.end(),
                                    [&](const plan* each) { return each->declaration.name == name; });
    std::string stages;
    if (found != served.in_order.end()) {
      for (const plan_stage& stage : (*found)->stages) {
        stages += stage.users_code ? (stages.empty() ? "stage '" : ", '") + stage.name + "'" : "";
      }
    }
    text += (text.empty() ? "" : "; or ") + (stages.empty() ? "" : stages + " of ") + "pipeline '" + name + "'";
  }
  return text;
}

}  // namespace

shard::shard(const settings& settings, device& device, std::span<plan> plans, memory_budget& memory,
             std::uint32_t number, const keyring* keys, const std::function<void(const std::string&)>& progress)
    : settings_(settings),
      device_(device),
      memory_(memory),
      served_(all_of(plans)),
      next_place_(static_cast<std::uint32_t>(plans.size())),
      first_plans_(plans),
      number_(number),
      instance_(new_instance()),
      started_(clock::now()),
      ring_(device, static_cast<std::size_t>(settings.stream_pool.slots),
            with_room(size_for(plans), static_cast<std::size_t>(settings.stream_pool.streams)),
            settings.stream_pool.completion != completion_mode::callback, completed_, signal_),
      states_(device, plans, settings.sessions.max_sessions),
      clocks_(device, plans, clocks_for(settings, plans)),
      stream_pool_(device, settings.stream_pool.streams, classes_of(plans), settings.stream_pool.completion, states_),
      recorder_(device, clocks_, plans, ring_.size(), settings.timing, clock::now),
      pages_({number, device.facts().name, stream_pool_.streams(), ring_.size()}, plans),
      socket_(socket_settings(settings, keys)),
      clients_(settings.clients.max_clients, settings.clients.credit_requests),
      sessions_(settings.sessions.max_sessions, settings.sessions.idle_timeout, std::random_device{}(),
                settings.sessions.max_per_client),
      message_reader_(socket_, payloads_),
      subscriptions_({socket_, clients_, sessions_, served_, counters_, memory}, queued_,
                     settings.clients.max_subscriptions),
      reply_sender_(socket_, ring_, payloads_, settings.clients, counters_, memory),
      tracker_(plans.size(), reply_sender_, counters_),
      scheduler_(plans, ring_, stream_pool_, completed_, tracker_, payloads_, recorder_),
      registry_({clients_, sessions_, scheduler_, reply_sender_, counters_, served_, memory}, settings.clients,
                {std::string("penstockd ") + version, instance_, number, device.facts().exporter}),
      message_handler_({message_reader_, reply_sender_, registry_, sessions_, tracker_, scheduler_, counters_, served_,
                        subscriptions_, tuning_},
                       {[this] { return report_status(report()); },
                        [this](std::uint64_t cursor) {
                          return pages_.write(recorder_.batches(), cursor, clock::now(), client_page_bytes);
                        }},
                       number),
      sweep_at_(started_ + sweep_interval) {
  served_.refused = settings.refused;
  for (const plan& each : plans) {
    tuning_.add(each);
  }
  reply_sender_.publish_to(subscriptions_);
  // Duplicates, because Asio closes what it watches.
  socket_watch_.descriptor.assign(duplicate(socket_.descriptor()));
  signal_watch_.descriptor.assign(duplicate(signal_.descriptor()));
  warm_up(progress);
}

std::string first_run_text(const std::string& pipeline) {
  return "pipeline '" + pipeline + "' is run for the first time";
}

void shard::warm_up(const std::function<void(const std::string&)>& progress) {
  slot* const scratch = ring_.claim();
  for (const plan* const each : served_.in_order) {
    if (progress) {
      progress(first_run_text(each->declaration.name));
    }
    stream_pool_.set_inline_steps(each->place, stream_pool_.warm_up(*each, *scratch));
  }
  slot_ring::drop(*scratch);
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
      if (!is_out_of_memory(error)) {
        throw;
      }
      if (ending_ == shard_ending::out_of_memory) {
        throw std::bad_alloc();
      }
      end_without_memory(clock::now());
    }
  }
  // After an allocation failed in libzmq its shutdown might hang, so the process ends without it.
  if (ending_ != shard_ending::out_of_memory) {
    socket_.close(linger_ms);
  }
  return ending_;
}

void shard::go_round() {
  const time_point now = clock::now();
  const bool busy = turn(now);
  if (busy) {
    spin_until_ = now + settings_.daemon.spin;
  }
  if (busy || now < spin_until_ || (stream_pool_.polling() && state_ != state::parting)) {
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
  recorder_.turn(now);
  std::size_t received = 0;
  if (message_handler_.control_waiting() > 0) {
    // While there is something to receive, libzmq looks for newly active clients only once in 100 parts. In a flood
    // that takes long; this makes it look now.
    (void)socket_.readable();
  }
  const std::uint64_t accepted = counters_.requests.accepted;
  const std::uint64_t control = message_handler_.control_taken();
  for (std::size_t last = messages_a_clock; last == messages_a_clock && received < messages_a_turn; received += last) {
    const std::size_t taken = message_handler_.control_taken() - control;
    last = message_handler_.receive(clock::now(), messages_a_clock, control_a_turn - std::min(taken, control_a_turn));
  }
  bool progress = received > 0;
  if (progress && state_ == state::draining) {
    stay_quiet(now);
  }
  bool served = counters_.requests.accepted != accepted;
  served |= scheduler_.turn(clock::now());
  expire(now);
  served |= reply_sender_.flush();
  served |= subscriptions_.flush();
  progress |= served;
  progress |= message_handler_.handle_deferred(/*idle=*/!served);
  if (now >= sweep_at_) {
    sweep(now);
  }
  check_end(now);
  return progress;
}

void shard::expire(time_point now) {
  while (request* const due = tracker_.due(now)) {
    scheduler_.end(*due, wire::status::expired,
                   fmt::format("the request's timeout ran out while it was {}", name_of(due->step)));
  }
}

void shard::sweep(time_point now) {
  sweep_at_ = now + sweep_interval;
  registry_.sweep(now);
  subscriptions_.sweep();
  message_handler_.sweep(now);
  scheduler_.check_device(now, settings_.stream_pool.hang_timeout);
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

// Sets the watch again, only before the shard sleeps. If its own handler did, a descriptor that stays readable until
// the next turn would keep Asio busy forever.
void shard::watch(descriptor_watch& watch) {
  if (!watch.set) {
    watch.set = true;
    watch.descriptor.async_wait(
        boost::asio::posix::stream_descriptor::wait_read,
        remembered_handler(waits_, [&watch](const error_code& /*ended*/) { watch.set = false; }));
  }
}

// Handlers only end the wait: the next turn looks at everything.
void shard::sleep(time_point now) {
  const bool parting = state_ == state::parting;  // the device no longer matters then
  const time_point retry_at = reply_sender_.idle() && subscriptions_.idle() ? never : now + retry_interval;
  const time_point until = parting ? std::min(part_until_, retry_at)
                                   : std::min({tracker_.next_deadline(), scheduler_.next_decision(), sweep_at_,
                                               drain_until_, next_end(), retry_at, message_handler_.next_control()});
  if (until <= now) {
    io_.poll();
    return;
  }
  signal_.prepare();
  // ZMQ_FD is edge-triggered: it signals again only after `readable`. That call may also find that a slow client reads
  // again, so the queues are tried once more.
  if (!socket_.readable() && !reply_sender_.flush() && !subscriptions_.flush() &&
      (parting || (completed_.empty() && !ring_.has_returned()))) {
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

void shard::join(shard_directory& directory, shm_server* server, const configuration_report& configuration,
                 source_board* sources, sink_board* sinks) {
  registry_.join(directory, server);
  message_handler_.share_memory(server);
  shm_server_ = server;
  directory_ = &directory;
  subscriptions_.set_shards(std::max<std::size_t>(directory.size(), 1));
  sources_ = sources;
  sinks_ = sinks;
  configuration_ = configuration;
}

void shard::begin_drain() {
  state_ = state::draining;
  stay_quiet(clock::now());
  drain_until_ = clock::now() + settings_.daemon.drain_timeout;
  spdlog::info("draining: {} requests in flight, at most {} ms", counters_.requests.in_flight,
               std::chrono::duration_cast<std::chrono::milliseconds>(settings_.daemon.drain_timeout).count());
  message_handler_.close(wire::status::shutdown, "the daemon is stopping");
  scheduler_.drain();
}

void shard::stay_quiet(time_point now) {
  quiet_at_ = now + quiet_interval;
}

void shard::check_end(time_point now) {
  if (scheduler_.lost()) {
    end_with_loss(now);
  } else if (state_ == state::draining) {
    const bool idle = scheduler_.idle() && reply_sender_.idle();
    idle_since_ = idle ? std::min(idle_since_, now) : never;
    if (idle && now >= next_end()) {
      begin_parting(now);
    } else if (now >= drain_until_ && scheduler_.idle()) {
      begin_parting(now);  // everything is answered; only slow readers still have replies queued
    } else if (now >= drain_until_) {
      spdlog::warn("drain cut short: {} requests are answered SHUTDOWN", counters_.requests.in_flight);
      scheduler_.end_all(wire::status::shutdown, {.reason = "the daemon stopped before the request was done",
                                                  .step = "executing",
                                                  .stage = "",
                                                  .device_error = ""});
      reply_sender_.flush();
      ending_ = shard_ending::cut_short;
      begin_parting(now);
    }
  }
}

// When an idle drain may end even if clients still send; `never` while there is work, which wakes the shard by itself.
time_point shard::next_end() const noexcept {
  return state_ == state::draining && idle_since_ != never ? std::min(quiet_at_, idle_since_ + longest_wait_for_quiet)
                                                           : never;
}

void shard::end_with_loss(time_point now) {
  const device_loss& loss = *scheduler_.lost();
  const std::string at_stage = loss.stage.empty() ? "" : fmt::format(" at stage '{}'", loss.stage);
  const std::string of_pipeline = loss.pipeline.empty() ? "" : fmt::format(" of pipeline '{}'", loss.pipeline);
  const std::string suspect = suspects_text(loss, served_);
  spdlog::error("device lost: {}{}{}{}; {} requests are answered FAILED, then the daemon exits to be restarted",
                loss.error, at_stage, of_pipeline, suspect.empty() ? "" : "; suspect: " + suspect,
                counters_.requests.in_flight);
  message_handler_.close(wire::status::device_failed,
                         "the device is lost: " + loss.error + (suspect.empty() ? "" : "; suspect: " + suspect));
  scheduler_.end_all(
      wire::status::device_failed,
      {.reason = "the device is lost", .step = "executing", .stage = loss.stage, .device_error = loss.error});
  reply_sender_.flush();
  ending_ = shard_ending::device_lost;
  begin_parting(now);
}

// Not a drain, which might never end: the failed allocation may have left a request half accepted. Such a request gets
// no answer; its client sends it again to the next daemon.
void shard::end_without_memory(time_point now) {
  ending_ = shard_ending::out_of_memory;
  spdlog::error("out of memory: {} requests are answered FAILED, then the daemon exits to be restarted",
                counters_.requests.in_flight);
  message_handler_.close(wire::status::failed, "the daemon is out of memory");
  scheduler_.end_all(wire::status::failed,
                     {.reason = "the daemon is out of memory", .step = "executing", .stage = "", .device_error = ""});
  reply_sender_.flush();
  begin_parting(now);
}

// Replies that ZeroMQ or the kernel still holds can be lost when the socket closes. A client that has answered GOODBYE
// has read everything before it.
void shard::begin_parting(time_point now) {
  if (sources_ != nullptr) {
    sources_->stop(number_);
  }
  if (sinks_ != nullptr) {
    sinks_->leave(number_);
  }
  part_until_ = now + parting_time;
  state_ = registry_.say_goodbye() ? state::parting : state::ended;
}

bool shard::part(time_point now) {
  const bool progress = message_handler_.receive(now, clients_.size()) > 0;
  if (now >= part_until_ || registry_.empty()) {
    state_ = state::ended;
  }
  const bool replied = reply_sender_.flush();
  return subscriptions_.flush() || replied || progress;
}

std::string shard::prepare(shard_change& change) {
  if (state_ != state::serving) {
    return "the daemon is stopping";
  }
  served_pipelines later;
  later.by_id = served_.by_id;
  later.refused = change.wanted.refused;
  for (const fresh_pipeline& each : change.fresh) {
    later.put(*each.compiled);
  }
  for (const std::uint32_t id : change.order) {
    later.in_order.push_back(later.find(id));
  }
  try {
    std::vector<std::string> welcomes = registry_.welcomes_of(later, change.wanted.clients);
    pending_.emplace(pending_change{std::move(change), std::move(welcomes)});
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::optional<shard_change> shard::drop_change(std::uint64_t attempt) {
  if (!pending_ || pending_->change.attempt != attempt) {
    return std::nullopt;
  }
  std::optional<shard_change> dropped(std::move(pending_->change));
  pending_.reset();
  return dropped;
}

bool shard::commit(std::uint64_t attempt) {
  if (!pending_ || pending_->change.attempt != attempt) {
    return false;
  }
  pending_change taken = std::move(*pending_);
  pending_.reset();
  for (fresh_streams& each : taken.change.streams) {
    stream_pool_.add(each.kind, std::move(each.streams));
  }
  for (fresh_pipeline& each : taken.change.fresh) {
    serve(std::move(each), taken.change.reload);
  }
  for (const changed_numbers& each : taken.change.numbers) {
    tuning_.adopt(*served_.find(each.pipeline), each.values);
  }
  std::vector<const plan*> wanted;
  for (const std::uint32_t id : taken.change.order) {
    wanted.push_back(served_.find(id));
  }
  for (const plan*& each : served_.by_id) {
    if (const plan* const removed = each;
        removed != nullptr && std::find(wanted.begin(), wanted.end(), removed) == wanted.end()) {
      const std::string why = "pipeline '" + each->declaration.name + "' was removed by " + taken.change.reload;
      served_.remove(each->id, why);
      retire(*removed, why);
    }
  }
  served_.in_order = std::move(wanted);
  served_.refused = taken.change.wanted.refused;
  const settings& applied = taken.change.wanted;
  settings_.clients = applied.clients;
  settings_.daemon.drain_timeout = applied.daemon.drain_timeout;
  settings_.stream_pool.hang_timeout = applied.stream_pool.hang_timeout;
  recorder_.set_rate(applied.timing.batches_per_second);
  sessions_.set_idle_timeout(applied.sessions.idle_timeout);
  reply_sender_.adopt(applied.clients);
  subscriptions_.set_most(applied.clients.max_subscriptions);
  subscriptions_.sweep();
  configuration_ = taken.change.configuration;
  registry_.adopt(applied.clients, std::move(taken.welcomes), std::chrono::steady_clock::now());
  return true;
}

void shard::serve(fresh_pipeline fresh, const std::string& reload) {
  plan& made = *adopted_.emplace_back(std::move(fresh.compiled));
  made.place = next_place_++;
  states_.add(std::move(fresh.states));
  stream_pool_.set_inline_steps(made.place, fresh.inline_steps);
  pages_.add(made);
  recorder_.add(made.id);
  tracker_.add(made);
  scheduler_.add(made);
  tuning_.add(made);
  if (const plan* const before = served_.find(made.id)) {
    retire(*before, "pipeline '" + made.declaration.name + "' was changed by " + reload);
  }
  served_.put(made);
}

void shard::retire(const plan& replaced, const std::string& why) {
  sessions_.close_all(replaced, why);
  retiring_.push_back(&replaced);
}

shard::leftovers shard::take_leftovers() {
  leftovers made;
  std::erase_if(retiring_, [&](const plan* each) {
    if (!scheduler_.done_with(*each) || tracker_.open_of(*each) != 0 || sessions_.refers_to(*each)) {
      return false;
    }
    scheduler_.remove(*each);
    tuning_.remove(*each);
    fresh_pipeline& done = made.done.emplace_back();
    done.states = states_.take(each->place);
    const auto own = std::find_if(adopted_.begin(), adopted_.end(), [&](const auto& one) { return one.get() == each; });
    if (own != adopted_.end()) {
      done.compiled = std::move(*own);
      adopted_.erase(own);
    } else {
      done.compiled =
          std::make_unique<plan>(std::move(first_plans_[static_cast<std::size_t>(each - first_plans_.data())]));
    }
    return true;
  });
  made.in_use = retiring_.size();
  return made;
}

shard::numbers_outcome shard::set_numbers(const std::string& pipeline, std::span<const wire::number_setting> wanted,
                                          bool everywhere) {
  const auto found = std::find_if(served_.in_order.begin(), served_.in_order.end(),
                                  [&](const plan* each) { return each->declaration.name == pipeline; });
  if (found == served_.in_order.end()) {
    return {.refused = "there is no pipeline '" + pipeline + "'"};
  }
  if (!wanted.empty()) {
    if (tuning_verdict judged = tuning_.set(**found, wanted, everywhere); !judged.accepted()) {
      return {.refused = std::string(wire::name_of(judged.code)) + ": " + judged.reason};
    }
  }
  return {.values = tuning_.report(**found).values};
}

timeline_page shard::trace(std::uint64_t cursor) {
  return pages_.write(recorder_.batches(), cursor, clock::now());
}

shard_pulse shard::pulse() const {
  shard_pulse made{.standing_still = scheduler_.standing_still(clock::now()),
                   .results = counters_.requests.results,
                   .in_flight = counters_.requests.in_flight,
                   .pipelines = served_.in_order.size()};
  clients_.for_each([&](const client_record& each) { made.clients += each.gone ? 0 : 1; });
  return made;
}

shard_report shard::report() {
  const time_point now = clock::now();
  const fault sick = device_.health();
  shard_report made{.server = std::string("penstockd ") + version,
                    .instance = instance_,
                    .state = state_ == state::serving ? "ready" : "draining",
                    .uptime = now - started_,
                    .configuration = configuration_,
                    .facts = device_.facts(),
                    .memory = device_.in_use(),
                    .device_error = scheduler_.lost() ? scheduler_.lost()->error
                                    : sick            ? sick.name
                                                      : "",
                    .suspects = scheduler_.lost() ? suspects_text(*scheduler_.lost(), served_) : "",
                    .shard = number_,
                    .admin = directory_ != nullptr ? directory_->admin() : std::vector<std::string>{},
                    .counters = counters_,
                    .pipelines = {},
                    .refused = served_.refused,
                    .clients = {},
                    .credit_requests = settings_.clients.credit_requests,
                    .credit_bytes = settings_.clients.credit_bytes,
                    .sessions = sessions_.size(),
                    .max_sessions = sessions_.places(),
                    .short_of_clients = registry_.short_of_clients(),
                    .short_of_sessions = registry_.short_of_sessions(),
                    .slots = ring_.size(),
                    .free_slots = ring_.free(),
                    .batches_in_flight = stream_pool_.in_flight(),
                    .batches_done = scheduler_.batches_done(),
                    .since_completion = now - std::max(started_, scheduler_.last_done()),
                    .standing_still = scheduler_.standing_still(now),
                    .streams = recorder_.streams(),
                    .handshakes = socket_.handshakes(),
                    .shared_memory = shm_server_ != nullptr ? shm_server_->in_use() : shared_memory_use{},
                    .copied = stream_pool_.copied(),
                    .subscriptions = subscriptions_.figures(),
                    .peer_memory = memory_.used(),
                    .peer_memory_limit = memory_.limit()};
  for (const plan* const each : served_.in_order) {
    made.pipelines.push_back({each->declaration.name, tracker_.by_pipeline()[each->id], recorder_.timing()[each->id]});
  }
  if (sources_ != nullptr) {
    made.sources = sources_->read(number_);
  }
  if (sinks_ != nullptr && number_ == 0) {
    made.sinks = sinks_->read();
  }
  clients_.for_each([&](const client_record& each) {
    if (!each.gone) {
      made.clients.push_back({.name = each.name,
                              .place = each.index,
                              .requests = each.requests,
                              .bytes = each.bytes,
                              .results = each.results,
                              .dropped = reply_sender_.dropped(each),
                              .subscriptions = each.subscriptions,
                              .published = subscriptions_.of(each).published,
                              .lost = subscriptions_.of(each).dropped,
                              .is_source = each.within_process});
    }
  });
  return made;
}

}  // namespace penstock
