#include "daemon/admin/shard_thread.hpp"

#include <utility>

#include <spdlog/spdlog.h>

#include "daemon/pipeline/plan.hpp"
#include "daemon/shard/placement.hpp"

namespace penstock {

shard_thread::shard_thread(std::uint32_t number, settings how, device& on, std::function<void()> ended)
    : tell_ended_(std::move(ended)) {
  thread_ = std::thread([this, number, how = std::move(how), &on] { run(number, how, on); });
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

void shard_thread::run(std::uint32_t number, const settings& how, device& on) {
  bool made = false;
  try {
    if (const std::string where = stay_near(on.facts().pci_bus_id); !where.empty()) {
      spdlog::info("shard {} stays {}", number, where);
    }
    std::vector<plan> plans;
    for (const pipeline_declaration& each : how.pipelines) {
      plans.push_back(compile_plan(each, static_cast<std::uint32_t>(plans.size()), on,
                                   static_cast<std::uint32_t>(how.wheel.streams)));
    }
    shard running(how, on, plans, number);
    made = true;
    made_.set_value(&running);
    shard_directory* const among = may_serve_.get_future().get();
    if (among == nullptr) {
      return;  // another shard could not start
    }
    running.join(*among);
    ending_ = running.run();
    ended_.store(true, std::memory_order_release);
    tell_ended_();
    // The admin may still call stop.
    let_go_.get_future().wait();
  } catch (...) {
    failure_ = std::current_exception();
    if (!made) {
      made_.set_exception(failure_);
      return;
    }
    ended_.store(true, std::memory_order_release);
    tell_ended_();
  }
}

std::vector<std::string> shard_thread::wait_until_made() {
  shard_ = made_.get_future().get();
  return shard_->endpoints();
}

void shard_thread::serve(shard_directory& among) {
  told_to_serve_ = true;
  may_serve_.set_value(&among);
}

void shard_thread::stop() {
  if (!has_ended()) {
    shard_->stop();
  }
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
