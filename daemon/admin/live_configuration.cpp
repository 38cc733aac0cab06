#include "daemon/admin/live_configuration.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "daemon/settings/settings_change.hpp"

namespace penstock {
namespace {

// Longer than a shard may be busy with one turn; one that hangs takes no other configuration.
constexpr std::chrono::seconds patience{5};
constexpr std::chrono::milliseconds between_sweeps{500};

std::map<std::string, std::uint32_t> numbers_of(const settings& what) {
  std::map<std::string, std::uint32_t> made;
  for (const pipeline_declaration& each : what.pipelines) {
    made.emplace(each.name, static_cast<std::uint32_t>(made.size()));
  }
  return made;
}

bool has_priority(const settings& what, stream_priority wanted) {
  return std::any_of(what.pipelines.begin(), what.pipelines.end(),
                     [&](const pipeline_declaration& each) { return each.priority == wanted; });
}

}  // namespace

live_configuration::live_configuration(boost::asio::io_context& admin, std::deque<shard_thread>& shards,
                                       std::vector<device*> devices, keyring* keys, settings running,
                                       std::function<settings()> read)
    : admin_(admin),
      shards_(shards),
      devices_(std::move(devices)),
      keys_(keys),
      running_(std::move(running)),
      read_(std::move(read)),
      now_{1, configuration_hash(running_)},
      numbers_(numbers_of(running_)),
      roll_call_(admin, shards),
      sweep_at_(admin) {
  for (const pipeline_declaration& each : running_.pipelines) {
    priorities_.insert(each.priority);
  }
}

live_configuration::~live_configuration() {
  workshop_.join();
}

void live_configuration::reload(callback done) {
  waiting_.push_back(std::move(done));
  if (waiting_.size() == 1) {
    begin();
  }
}

void live_configuration::begin() {
  boost::asio::post(workshop_, [this] {
    proposed_ = make();
    boost::asio::post(admin_, [this] { propose(); });
  });
}

live_configuration::proposal live_configuration::make() const {
  proposal made;
  try {
    made.wanted = read_();
    if (const std::vector<std::string> fixed = needs_restart(running_, made.wanted); !fixed.empty()) {
      made.error = fmt::format("only a restart can change {}", fmt::join(fixed, ", "));
      return made;
    }
    if (keys_ != nullptr) {
      made.keys = authorized_keys::read(made.wanted.security.authorized_keys_file);
    }
    made.numbers = numbers_;
    for (const pipeline_declaration& each : made.wanted.pipelines) {
      made.numbers.emplace(each.name, static_cast<std::uint32_t>(made.numbers.size()));
    }
    for (std::size_t shard = 0; shard < devices_.size(); ++shard) {
      add_shard(made, shard);
    }
  } catch (const std::exception& error) {
    made.error = error.what();
    made.changes.clear();
  }
  return made;
}

void live_configuration::add_shard(proposal& to, std::size_t shard) const {
  device& on = *devices_[shard];
  shard_change& change = to.changes.emplace_back();
  change.configuration = {now_.version + 1, configuration_hash(to.wanted)};
  change.how = to.wanted;
  for (const pipeline_declaration& each : to.wanted.pipelines) {
    const std::uint32_t number = to.numbers.at(each.name);
    change.order.push_back(number);
    const auto before = std::find_if(running_.pipelines.begin(), running_.pipelines.end(),
                                     [&](const pipeline_declaration& one) { return one.name == each.name; });
    if (before == running_.pipelines.end() || !same_pipeline(*before, each)) {
      change.fresh.push_back(make_fresh(each, number, on, to.wanted));
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

void live_configuration::propose() {
  if (!proposed_.error.empty()) {
    finish(std::exchange(proposed_.error, ""));
    return;
  }
  roll_call_.ask<std::string>(
      patience, [this](shard& asked) { return asked.prepare(std::move(proposed_.changes[asked.number()])); },
      [this](std::vector<std::optional<std::string>> objections) { decide(objections); });
}

void live_configuration::decide(const std::vector<std::optional<std::string>>& objections) {
  std::string error;
  for (std::size_t shard = 0; shard < objections.size(); ++shard) {
    if (!objections[shard]) {
      error = fmt::format("shard {} did not answer within {} s", shard, patience.count());
    } else if (!objections[shard]->empty()) {
      error = *objections[shard];
    }
  }
  const bool taken = error.empty();
  roll_call_.ask<bool>(
      patience,
      [taken](shard& asked) {
        taken ? asked.commit() : asked.drop_change();
        return true;
      },
      [this, error](const std::vector<std::optional<bool>>&) { finish(error); });
}

void live_configuration::finish(std::string error) {
  reload_outcome outcome{.changed = error.empty(), .version = now_.version, .hash = now_.hash, .error = error};
  if (outcome.changed) {
    running_ = std::move(proposed_.wanted);
    numbers_ = std::move(proposed_.numbers);
    if (proposed_.keys) {
      keys_->authorize(std::move(*proposed_.keys));
    }
    for (const pipeline_declaration& each : running_.pipelines) {
      priorities_.insert(each.priority);
    }
    now_ = {now_.version + 1, configuration_hash(running_)};
    outcome.version = now_.version;
    outcome.hash = now_.hash;
    spdlog::set_level(spdlog::level::from_str(running_.daemon.log_level));
    spdlog::info("configuration reloaded: version {}, hash {}", now_.version, now_.hash);
    sweep_later();
  } else {
    spdlog::error("reload refused: {}; version {} is served on", error, now_.version);
  }
  proposed_ = {};
  const callback done = std::move(waiting_.front());
  waiting_.pop_front();
  if (!waiting_.empty()) {
    begin();
  }
  done(outcome);
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
            std::any_of(all->begin(), all->end(), [](const auto& each) { return each && each->in_use != 0; });
        boost::asio::post(workshop_, [all] { all->clear(); });
        if (more) {
          sweep_later();
        }
      });
}

}  // namespace penstock
