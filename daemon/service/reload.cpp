#include "daemon/service/reload.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "daemon/batch/slot_ring.hpp"
#include "daemon/service/code_proof.hpp"

namespace penstock {

/// What the thread shares with its reader, and keeps when that is gone.
struct configuration_reader::reading {
  std::atomic<bool> finished{false};
  std::mutex mutex;
  configuration_reader* reader = nullptr;  // nullptr once it is gone
};

configuration_reader::configuration_reader(boost::asio::io_context& admin, std::function<read_configuration()> read,
                                           std::chrono::seconds patience)
    : admin_(admin), read_(std::move(read)), patience_(patience), too_late_(admin) {}

configuration_reader::~configuration_reader() {
  if (reading_ != nullptr) {
    const std::lock_guard lock(reading_->mutex);
    reading_->reader = nullptr;
  }
}

bool configuration_reader::is_reading() const noexcept {
  return reading_ != nullptr && !reading_->finished.load();
}

void configuration_reader::read(callback done) {
  done_ = std::move(done);
  if (is_reading()) {
    boost::asio::post(admin_, [this, held = reading_] {
      finish(held, {.error = "the files of an earlier reload are still being read: a file system does not answer"});
    });
    return;
  }
  reading_ = std::make_shared<reading>();
  reading_->reader = this;
  too_late_.expires_after(patience_);
  too_late_.async_wait([this, reading = reading_](const boost::system::error_code& error) {
    if (!error) {
      finish(reading, {.error = fmt::format("the files were not read within {} s: a file system does not answer",
                                            patience_.count())});
    }
  });
  const auto work = [reading = reading_, read = read_] {
    ::pthread_setname_np(::pthread_self(), "reload files");
    sigset_t all;  // signals are the admin's
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    try {
      const auto found = std::make_shared<read_configuration>(read());
      reading->finished.store(true);
      const std::lock_guard lock(reading->mutex);
      if (reading->reader != nullptr) {
        boost::asio::post(reading->reader->admin_, [reading, found] {
          if (reading->reader != nullptr) {
            reading->reader->finish(reading, std::move(*found));
          }
        });
      }
    } catch (...) {  // no memory even to say so: the reload is refused when its time is over
      reading->finished.store(true);
    }
  };
  try {
    std::thread(work).detach();
  } catch (const std::system_error& error) {
    reading_->finished.store(true);
    boost::asio::post(admin_, [this, reading = reading_, why = std::string(error.what())] {
      finish(reading, {.error = "no thread to read the files: " + why});
    });
  }
}

// What comes when nobody waits for it any more is too late.
void configuration_reader::finish(const std::shared_ptr<reading>& current, read_configuration found) {
  if (current != reading_ || !done_) {
    return;
  }
  too_late_.cancel();
  std::exchange(done_, nullptr)(std::move(found));
}

namespace {

// Longer than a shard may be busy with one turn; one that hangs takes no other configuration.
constexpr std::chrono::seconds patience{5};
constexpr std::chrono::milliseconds between_sweeps{500};
constexpr std::chrono::seconds to_read_files{10};

std::map<std::string, std::uint32_t> numbers_of(const settings& settings) {
  std::map<std::string, std::uint32_t> made;
  for (const pipeline_declaration& each : settings.pipelines) {
    made.emplace(each.name, static_cast<std::uint32_t>(made.size()));
  }
  return made;
}

// Runs on a thread that may outlive the daemon's other objects: all is its own.
read_configuration read_files(const std::function<settings()>& read, const settings& started, bool with_keys) {
  read_configuration made;
  try {
    made.wanted = read();
    if (const std::vector<std::string> fixed = needs_restart(started, made.wanted); !fixed.empty()) {
      made.error = fmt::format("only a restart can change {}", fmt::join(fixed, ", "));
    } else if (with_keys) {
      made.keys = authorized_keys::read(made.wanted.security.authorized_keys_file);
    }
  } catch (const std::exception& error) {
    made.error = error.what();
  }
  return made;
}

std::set<stream_class> classes_of(const settings& settings) {
  std::set<stream_class> all;
  for (const pipeline_declaration& each : settings.pipelines) {
    all.insert(streams_of(each));
  }
  return all;
}

}  // namespace

std::string fault_of_commit(const std::vector<std::optional<bool>>& taken, std::chrono::seconds patience) {
  for (std::size_t shard = 0; shard < taken.size(); ++shard) {
    if (!taken[shard]) {
      return fmt::format("shard {} did not say within {} s that it took it, and takes it when it goes on", shard,
                         patience.count());
    }
    if (!*taken[shard]) {
      return fmt::format("shard {} did not take it: restart the daemon", shard);
    }
  }
  return "";
}

live_configuration::live_configuration(boost::asio::io_context& admin, std::deque<shard_thread>& shards,
                                       std::vector<device*> devices, keyring* keys, settings running,
                                       std::function<settings()> read)
    : admin_(admin),
      shards_(shards),
      devices_(std::move(devices)),
      keys_(keys),
      running_(std::move(running)),
      started_(running_),
      now_{1, configuration_hash(running_)},
      numbers_(numbers_of(running_)),
      reader_(
          admin,
          [read = std::move(read), started = started_, with_keys = keys != nullptr] {
            return read_files(read, started, with_keys);
          },
          to_read_files),
      shard_query_(admin, shards),
      sweep_at_(admin) {
  classes_.merge(classes_of(running_));
  boost::asio::post(worker_, [] { ::pthread_setname_np(::pthread_self(), "reloads"); });
}

live_configuration::~live_configuration() {
  worker_.join();
}

void live_configuration::reload(callback done) {
  next_.push_back(std::move(done));
  if (current_.empty()) {
    begin();
  }
}

void live_configuration::ask(std::function<void()> call) {
  boost::asio::post(worker_, std::move(call));
}

void live_configuration::begin() {
  current_ = std::exchange(next_, {});
  const auto made = std::make_shared<proposal>();
  made->attempt = ++attempts_;
  reader_.read([this, made](read_configuration found) {
    if (!found.error.empty()) {
      finish(made, found.error);
      return;
    }
    made->wanted = std::move(found.wanted);
    made->keys = std::move(found.keys);
    boost::asio::post(worker_, [this, made] {
      make(*made);
      boost::asio::post(admin_, [this, made] { propose(made); });
    });
  });
}

void live_configuration::make(proposal& proposed) const {
  try {
    proposed.same = configuration_hash(proposed.wanted) == now_.hash;
    if (proposed.same) {
      return;
    }
    proposed.name = fmt::format("the reload of {:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
    proposed.numbers = numbers_;
    for (const pipeline_declaration& each : proposed.wanted.pipelines) {
      proposed.numbers.emplace(each.name, static_cast<std::uint32_t>(proposed.numbers.size()));
    }
    std::vector<const pipeline_declaration*> changed;
    for (const pipeline_declaration& each : proposed.wanted.pipelines) {
      if (!changed_numbers(each)) {
        changed.push_back(&each);
      }
    }
    const std::vector<const device*> devices(devices_.begin(), devices_.end());
    const compile_options code = prepare_and_prove(proposed.wanted.code, changed, devices).options;
    for (std::size_t shard = 0; shard < devices_.size(); ++shard) {
      add_shard(proposed, shard, code);
    }
  } catch (const std::exception& error) {
    proposed.error = error.what();
    proposed.changes.clear();
    if (std::none_of(devices_.begin(), devices_.end(), [](device* each) { return bool(each->health()); })) {
      try_pipeline(nullptr);
    }
  }
}

std::optional<std::vector<wire::number_setting>> live_configuration::changed_numbers(
    const pipeline_declaration& wanted) const {
  const auto before = std::find_if(running_.pipelines.begin(), running_.pipelines.end(),
                                   [&](const pipeline_declaration& one) { return one.name == wanted.name; });
  return before == running_.pipelines.end() ? std::nullopt : tuned_changes(*before, wanted);
}

void live_configuration::try_pipeline(const pipeline_declaration* tried) const {
  const std::lock_guard lock(tried_mutex_);
  tried_.reset();
  if (tried != nullptr) {
    tried_.emplace(trial{*tried, std::chrono::steady_clock::now()});
  }
}

std::optional<live_configuration::trial> live_configuration::tried() const {
  const std::lock_guard lock(tried_mutex_);
  return tried_;
}

void live_configuration::add_shard(proposal& proposed, std::size_t shard, const compile_options& code) const {
  device& device = *devices_[shard];
  shard_change& change = proposed.changes.emplace_back();
  change.attempt = proposed.attempt;
  change.configuration = {now_.version + 1, configuration_hash(proposed.wanted)};
  change.reload = proposed.name;
  change.wanted = proposed.wanted;
  for (const pipeline_declaration& each : proposed.wanted.pipelines) {
    const std::uint32_t number = proposed.numbers.at(each.name);
    change.order.push_back(number);
    if (std::optional<std::vector<wire::number_setting>> numbers = changed_numbers(each)) {
      if (!numbers->empty()) {
        change.numbers.push_back({number, *std::move(numbers)});
      }
    } else {
      const auto begin = std::chrono::steady_clock::now();
      try_pipeline(&each);
      change.fresh.push_back(make_fresh(each, number, device, proposed.wanted, code));
      try_pipeline(nullptr);
      if (const auto time = std::chrono::steady_clock::now() - begin; time > long_step) {
        spdlog::info("reload: pipeline '{}' took {:.1f} s to make ready for shard {}", each.name,
                     std::chrono::duration<double>(time).count(), shard);
      }
      const slot_size needed = size_for(std::span<const plan>(change.fresh.back().compiled.get(), 1));
      if (const std::string lack = lack_of(shards_[shard].slot_bytes(), needed); !lack.empty()) {
        throw configuration_error("pipeline '" + each.name +
                                  "' does not fit into the slots that were allocated at start-up (" + lack +
                                  "): restart the daemon");
      }
    }
  }
  for (const stream_class& each : classes_of(proposed.wanted)) {
    if (!classes_.contains(each)) {
      change.streams.push_back({each, open_streams(device, each, proposed.wanted.stream_pool.streams)});
    }
  }
}

void live_configuration::propose(const shared_proposal& proposed) {
  if (!proposed->error.empty() || proposed->same) {
    finish(proposed, proposed->error);
    return;
  }
  shard_query_.ask<std::string>(
      patience,
      [proposed](shard& shard) {
        return proposed->abandoned.load() ? std::string("too late") : shard.prepare(proposed->changes[shard.number()]);
      },
      [this, proposed](const std::vector<std::optional<std::string>>& objections) { decide(proposed, objections); });
}

void live_configuration::decide(const shared_proposal& proposed,
                                const std::vector<std::optional<std::string>>& objections) {
  proposed->abandoned.store(true);
  std::string error;
  for (std::size_t shard = 0; shard < objections.size(); ++shard) {
    if (!objections[shard]) {
      error = fmt::format("shard {} did not answer within {} s", shard, patience.count());
    } else if (!objections[shard]->empty()) {
      error = *objections[shard];
    }
  }
  if (!error.empty()) {
    take_back(proposed, error);
    return;
  }
  shard_query_.ask<bool>(
      patience, [attempt = proposed->attempt](shard& shard) { return shard.commit(attempt); },
      [this, proposed](const std::vector<std::optional<bool>>& taken) {
        finish(proposed, "", fault_of_commit(taken, patience));
      });
}

// What a shard had already taken comes back, so that it is destroyed where that holds nobody up.
void live_configuration::take_back(const shared_proposal& proposed, const std::string& error) {
  using dropped = std::optional<shard_change>;
  shard_query_.ask<dropped>(
      patience, [attempt = proposed->attempt](shard& shard) { return shard.drop_change(attempt); },
      [this, proposed, error](std::vector<std::optional<dropped>> back) {
        boost::asio::post(worker_, [proposed, back = std::move(back)]() mutable { back.clear(); });
        finish(proposed, error);
      });
}

void live_configuration::finish(const shared_proposal& proposed, const std::string& error, const std::string& delay) {
  const bool changed = error.empty() && !proposed->same;
  if (error.empty() && proposed->keys) {
    keys_->authorize(std::move(*proposed->keys));
  }
  if (changed) {
    adopt(*proposed);
    if (delay.empty()) {
      spdlog::info("configuration reloaded: version {}, hash {}", now_.version, now_.hash);
    } else {
      spdlog::error("configuration version {}, hash {}, is not served everywhere: {}", now_.version, now_.hash, delay);
    }
    sweep_later();
  } else if (error.empty()) {
    spdlog::info("configuration unchanged: version {}, hash {}", now_.version, now_.hash);
  } else {
    spdlog::error("reload refused: {}; version {} is served on", error, now_.version);
  }
  boost::asio::post(worker_, [proposed] { proposed->changes.clear(); });
  const std::vector<callback> done = std::exchange(current_, {});
  const reload_outcome outcome{
      .changed = changed, .version = now_.version, .hash = now_.hash, .error = error.empty() ? delay : error};
  for (const callback& each : done) {
    each(outcome);
  }
  if (current_.empty() && !next_.empty()) {
    begin();
  }
}

void live_configuration::adopt(proposal& proposed) {
  running_ = std::move(proposed.wanted);
  numbers_ = std::move(proposed.numbers);
  classes_.merge(classes_of(running_));
  now_ = {now_.version + 1, configuration_hash(running_)};
  spdlog::set_level(spdlog::level::from_str(running_.daemon.log_level));
}

// What was replaced is out of use a little later. A device may let whoever frees its memory wait: not a shard.
// Reloads in a row do not put it off: each leaves something.
void live_configuration::sweep_later() {
  if (std::exchange(sweep_is_due_, true)) {
    return;
  }
  sweep_at_.expires_after(between_sweeps);
  sweep_at_.async_wait([this](const boost::system::error_code& error) {
    sweep_is_due_ = false;
    if (!error) {
      sweep();
    }
  });
}

void live_configuration::sweep() {
  shard_query_.ask<shard::leftovers>(
      patience, [](shard& shard) { return shard.take_leftovers(); },
      [this](std::vector<std::optional<shard::leftovers>> found) {
        const auto all = std::make_shared<std::vector<std::optional<shard::leftovers>>>(std::move(found));
        const bool more =
            std::any_of(all->begin(), all->end(), [](const auto& each) { return !each || each->in_use != 0; });
        boost::asio::post(worker_, [all] { all->clear(); });
        if (more) {
          sweep_later();
        }
      });
}

}  // namespace penstock
