#include "daemon/service/service.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <future>
#include <new>
#include <string_view>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/process_limits.hpp"
#include "daemon/config/client_memory.hpp"
#include "daemon/live/reader.hpp"
#include "daemon/live/writer.hpp"
#include "daemon/net/message_memory.hpp"
#include "daemon/net/router_socket.hpp"
#include "daemon/pipeline/check.hpp"
#include "daemon/service/code_proof.hpp"
#include "daemon/service/process.hpp"
#include "penstock_version.hpp"

namespace penstock {
namespace {

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    all += (all.empty() ? "" : ", ") + text;
  }
  return all;
}

exit_code code_of(shard_ending ending) noexcept {
  switch (ending) {
    case shard_ending::drained:
      return exit_code::ok;
    case shard_ending::cut_short:
      return exit_code::drain_cut_short;
    case shard_ending::out_of_memory:
      return exit_code::out_of_memory;
    case shard_ending::device_lost:
      return exit_code::device_lost;
  }
  return exit_code::internal;
}

// After a lost device or a cut drain the device may hold memory and threads for ever: waiting for it, as the
// destructors would, is what must not happen. Every reply has gone out by now.
[[noreturn]] void leave_at_once(exit_code code) {
  spdlog::info("stopped with exit code {}", static_cast<int>(code));
  spdlog::shutdown();
  std::_Exit(static_cast<int>(code));
}

std::string_view text_of(completion_mode mode) noexcept {
  switch (mode) {
    case completion_mode::callback:
      return "callback";
    case completion_mode::poll:
      return "polling";
    case completion_mode::automatic:
      return "whichever is quicker";
  }
  return "";
}

// While the daemon starts: how often people and the service manager are told, how long each sign is good for, and how
// long a step may take before it is left to the unit's timeout.
constexpr std::chrono::seconds between_signs{1};
constexpr std::chrono::seconds start_extension{30};
constexpr std::chrono::minutes longest_step{10};
// A pipeline's first run takes its time on a machine that is busy.
constexpr std::chrono::seconds shortest_first_run{5};
// A pipeline that had batches done works once the daemon has served on for so long.
constexpr std::chrono::minutes good_time{1};

// How long sources may take to hand over what they have, when the daemon stops; and how often it looks.
constexpr std::chrono::seconds sources_farewell{1};
constexpr std::chrono::milliseconds between_looks_at_sources{5};

// Beyond drain_timeout, for replies to go out.
constexpr auto reply_grace = std::chrono::seconds{6};

// Rethrows what it failed with, but for a want of memory.
shard_ending ending_of(const shard_thread& ended) {
  try {
    return ended.ending();
  } catch (const std::bad_alloc&) {
    return shard_ending::out_of_memory;
  }
}

// How much worse than a drain an ending is.
int severity(shard_ending ending) noexcept {
  return static_cast<int>(ending);
}

}  // namespace

service::service(settings configuration, std::function<settings()> read)
    : settings_(std::move(configuration)), read_([read = std::move(read), quarantine = quarantine_] {
        settings wanted = read();
        quarantine->apply(wanted);
        return wanted;
      }) {
  quarantine_->apply(settings_);
}

// Who keeps the arenas asks the shards as long as its thread runs, and has memory of theirs as long as they live.
service::~service() {
  if (shm_server_) {
    shm_server_->stop();
  }
}

