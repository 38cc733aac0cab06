#include "client/cpp/connection.hpp"

#include <csignal>
#include <utility>

#include <pthread.h>

namespace penstock::link {
namespace {

/// How many messages are taken before the callers' commands get their turn.
constexpr int burst = 256;

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
  std::string text = std::to_string(std::chrono::duration<double>(time).count());
  text.erase(text.find_last_not_of('0') + 1);
  return text + (text.back() == '.' ? "0 s" : " s");
}

}  // namespace

connection::connection(const client_options& options, credit_gate& credits, arena_slot& arenas,
                       atomic_counters& counters) try
    : url_(options.url),
      exchange_(options, credits, arenas, counters,
                {[this](const std::string& url) { note_move(url); },
                 [this](std::shared_ptr<const catalogue> what) { note_welcome(std::move(what)); },
                 [this](const request_error& why) { note_refusal(why); },
                 [this](const std::string& why, bool for_good) { note_shut_out(why, for_good); }}) {
  const without_signals meanwhile;
  thread_ = std::thread{[this] { run(); }};
} catch (const zmq::error_t& error) {
  throw connect_error("can't connect to \"" + options.url + "\": " + error.what());
}

connection::~connection() {
  box_.close();
  thread_.join();
}

void connection::run() {
  ::pthread_setname_np(::pthread_self(), "penstock");
  std::vector<command> commands;
  while (!box_.closed()) {
    box_.take_all(commands);
    const auto now = std::chrono::steady_clock::now();
    for (command& each : commands) {
      exchange_.perform(std::move(each), now);
    }
    const bool more = exchange_.receive(burst);
    exchange_.tend(std::chrono::steady_clock::now());
    if (!more && box_.empty()) {
      exchange_.wait(box_.descriptor());
    }
  }
  exchange_.close();
  box_.take_all(commands);
  for (command& each : commands) {
    exchange_.refuse(std::move(each));
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
  }
}

void connection::wait_for_welcome(std::chrono::nanoseconds at_most) {
  std::unique_lock lock{mutex_};
  const bool answered = greeted_.wait_for(lock, at_most, [this] { return newest_ != nullptr || refusal_; });
  if (newest_ != nullptr) {
    return;
  }
  if (answered) {
    throw connect_error("the daemon at " + url_ + " refused: " + *refusal_);
  }
  throw connect_error("no penstockd answers at " + url_ + " (waited " + seconds_text(at_most) + ")" +
                      (trouble_.empty() ? "" : "; " + trouble_));
}

std::shared_ptr<const catalogue> connection::newest() const {
  const std::lock_guard lock{mutex_};
  return newest_;
}

bool connection::post(command& what) {
  return box_.post(what, !is_own_thread());
}

}  // namespace penstock::link
