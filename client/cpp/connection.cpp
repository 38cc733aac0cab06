#include "client/cpp/connection.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <pthread.h>

#include "client/cpp/endpoint.hpp"

namespace penstock::link {
namespace {

/// Messages handled before the callers' commands.
constexpr int receive_batch = 256;
/// Default time for the WELCOME; the same when nobody listens; time before the endpoint is inspected.
constexpr std::chrono::nanoseconds usual_patience = std::chrono::seconds{5};
constexpr std::chrono::nanoseconds patience_with_nobody = std::chrono::seconds{1};
constexpr std::chrono::milliseconds look_after{250};
/// Longest time that can be added to a time point without overflow.
constexpr std::chrono::nanoseconds longest_patience = std::chrono::hours{24 * 365};

/// While it exists, new threads start with all signals blocked except those of their own faults: the program's handlers
/// run on the program's threads and do not interrupt calls of ZeroMQ.
class signals_blocked {
 public:
  signals_blocked() noexcept {
    sigset_t masked;
    ::sigfillset(&masked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
      ::sigdelset(&masked, fault);
    }
    ::pthread_sigmask(SIG_SETMASK, &masked, &before_);
  }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;
  ~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

std::string seconds_text(std::chrono::nanoseconds time) {
  const auto tenths = std::chrono::round<std::chrono::duration<std::int64_t, std::deci>>(time).count();
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

connection::connection(const client_options& options, credit_window& credits, published_arena& arenas,
                       atomic_counters& counters) try
    : url_(options.url),
      has_keys_(!options.server_key.empty()),
      credits_(credits),
      engine_(options, credits, arenas, counters,
              {[this](const std::string& url) { note_move(url); },
               [this](std::shared_ptr<const catalogue> newest) { note_welcome(std::move(newest)); },
               [this](const request_error& reason) { note_refusal(reason); },
               [this](const std::string& reason, bool final) { note_handshake_failure(reason, final); }}) {
  const signals_blocked meanwhile;
  thread_ = std::thread{[this] { run(); }};
} catch (const zmq::error_t& error) {
  if (error.num() == EPROTONOSUPPORT) {
    throw connect_error(unsupported_transport(options.url));
  }
  throw connect_error("can't connect to \"" + options.url + "\": " + error.what());
}

connection::~connection() {
  commands_.close();
  thread_.join();
}

void connection::run() noexcept {
  ::pthread_setname_np(::pthread_self(), "penstock");
  try {
    run_loop();
    engine_.close();
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock{mutex_};
      failure_ = error.what();
      refusal_ = "the client's thread has ended: " + failure_;
      changed_.notify_all();
    }
    commands_.close();
    credits_.close();
    engine_.fail(error.what());
  }
  std::vector<command> commands;
  commands_.take_all(commands);
  for (command& each : commands) {
    engine_.refuse(std::move(each));
  }
}

void connection::run_loop() {
  std::vector<command> commands;
  while (!commands_.closed()) {
    commands_.take_all(commands);
    const auto now = std::chrono::steady_clock::now();
    for (command& each : commands) {
      engine_.perform(std::move(each), now);
    }
    const bool more = engine_.receive(receive_batch);
    engine_.tend(std::chrono::steady_clock::now());
    credits_.notify_waiting();
    if (!more && commands_.fall_asleep()) {
      engine_.wait(commands_.descriptor());
    }
  }
}

void connection::note_move(const std::string& url) {
  const std::lock_guard lock{mutex_};
  url_ = url;
}

void connection::note_welcome(std::shared_ptr<const catalogue> newest) {
  const std::lock_guard lock{mutex_};
  newest_ = std::move(newest);
  changed_.notify_all();
}

void connection::note_refusal(const request_error& reason) {
  const std::lock_guard lock{mutex_};
  refusal_ = reason.what();
  changed_.notify_all();
}

void connection::note_handshake_failure(const std::string& reason, bool final) {
  const std::lock_guard lock{mutex_};
  handshake_failure_ = reason;
  if (final) {
    refusal_ = reason;
    changed_.notify_all();
  } else {
    ++closed_handshakes_;
  }
}

std::string connection::failure() const {
  const std::lock_guard lock{mutex_};
  return failure_;
}

bool connection::is_answered_by(std::unique_lock<std::mutex>& lock, time_point deadline) {
  return changed_.wait_until(lock, deadline, [this] { return newest_ != nullptr || refusal_; });
}

void connection::wait_for_welcome(std::optional<std::chrono::nanoseconds> at_most) {
  const time_point began = std::chrono::steady_clock::now();
  const auto patience = std::min<std::chrono::nanoseconds>(at_most.value_or(usual_patience), longest_patience);
  endpoint_report found;
  std::optional<unsigned> closed_before;  // before a look found nothing wrong
  std::unique_lock lock{mutex_};
  while (!is_answered_by(lock, std::min(began + patience, std::chrono::steady_clock::now() + look_after))) {
    if (has_keys_ && closed_before && closed_handshakes_ > *closed_before) {  // closed again, although keys were given
      throw connect_error("the daemon at " + url_ + " does not let this client in: " + handshake_failure_);
    }
    const time_point now = std::chrono::steady_clock::now();
    if (!closed_before) {
      const std::string url = url_;
      lock.unlock();
      found = inspect_endpoint(url, has_keys_, began + patience);
      lock.lock();
      if (found.text.empty()) {
        closed_before = closed_handshakes_;  // a daemon may be there: do not inspect it again
      }
    }
    if (newest_ != nullptr || refusal_) {
      break;
    }
    if (found.client_refused) {
      throw connect_error("the daemon at " + url_ + " refused: " + found.text);
    }
    if (found.final) {
      throw connect_error("no penstockd answers at " + url_ + ": " + found.text);
    }
    if (now >= began + (found.absent && !at_most ? patience_with_nobody : patience)) {
      const std::string reason = !found.text.empty()           ? found.text
                                 : !handshake_failure_.empty() ? handshake_failure_
                                                               : "something listens there, but sends no welcome";
      throw connect_error("no penstockd answers at " + url_ + " (waited " + seconds_text(now - began) + "): " + reason);
    }
  }
  if (newest_ == nullptr) {
    throw connect_error("the daemon at " + url_ + " refused: " + *refusal_);
  }
}

std::shared_ptr<const catalogue> connection::newest() const {
  const std::lock_guard lock{mutex_};
  return newest_;
}

bool connection::post(command& next) {
  return commands_.post(next);
}

}  // namespace penstock::link