void service::start_shards() {
  if (settings_.security.encrypts()) {
    keys_.emplace(settings_.security.secret_key_file, settings_.security.authorized_keys_file);
    spdlog::info("connections are encrypted; {} keys are authorised by {}", keys_->authorized()->size(),
                 settings_.security.authorized_keys_file.string());
  }
  devices_ = open_devices(settings_.device);
  for (const opened_device& each : devices_) {
    spdlog::info("device: {}", each.reason);
  }
  const std::size_t count = devices_.size() * static_cast<std::size_t>(settings_.device.shards);
  const machine_share share = read_machine_share();
  const client_memory held = memory_of_clients(settings_, count, share.memory_bytes);
  check_memory_limit(settings_, held.limit);
  memory_.emplace(held.limit);
  spdlog::info("memory: {}", text_of(held));
  std::vector<std::vector<std::string>> listen = endpoints_of_all(settings_.daemon.listen, count);
  std::vector<device*> devices;
  const compile_options code = compile();
  fitted_ = fitted(settings_, count, share.processors);
  for (std::size_t number = 0; number < count; ++number) {
    settings own = fitted_;
    own.daemon.listen = std::move(listen[number]);
    // Neighbours in number are on different devices, so that clients that come one after the other are too.
    device& device = *devices_[number % devices_.size()].device;
    devices.push_back(&device);
    shards_.emplace_back(
        static_cast<std::uint32_t>(number), std::move(own), device, *memory_, keys_ ? &*keys_ : nullptr, progress_,
        [this] { boost::asio::post(admin_, [this] { note_ending(); }); }, code);
  }
  std::vector<std::vector<std::string>> endpoints;
  for (shard_thread& each : shards_) {
    wait_for(each);
    endpoints.push_back(each.wait_until_made());
  }
  directory_.emplace(std::move(endpoints));
  if (settings_.shared_memory.max_bytes != 0) {
    registry_.emplace(shards_, devices);
    shm_server_.emplace(settings_.shared_memory, settings_.security, *registry_, *memory_);
  }
  for (const pipeline_declaration& each : settings_.pipelines) {
    for (const std::string& doubt : doubts_about(each)) {
      spdlog::warn("{}", doubt);
    }
  }
  configuration_.emplace(admin_, shards_, std::move(devices), keys_ ? &*keys_ : nullptr, settings_, read_);
  for (shard_thread& each : shards_) {
    each.join_directory(*directory_, shm_server_ ? &*shm_server_ : nullptr, configuration_->now(), &sources_board_,
                        &sinks_board_);
  }
}

// Users' code, once for all shards.
compile_options service::compile() {
  std::vector<const device*> devices;
  for (const opened_device& each : devices_) {
    devices.push_back(each.device.get());
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto time = [begin] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin); };
  std::future<prepared_code> made =
      std::async(std::launch::async, [&] { return prepare_and_prove(settings_, devices); });
  while (made.wait_for(between_signs) != std::future_status::ready) {
    end_if_told();
    manager_.status(fmt::format("starting: users' code is compiled and proven, for {:.0f} s", time().count()));
    if (time() < longest_step) {
      manager_.extend_timeout(start_extension);
    }
  }
  prepared_code code = made.get();
  if (!code.complaint.empty()) {
    spdlog::warn("users' code is compiled at every start: its cache is not used: {}", code.complaint);
  }
  if (code.kernels != 0 || code.proven != 0) {
    const std::string cache = code.options.compiler.cache.string();
    spdlog::info("users' code: {} {} after {:.2f} s, {} of the stages run on made-up frames, cache {}", code.kernels,
                 code.kernels == 1 ? "kernel is ready" : "kernels are ready", time().count(), code.proven,
                 cache.empty() ? "none" : cache);
    if (quarantine::default_folder().empty()) {
      spdlog::info("users' code: deaths with it are not counted, as there is no STATE_DIRECTORY or RUNTIME_DIRECTORY");
    }
  }
  return std::move(code.options);
}

// What a start waits for may never end: a stage's first run, a process under a debugger. Nobody is served yet, and the
// processes that it has started end with it.
void service::end_if_told() {
  if (is_told_to_end()) {
    spdlog::info("told to end during the start");
    manager_.stopping();
    leave_at_once(exit_code::ok);
  }
}

// A kernel that never ends can't be stopped but by ending the process.
void service::blame_first_run(const std::string& step) {
  const auto found = std::find_if(settings_.pipelines.begin(), settings_.pipelines.end(), [&](const auto& each) {
    return !users_stages(each).empty() && step.ends_with(first_run_text(each.name));
  });
  if (found != settings_.pipelines.end()) {
    spdlog::error("{} and does not end: {} of it is users' code; the daemon exits to be restarted", step,
                  users_stages(*found));
    quarantine_->blame(settings_.pipelines, std::array{found->name}, "its first run does not end");
    leave_at_once(exit_code::device_lost);
  }
}

