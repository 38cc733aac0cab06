#include "daemon/admin/shard_thread.hpp"

#include <optional>
#include <utility>

#include <pthread.h>
#include <spdlog/spdlog.h>

#include "daemon/admin/start_check.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/shard/placement.hpp"

namespace penstock {

shard_thread::shard_thread(std::uint32_t number, settings how, device& on, memory_budget& memory, const keyring* keys,
                           start_progress& progress, std::function<void()> ended)
    : tell_ended_(std::move(ended)) {
  thread_ = std::thread([this, number, how = std::move(how), &on, &memory, keys, &progress] {
    run(number, how, on, memory, keys, progress);
  });
}

shard_thread::~shard_thread() {
  if (!thread_.joinable()) {
    return;
  }
  if (!told_to_serve_) {
    may_serve_.set_value(nullptr);
  } else {
    stop();
    stop();
  }
  join();
}

void shard_thread::run(std::uint32_t number, const settings& how, device& on, memory_budget& memory,
                       const keyring* keys, start_progress& progress) {
  ::pthread_setname_np(::pthread_self(), ("shard-" + std::to_string(number)).c_str());
  bool made = false;
  try {
    if (const std::string where = stay_near(on.facts().pci_bus_id); !where.empty()) {
      spdlog::info("shard {} stays {}", number, where);
    }
    std::vector<plan> plans;
    for (const pipeline_declaration& each : how.pipelines) {
      const start_progress::step compiles(progress, number, "pipeline '" + each.name + "' is compiled");
      plans.push_back(compile_plan(each, static_cast<std::uint32_t>(plans.size()), on,
                                   static_cast<std::uint32_t>(how.wheel.streams)));
    }
    check_memory(how, plans, on.facts().backend == "host");
    std::optional<start_progress::step> doing;
    doing.emplace(progress, number, "the slots and the states of sessions are allocated");
    shard running(how, on, plans, memory, number, keys, [&](const std::string& what) {
      doing.reset();
      doing.emplace(progress, number, what);
    });
    doing.reset();
    made = true;
    made_.set_value(&running);
    serve_until_the_end(running);
  } catch (...) {
    if (!made) {
      made_.set_exception(std::current_exception());
    }
  }
}

// The shard lives until the admin has let go of it, however it ends: the admin may still call stop.
void shard_thread::serve_until_the_end(shard& running) {
  shard_directory* const among = may_serve_.get_future().get();
  if (among == nullptr) {
    return;  // another shard could not start
  }
  try {
    ending_ = running.run();
  } catch (...) {
    failure_ = std::current_exception();
  }
  ended_.store(true, std::memory_order_release);
  [this]() noexcept { tell_ended_(); }();  // an exception here would leave the admin waiting
  let_go_.get_future().wait();
}

std::vector<std::string> shard_thread::wait_until_made() {
  shard_ = made_in_future_.get();
  return shard_->endpoints();
}

void shard_thread::join_directory(shard_directory& among, arena_keeper* keeper,
                                  const configuration_report& configuration) {
  among_ = &among;
  shard_->join(among, keeper, configuration);
}

void shard_thread::serve() {
  told_to_serve_ = true;
  may_serve_.set_value(among_);
}

void shard_thread::stop() {
  if (!has_ended()) {
    shard_->stop();
  }
}

void shard_thread::ask(std::function<void(shard&)> question) {
  if (!has_ended()) {
    shard_->ask(std::move(question));
  }
}

bool shard_thread::lost_its_device() const noexcept {
  return has_ended() && failure_ == nullptr && ending_ == shard_ending::device_lost;
}

shard_ending shard_thread::ending() const {
  if (failure_ != nullptr) {
    std::rethrow_exception(failure_);
  }
  return ending_;
}

void shard_thread::join() {
  let_go_.set_value();
  thread_.join();
}

}  // namespace penstock
