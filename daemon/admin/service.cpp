#include "daemon/admin/service.hpp"

#include <csignal>
#include <cstdlib>
#include <exception>
#include <future>
#include <utility>

#include <boost/asio/post.hpp>
#include <spdlog/spdlog.h>

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

}  // namespace

service::service(settings how) : how_(std::move(how)) {}

void service::open() {
  opened_device opened = open_device(how_.device);
  device_ = std::move(opened.device);
  spdlog::info("device: {}", opened.reason);
  for (const pipeline_declaration& each : how_.pipelines) {
    plans_.push_back(compile_plan(each, static_cast<std::uint32_t>(plans_.size()), *device_));
  }
}

void service::watch_signals(shard& running) {
  signals_.async_wait([this, &running](const boost::system::error_code& error, int number) {
    if (!error) {
      spdlog::info("{} received", number == SIGTERM ? "SIGTERM" : "SIGINT");
      running.stop();
      watch_signals(running);
    }
  });
}

exit_code service::run() {
  spdlog::info("penstockd {} starts", version);
  // Taken here, before any thread starts: a signal during start-up waits for the admin loop.
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  open();
  std::promise<shard*> started;
  std::promise<void> may_serve;
  std::promise<void> let_go;
  shard_ending ending = shard_ending::drained;
  std::exception_ptr failure;
  auto work = boost::asio::make_work_guard(admin_);
  std::thread thread([&] {
    try {
      // Made on its own thread: the device's per-thread state and first-touch memory belong there.
      shard running(how_, *device_, plans_);
      started.set_value(&running);
      may_serve.get_future().wait();
      ending = running.run();
      boost::asio::post(admin_, [this] { admin_.stop(); });
      let_go.get_future().wait();
      if (ending != shard_ending::drained) {
        leave_at_once(code_of(ending));
      }
    } catch (...) {
      failure = std::current_exception();
      admin_.stop();
      try {
        started.set_exception(failure);
      } catch (const std::future_error&) {
        // It had started: run() rethrows `failure`.
      }
    }
  });
  try {
    shard& running = *started.get_future().get();
    watch_signals(running);
    spdlog::info("ready: {} pipelines on {}, {} slots, {} streams, completion by {}", plans_.size(),
                 joined(running.endpoints()), how_.wheel.slots, how_.wheel.streams,
                 how_.wheel.completion == completion_mode::poll ? "polling" : "callback");
    may_serve.set_value();
    admin_.run();
    let_go.set_value();
  } catch (...) {
    thread.join();
    throw;
  }
  thread.join();
  if (failure) {
    std::rethrow_exception(failure);
  }
  spdlog::info("stopped");
  return code_of(ending);
}

}  // namespace penstock