// The service manager's patience is for a start that does nothing.
void service::wait_for(shard_thread& shard) {
  while (!shard.is_made_within(between_signs)) {
    end_if_told();
    const std::optional<start_progress::longest> now = progress_.slowest();
    if (!now) {
      continue;
    }
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now->time);
    manager_.status(fmt::format("starting: {}, for {} s", now->text, seconds.count()));
    if (now->time > std::max<std::chrono::nanoseconds>(settings_.stream_pool.hang_timeout, shortest_first_run)) {
      blame_first_run(now->text);
    }
    if (now->time < longest_step) {
      manager_.extend_timeout(start_extension);
    }
    if (now->text != slow_step_ && now->time > between_signs) {
      slow_step_ = now->text;
      spdlog::info("starting takes a while: {}", now->text);
    }
  }
}

void service::watch_signals() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) {
      return;
    }
    if (number == SIGHUP) {
      spdlog::info("SIGHUP received: the configuration is read again");
      reload([](const reload_outcome&) {});
    } else {
      spdlog::info("{} received", number == SIGTERM ? "SIGTERM" : "SIGINT");
      stop_all();
    }
    watch_signals();
  });
}

void service::reload(live_configuration::callback done) {
  if (stopping_) {
    done({.version = configuration_->now().version,
          .hash = configuration_->now().hash,
          .error = "the daemon is stopping"});
    return;
  }
  manager_.reloading();
  watch_reload();
  configuration_->reload([this, done = std::move(done)](const reload_outcome& made) {
    if (!stopping_) {
      manager_.ready();
    }
    if (made.changed) {
      settings_ = configuration_->running();
      endpoint_->adopt(settings_);
      heartbeat_->adopt(settings_);
      sinks_->adopt(settings_.sinks);
      sources_->adopt(settings_.sources);
    }
    endpoint_->count_reload(made);
    done(made);
  });
}

void service::stop_all() {
  if (!stopping_) {
    manager_.stopping();
    heartbeat_->drain();
    endpoint_->drain();
  }
  const bool first = !std::exchange(stopping_, true);
  if (first && sources_ && !sources_->are_over()) {
    sources_->stop();
    stop_shards_behind_sources(std::chrono::steady_clock::now() + sources_farewell);
    return;
  }
  next_look_at_sources_.cancel();
  stop_shards();
}

void service::stop_shards() {
  for (shard_thread& each : shards_) {
    each.stop();
  }
}

// What sources still have goes to the shards before they take nothing more.
void service::stop_shards_behind_sources(std::chrono::steady_clock::time_point end) {
  next_look_at_sources_.expires_after(between_looks_at_sources);
  next_look_at_sources_.async_wait([this, end](const boost::system::error_code& error) {
    if (error) {
      return;
    }
    if (sources_->are_over() || std::chrono::steady_clock::now() >= end) {
      stop_shards();
    } else {
      stop_shards_behind_sources(end);
    }
  });
}

void service::start_sources() {
  std::vector<live::shard_endpoint> endpoints;
  for (std::size_t number = 0; number < shards_.size(); ++number) {
    endpoints.push_back(
        {static_cast<std::uint32_t>(number), shards_[number].inner_context(), router_socket::inner_endpoint});
  }
  sinks_.emplace(endpoints, sinks_board_, gates_, live::make_writer);
  sinks_->adopt(settings_.sinks);
  sources_.emplace(std::move(endpoints), sources_board_, gates_, *memory_, live::make_reader);
  sources_->adopt(settings_.sources);
}

// A shard that ended without being told has lost its device, or failed: the daemon does not go on with a part of it.
// The others are drained, but not for ever: they may stand on the same device.
void service::note_ending() {
  for (const shard_thread& each : shards_) {
    note_loss(each);
  }
  if (!stopping_) {
    stop_all();
    patience_.expires_after(settings_.daemon.drain_timeout + reply_grace);
    patience_.async_wait([](const boost::system::error_code& error) {
      if (!error) {
        spdlog::error("the other shards do not end");
        leave_at_once(exit_code::device_lost);
      }
    });
  }
  if (std::all_of(shards_.begin(), shards_.end(), [](const shard_thread& each) { return each.has_ended(); })) {
    endpoint_->stop([this] { admin_.stop(); });
  }
}

