#include "client/cpp/connection.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <pthread.h>

#include "client/cpp/endpoint.hpp"

namespace penstock::link {
namespace {

/// How many messages are taken before the callers' commands get their turn.
constexpr int burst = 256;
/// With a daemon's welcome, where the options do not say; of it where nobody listens; until it is seen what is there.
constexpr std::chrono::nanoseconds usual_patience = std::chrono::seconds{5};
constexpr std::chrono::nanoseconds patience_with_nobody = std::chrono::seconds{1};
constexpr std::chrono::milliseconds look_after{250};
/// What can be added to a time without leaving the clock.
constexpr std::chrono::nanoseconds longest_patience = std::chrono::hours{24 * 365};

/// Threads that are begun meanwhile get no signals but those of their own faults: the program's handlers run on its own
/// threads, and cut no call of ZeroMQ's short.
class without_signals {
 public:
  without_signals() noexcept {
    sigset_t masked;
    ::sigfillset(&masked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
      ::sigdelset(&masked, fault);
    }
    ::pthread_sigmask(SIG_SETMASK, &masked, &before_);
  }
  without_signals(const without_signals&) = delete;
  without_signals& operator=(const without_signals&) = delete;
  ~without_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

std::string seconds_text(std::chrono::nanoseconds time) {
  const auto tenths = std::chrono::round<std::chrono::duration<std::int64_t, std::deci>>(time).count();
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

connection::connection(const client_options& options, credit_gate& credits, arena_slot& arenas,
                       atomic_counters& counters) try
    : url_(options.url),
      has_keys_(!options.server_key.empty()),
      credits_(credits),
      exchange_(options, credits, arenas, counters,
                {[this](const std::string& url) { note_move(url); },
                 [this](std::shared_ptr<const catalogue> what) { note_welcome(std::move(what)); },
                 [this](const request_error& why) { note_refusal(why); },
                 [this](const std::string& why, bool for_good) { note_shut_out(why, for_good); }}) {
  const without_signals meanwhile;
  thread_ = std::thread{[this] { run(); }};
} catch (const zmq::error_t& error) {
  if (error.num() == EPROTONOSUPPORT) {
    throw connect_error(unsupported_transport(options.url));
  }
  throw connect_error("can't connect to \"" + options.url + "\": " + error.what());
}

connection::~connection() {
  box_.close();
  thread_.join();
}

void connection::run() noexcept {
  ::pthread_setname_np(::pthread_self(), "penstock");
  try {
    converse();
    exchange_.close();
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock{mutex_};
      failure_ = error.what();
      refusal_ = "the client's thread has ended: " + failure_;
      greeted_.notify_all();
    }
    box_.close();
    credits_.close();
    exchange_.fail(error.what());
  }
  std::vector<command> commands;
  box_.take_all(commands);
  for (command& each : commands) {
    exchange_.refuse(std::move(each));
  }
}

void connection::converse() {
  std::vector<command> commands;
  while (!box_.closed()) {
    box_.take_all(commands);
    const auto now = std::chrono::steady_clock::now();
    for (command& each : commands) {
      exchange_.perform(std::move(each), now);
    }
    const bool more = exchange_.receive(burst);
    exchange_.tend(std::chrono::steady_clock::now());
    credits_.notify_waiting();
    if (!more && box_.fall_asleep()) {
      exchange_.wait(box_.descriptor());
    }
  }
}

void connection::note_move(const std::string& url) {
  const std::lock_guard lock{mutex_};
  url_ = url;
}

void connection::note_welcome(std::shared_ptr<const catalogue> what) {
  const std::lock_guard lock{mutex_};
  newest_ = std::move(what);
  greeted_.notify_all();
}

void connection::note_refusal(const request_error& why) {
  const std::lock_guard lock{mutex_};
  refusal_ = why.what();
  greeted_.notify_all();
}

void connection::note_shut_out(const std::string& why, bool for_good) {
  const std::lock_guard lock{mutex_};
  trouble_ = why;
  if (for_good) {
    refusal_ = why;
    greeted_.notify_all();
  } else {
    ++broken_off_;
  }
}

std::string connection::failure() const {
  const std::lock_guard lock{mutex_};
  return failure_;
}

bool connection::is_answered_by(std::unique_lock<std::mutex>& lock, time_point deadline) {
  return greeted_.wait_until(lock, deadline, [this] { return newest_ != nullptr || refusal_; });
}

void connection::wait_for_welcome(std::optional<std::chrono::nanoseconds> at_most) {
  const time_point began = std::chrono::steady_clock::now();
  const auto patience = std::min<std::chrono::nanoseconds>(at_most.value_or(usual_patience), longest_patience);
  endpoint_finding found;
  std::optional<unsigned> broken_off;  // before a look found nothing wrong
  std::unique_lock lock{mutex_};
  while (!is_answered_by(lock, std::min(began + patience, std::chrono::steady_clock::now() + look_after))) {
    if (has_keys_ && broken_off && broken_off_ > *broken_off) {  // again, by what asks for keys, too
      throw connect_error("the daemon at " + url_ + " does not let this client in: " + trouble_);
    }
    const time_point now = std::chrono::steady_clock::now();
    if (!broken_off) {
      const std::string url = url_;
      lock.unlock();
      found = look_at(url, has_keys_, began + patience);
      lock.lock();
      if (found.text.empty()) {
        broken_off = broken_off_;  // a daemon may be there: it is not looked at again
      }
    }
    if (newest_ != nullptr || refusal_) {
      break;
    }
    if (found.shut) {
      throw connect_error("the daemon at " + url_ + " refused: " + found.text);
    }
    if (found.for_good) {
      throw connect_error("no penstockd answers at " + url_ + ": " + found.text);
    }
    if (now >= began + (found.absent && !at_most ? patience_with_nobody : patience)) {
      const std::string why = !found.text.empty() ? found.text
                              : !trouble_.empty() ? trouble_
                                                  : "something listens there, but sends no welcome";
      throw connect_error("no penstockd answers at " + url_ + " (waited " + seconds_text(now - began) + "): " + why);
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

bool connection::post(command& what) {
  return box_.post(what);
}

}  // namespace penstock::link
