#include "daemon/admin/live_configuration.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <memory>
#include <span>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "daemon/ring/ring.hpp"
#include "daemon/settings/settings_change.hpp"

namespace penstock {
namespace {

// Longer than a shard may be busy with one turn; one that hangs takes no other configuration.
constexpr std::chrono::seconds patience{5};
constexpr std::chrono::milliseconds between_sweeps{500};
constexpr std::chrono::seconds to_read_files{10};
constexpr std::chrono::seconds long_step{1};

std::map<std::string, std::uint32_t> numbers_of(const settings& what) {
  std::map<std::string, std::uint32_t> made;
  for (const pipeline_declaration& each : what.pipelines) {
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

bool has_priority(const settings& what, stream_priority wanted) {
  return std::any_of(what.pipelines.begin(), what.pipelines.end(),
                     [&](const pipeline_declaration& each) { return each.priority == wanted; });
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
      roll_call_(admin, shards),
      sweep_at_(admin) {
  for (const pipeline_declaration& each : running_.pipelines) {
    priorities_.insert(each.priority);
  }
  boost::asio::post(workshop_, [] { ::pthread_setname_np(::pthread_self(), "reloads"); });
}

live_configuration::~live_configuration() {
  workshop_.join();
}

void live_configuration::reload(callback done) {
  next_.push_back(std::move(done));
  if (current_.empty()) {
    begin();
  }
}

void live_configuration::ask(std::function<void()> what) {
  boost::asio::post(workshop_, std::move(what));
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
    boost::asio::post(workshop_, [this, made] {
      make(*made);
      boost::asio::post(admin_, [this, made] { propose(made); });
    });
  });
}

void live_configuration::make(proposal& into) const {
  try {
    into.same = configuration_hash(into.wanted) == now_.hash;
    if (into.same) {
      return;
    }
    into.name = fmt::format("the reload of {:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
    into.numbers = numbers_;
    for (const pipeline_declaration& each : into.wanted.pipelines) {
      into.numbers.emplace(each.name, static_cast<std::uint32_t>(into.numbers.size()));
    }
    for (std::size_t shard = 0; shard < devices_.size(); ++shard) {
      add_shard(into, shard);
    }
  } catch (const std::exception& error) {
    into.error = error.what();
    into.changes.clear();
  }
}

void live_configuration::add_shard(proposal& to, std::size_t shard) const {
  device& on = *devices_[shard];
  shard_change& change = to.changes.emplace_back();
  change.attempt = to.attempt;
  change.configuration = {now_.version + 1, configuration_hash(to.wanted)};
  change.reload = to.name;
  change.how = to.wanted;
  for (const pipeline_declaration& each : to.wanted.pipelines) {
    const std::uint32_t number = to.numbers.at(each.name);
    change.order.push_back(number);
    const auto before = std::find_if(running_.pipelines.begin(), running_.pipelines.end(),
                                     [&](const pipeline_declaration& one) { return one.name == each.name; });
    if (before == running_.pipelines.end() || !same_pipeline(*before, each)) {
      const auto begin = std::chrono::steady_clock::now();
      change.fresh.push_back(make_fresh(each, number, on, to.wanted));
      if (const auto time = std::chrono::steady_clock::now() - begin; time > long_step) {
        spdlog::info("reload: pipeline '{}' took {:.1f} s to make ready for shard {}", each.name,
                     std::chrono::duration<double>(time).count(), shard);
      }
      const slot_size needed = size_for(std::span<const plan>(change.fresh.back().what.get(), 1));
      if (const std::string lack = lack_of(shards_[shard].slot_bytes(), needed); !lack.empty()) {
        throw configuration_error("pipeline '" + each.name +
                                  "' does not fit into the slots that were allocated at start-up (" + lack +
                                  "): restart the daemon");
      }
    }
  }
  for (const stream_priority each : {stream_priority::low, stream_priority::normal, stream_priority::high}) {
    if (has_priority(to.wanted, each) && !priorities_.contains(each)) {
      fresh_streams& made = change.streams.emplace_back(fresh_streams{each, {}});
      for (int stream = 0; stream < to.wanted.wheel.streams; ++stream) {
        made.streams.push_back(on.open_stream(each));
      }
    }
  }
}

void live_configuration::propose(const shared_proposal& made) {
  if (!made->error.empty() || made->same) {
    finish(made, made->error);
    return;
  }
  roll_call_.ask<std::string>(
      patience,
      [made](shard& asked) {
        return made->over.load() ? std::string("too late") : asked.prepare(made->changes[asked.number()]);
      },
      [this, made](const std::vector<std::optional<std::string>>& objections) { decide(made, objections); });
}

void live_configuration::decide(const shared_proposal& made,
                                const std::vector<std::optional<std::string>>& objections) {
  made->over.store(true);
  std::string error;
  for (std::size_t shard = 0; shard < objections.size(); ++shard) {
    if (!objections[shard]) {
      error = fmt::format("shard {} did not answer within {} s", shard, patience.count());
    } else if (!objections[shard]->empty()) {
      error = *objections[shard];
    }
  }
  if (!error.empty()) {
    take_back(made, error);
    return;
  }
  roll_call_.ask<bool>(
      patience, [attempt = made->attempt](shard& asked) { return asked.commit(attempt); },
      [this, made](const std::vector<std::optional<bool>>& taken) {
        finish(made, "", fault_of_commit(taken, patience));
      });
}

// What a shard had already taken comes back, so that it is destroyed where that holds nobody up.
void live_configuration::take_back(const shared_proposal& made, const std::string& error) {
  using dropped = std::optional<shard_change>;
  roll_call_.ask<dropped>(
      patience, [attempt = made->attempt](shard& asked) { return asked.drop_change(attempt); },
      [this, made, error](std::vector<std::optional<dropped>> back) {
        boost::asio::post(workshop_, [made, back = std::move(back)]() mutable { back.clear(); });
        finish(made, error);
      });
}

void live_configuration::finish(const shared_proposal& made, const std::string& error, const std::string& delay) {
  const bool changed = error.empty() && !made->same;
  if (error.empty() && made->keys) {
    keys_->authorize(std::move(*made->keys));
  }
  if (changed) {
    adopt(*made);
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
  boost::asio::post(workshop_, [made] { made->changes.clear(); });
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

void live_configuration::adopt(proposal& made) {
  running_ = std::move(made.wanted);
  numbers_ = std::move(made.numbers);
  for (const pipeline_declaration& each : running_.pipelines) {
    priorities_.insert(each.priority);
  }
  now_ = {now_.version + 1, configuration_hash(running_)};
  spdlog::set_level(spdlog::level::from_str(running_.daemon.log_level));
}

// What was replaced is out of use a little later. A device may let whoever frees its memory wait: not a shard.
void live_configuration::sweep_later() {
  sweep_at_.expires_after(between_sweeps);
  sweep_at_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      sweep();
    }
  });
}

void live_configuration::sweep() {
  roll_call_.ask<shard::leftovers>(
      patience, [](shard& asked) { return asked.take_leftovers(); },
      [this](std::vector<std::optional<shard::leftovers>> found) {
        const auto all = std::make_shared<std::vector<std::optional<shard::leftovers>>>(std::move(found));
        const bool more =
            std::any_of(all->begin(), all->end(), [](const auto& each) { return !each || each->in_use != 0; });
        boost::asio::post(workshop_, [all] { all->clear(); });
        if (more) {
          sweep_later();
        }
      });
}

}  // namespace penstock