void service::note_loss(const shard_thread& ended) {
  if (!ended.lost_its_device()) {
    return;
  }
  const device_loss loss = ended.loss();
  quarantine_->blame(settings_.pipelines, loss.suspects, loss.error);
  if (configuration_) {
    if (const std::optional<live_configuration::trial> tried = configuration_->tried()) {
      quarantine_->blame({tried->pipeline}, std::array{tried->pipeline.name}, loss.error);
    }
  }
}

// The thread of reloads waits for the device then: nothing but the end of the process frees it.
void service::watch_reload() {
  next_look_at_reload_.expires_after(between_signs);
  next_look_at_reload_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopping_ || !configuration_->is_reloading()) {
      return;
    }
    const std::optional<live_configuration::trial> tried = configuration_->tried();
    const auto patience = std::max<std::chrono::nanoseconds>(settings_.stream_pool.hang_timeout, shortest_first_run);
    if (!tried || users_stages(tried->pipeline).empty() || std::chrono::steady_clock::now() - tried->since < patience) {
      watch_reload();
      return;
    }
    const std::string& name = tried->pipeline.name;
    spdlog::error("reload: {} and does not end: {} of it is users' code; the daemon drains and exits to be restarted",
                  first_run_text(name), users_stages(tried->pipeline));
    quarantine_->blame({tried->pipeline}, std::array{name}, "its first run does not end");
    hung_ = true;
    note_ending();
  });
}

void service::acquit_later() {
  next_acquittal_.expires_after(good_time);
  next_acquittal_.async_wait([this](const boost::system::error_code& error) {
    if (error) {
      return;
    }
    acquit_later();
    if (!quarantine_->has_suspects()) {
      return;
    }
    // Those that have had a batch done by now, a minute later.
    quarantine_->acquit(worked_);
    shard_query_.ask<std::vector<std::string>>(
        std::chrono::seconds(5),
        [](shard& shard) {
          std::vector<std::string> names;
          for (const pipeline_report& each : shard.report().pipelines) {
            if (each.counters.requests.results != 0) {
              names.push_back(each.name);
            }
          }
          return names;
        },
        [this](const std::vector<std::optional<std::vector<std::string>>>& answers) {
          worked_.clear();
          for (const auto& each : answers) {
            if (each) {
              worked_.insert(worked_.end(), each->begin(), each->end());
            }
          }
        });
  });
}

exit_code service::outcome() const {
  if (std::any_of(shards_.begin(), shards_.end(), [](const shard_thread& each) { return each.lost_its_device(); })) {
    leave_at_once(exit_code::device_lost);
  }
  if (without_memory_) {
    leave_at_once(exit_code::out_of_memory);
  }
  if (hung_) {
    leave_at_once(exit_code::device_lost);
  }
  shard_ending worst = shard_ending::drained;
  for (const shard_thread& each : shards_) {
    worst = std::max(worst, ending_of(each),
                     [](shard_ending left, shard_ending right) { return severity(left) < severity(right); });
  }
  if (worst != shard_ending::drained) {
    leave_at_once(code_of(worst));
  }
  return exit_code::ok;
}

// On this thread: malloc holds a heap's lock while it gives back what the heap does not use.
void service::look_after_memory() {
  next_look_at_memory_.expires_after(message_memory_looks);
  next_look_at_memory_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      return_unused_memory();
      look_after_memory();
    }
  });
}

