// How a shard takes another configuration while it serves.
#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "daemon/shard/shard.hpp"

namespace penstock {

std::string shard::prepare(shard_change& change) {
  if (state_ != state::serving) {
    return "the daemon is stopping";
  }
  served_pipelines later;
  later.by_id = served_.by_id;
  for (const fresh_pipeline& each : change.fresh) {
    later.put(*each.what);
  }
  for (const std::uint32_t id : change.order) {
    later.in_order.push_back(later.find(id));
  }
  try {
    std::vector<std::string> welcomes = reception_.welcomes_of(later, change.how.clients);
    pending_.emplace(pending_change{std::move(change), std::move(welcomes)});
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::optional<shard_change> shard::drop_change(std::uint64_t attempt) {
  if (!pending_ || pending_->what.attempt != attempt) {
    return std::nullopt;
  }
  std::optional<shard_change> dropped(std::move(pending_->what));
  pending_.reset();
  return dropped;
}

bool shard::commit(std::uint64_t attempt) {
  if (!pending_ || pending_->what.attempt != attempt) {
    return false;
  }
  pending_change taken = std::move(*pending_);
  pending_.reset();
  for (fresh_streams& each : taken.what.streams) {
    wheel_.add(each.priority, std::move(each.streams));
  }
  for (fresh_pipeline& each : taken.what.fresh) {
    serve(std::move(each), taken.what.reload);
  }
  std::vector<const plan*> wanted;
  for (const std::uint32_t id : taken.what.order) {
    wanted.push_back(served_.find(id));
  }
  for (const plan*& each : served_.by_id) {
    if (const plan* const removed = each;
        removed != nullptr && std::find(wanted.begin(), wanted.end(), removed) == wanted.end()) {
      const std::string why = "pipeline '" + each->declaration.name + "' was removed by " + taken.what.reload;
      served_.remove(each->id, why);
      retire(*removed, why);
    }
  }
  served_.in_order = std::move(wanted);
  const settings& how = taken.what.how;
  how_.clients = how.clients;
  how_.daemon.drain_timeout = how.daemon.drain_timeout;
  how_.wheel.hang_timeout = how.wheel.hang_timeout;
  timeline_.set_rate(how.timing.batches_per_second);
  sessions_.set_idle_timeout(how.sessions.idle_timeout);
  egress_.adopt(how.clients);
  configuration_ = taken.what.configuration;
  reception_.adopt(how.clients, std::move(taken.welcomes), std::chrono::steady_clock::now());
  return true;
}

void shard::serve(fresh_pipeline fresh, const std::string& reload) {
  plan& made = *adopted_.emplace_back(std::move(fresh.what));
  made.place = next_place_++;
  states_.add(std::move(fresh.states));
  wheel_.set_brief(made.place, fresh.brief_steps);
  pages_.add(made);
  timeline_.add(made.id);
  book_.add(made);
  dispatcher_.add(made);
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
    if (!dispatcher_.done_with(*each) || book_.open_of(*each) != 0 || sessions_.refers_to(*each)) {
      return false;
    }
    dispatcher_.remove(*each);
    fresh_pipeline& done = made.done.emplace_back();
    done.states = states_.take(each->place);
    const auto own = std::find_if(adopted_.begin(), adopted_.end(), [&](const auto& one) { return one.get() == each; });
    if (own != adopted_.end()) {
      done.what = std::move(*own);
      adopted_.erase(own);
    }
    return true;
  });
  made.in_use = retiring_.size();
  return made;
}

}  // namespace penstock