void service::serve() {
  watch_signals();
  std::vector<std::string> all;
  for (const std::vector<std::string>& each : directory_->endpoints()) {
    all.insert(all.end(), each.begin(), each.end());
  }
  endpoint_->start();
  directory_->set_admin(endpoint_->addresses());
  const std::string admin = joined(endpoint_->addresses());
  spdlog::info(
      "ready: {} {} on {}, {} {}, {} slots, {} streams and {} I/O {} each, completion by {}, "
      "admin on {}",
      settings_.pipelines.size(), settings_.pipelines.size() == 1 ? "pipeline" : "pipelines", joined(all),
      shards_.size(), shards_.size() == 1 ? "shard" : "shards", settings_.stream_pool.slots,
      settings_.stream_pool.streams, fitted_.daemon.io_threads, fitted_.daemon.io_threads == 1 ? "thread" : "threads",
      text_of(fitted_.stream_pool.completion), admin.empty() ? "no address" : admin);
  if (shm_server_) {
    shm_server_->start();
  }
  let_allocations_throw();
  for (shard_thread& each : shards_) {
    each.serve();
  }
  start_sources();
  manager_.ready();
  connections_.emplace(admin_);
  probe_threads();
  heartbeat_.emplace(admin_, shards_, manager_, settings_, [this] { return probe_->complaint(self_probe::dead); });
  look_after_memory();
  acquit_later();
  auto work = boost::asio::make_work_guard(admin_);
  unblock_served_signals();
  while (!run_admin()) {
    drain_without_memory();
  }
}

void service::probe_threads() {
  probe_.emplace(admin_, shards_, keys_ ? &*keys_ : nullptr);
  const auto& endpoints = directory_->endpoints();
  for (std::size_t number = 0; number < shards_.size(); ++number) {
    shard_thread& each = shards_[number];
    probe_->add_shard(static_cast<std::uint32_t>(number), endpoints[number], fitted_.daemon.io_threads);
    probe_->add_rounds(
        "the ZAP handler of shard " + std::to_string(number), [&each] { return each.zap_rounds(); },
        [&each] { return each.has_ended(); });
  }
  if (shm_server_) {
    probe_->add_thread("the thread of shared memory", [this](auto done) { shm_server_->ask(std::move(done)); });
  }
  probe_->add_thread(
      "the thread of reloads", [this](auto done) { configuration_->ask(std::move(done)); },
      [this] { return configuration_->is_reloading(); });
  probe_->start();
}

// False when there was no memory for something that it did.
bool service::run_admin() {
  try {
    admin_.run();
    return true;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) {
      throw;
    }
    return false;
  }
}

// Whatever it was that failed does not come again, and could be what the end of the drain waits for.
void service::drain_without_memory() noexcept {
  if (std::exchange(without_memory_, true)) {
    end_without_memory();
  }
  spdlog::error("out of memory: the daemon stops, to be restarted");
  stop_all();
  patience_.expires_after(settings_.daemon.drain_timeout + reply_grace);
  patience_.async_wait([](const boost::system::error_code& error) {
    if (!error) {
      leave_at_once(exit_code::out_of_memory);
    }
  });
}

daemon_vitals service::vitals() {
  return {.shortage = connections_ ? connections_->shortage() : "",
          .late = probe_ ? probe_->complaint(self_probe::late) : "",
          .dead = probe_ ? probe_->complaint(self_probe::dead) : ""};
}

exit_code service::run() {
  spdlog::info("penstockd {} starts", version);
  // Before any thread starts: signals are for the admin loop, and wait for it. On another thread the handler of
  // any signal would interrupt ZeroMQ's calls, in the middle of a message too.
  block_signals();
  for (const int each : served_signals) {
    signals_.add(each);
  }
  endpoint_.emplace(
      admin_, shards_, settings_, [this](live_configuration::callback done) { reload(std::move(done)); },
      [this] { return vitals(); });
  for (const refused_pipeline& each : settings_.refused) {
    spdlog::error("not served: {}", each.reason);
  }
  try {
    start_shards();
    serve();
  } catch (const launch_error& error) {
    quarantine_->blame(settings_.pipelines, std::array{error.pipeline}, error.what());
    throw;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) {
      throw;
    }
    // Not by destroying what is there: libzmq waits for ever for a socket that it had no memory to finish.
    end_without_memory();
  }
  const exit_code code = outcome();
  probe_.reset();  // not before, for the same reason
  sources_.reset();
  sinks_.reset();
  if (shm_server_) {
    shm_server_->stop();
  }
  for (shard_thread& each : shards_) {
    each.join();
  }
  if (configuration_->is_reading()) {
    leave_at_once(code);
  }
  spdlog::info("stopped");
  return code;
}

}  // namespace penstock
