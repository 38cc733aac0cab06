#include "client/cli/load.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include <sys/prctl.h>

namespace penstock::cli {

session_turns::session_turns(client& through, std::string pipeline, int sessions)
    : client_(through), pipeline_(std::move(pipeline)) {
  for (int each = 0; each < sessions; ++each) {
    sessions_.push_back(client_.open_session(pipeline_));
  }
}

std::uint64_t session_turns::submit(client::request request, completion done) {
  session* const target = next();
  return target != nullptr ? target->submit(std::move(request), std::move(done))
                           : client_.submit(pipeline_, std::move(request), std::move(done));
}

std::optional<std::uint64_t> session_turns::try_submit(client::request request, completion done) {
  session* const target = next();
  return target != nullptr ? target->try_submit(std::move(request), std::move(done))
                           : client_.try_submit(pipeline_, std::move(request), std::move(done));
}

session* session_turns::next() noexcept {
  return sessions_.empty() ? nullptr : &sessions_[turn_++ % sessions_.size()];
}

namespace {

using clock = std::chrono::steady_clock;

/// Up to this size a copy is cheaper than zero-copy bookkeeping.
constexpr std::size_t copied_bytes = 2048;

struct window {
  clock::time_point begin;
  clock::time_point end;

  [[nodiscard]] bool holds(clock::time_point time) const noexcept { return begin <= time && time < end; }
};

window window_of(const load_settings& settings) {
  const auto begin = clock::now() + settings.warmup;
  return {begin, begin + settings.duration};
}

client::request request_of(const load_settings& settings, std::span<const std::byte> bytes) {
  client::request request;
  request.bytes = bytes;
  request.frames = settings.frames;
  request.leading = settings.leading;
  if (bytes.size() > copied_bytes) {
    request.release = [] {};
  }
  return request;
}

/// Measurements of one client. Not thread-safe: the caller serialises writers and reads after they have ended.
class tally {
 public:
  void note(const outcome& ended, std::chrono::nanoseconds latency, bool counts) {
    if (const auto* const good = std::get_if<result>(&ended)) {
      if (counts) {
        ++report_.requests;
        report_.latencies.record(latency);
        for (const tensor_view& output : good->outputs()) {
          report_.bytes_out += output.bytes.size();
        }
      }
      return;
    }
    note(std::get<request_error>(ended));
  }
  void note(const request_error& error) {
    error_count& counted = report_.errors[std::string(name_of(error.kind()))];
    if (counted.requests++ == 0) {
      counted.first = error.what();
    }
  }
  void note(const client_counters& counters) { report_.unshared = counters.unshared; }
  [[nodiscard]] const load_report& report() const noexcept { return report_; }

 private:
  load_report report_;
};

/// A closed-loop client: each completion submits the next request.
class closed_loop {
 public:
  closed_loop(const load_settings& settings, const payloads& shared_payloads)
      : settings_(settings),
        client_(std::make_unique<client>(settings.connection)),
        turns_(std::make_unique<session_turns>(*client_, settings.pipeline, settings.sessions)),
        payloads_(settings, shared_payloads, *client_) {}
  /// Declared last: sessions, then the client, are destroyed before what their completions use.
  ~closed_loop() {
    turns_.reset();
    client_.reset();
  }

  void start(const window& when) {
    window_ = when;
    const std::lock_guard lock{mutex_};  // completions wait until all requests are in flight
    for (std::uint32_t each = 0; each < settings_.in_flight && next(); ++each) {
      ++under_way_;
    }
  }

  /// Waits until all requests have ended; `tally_` is then no longer shared.
  const load_report& finish() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return under_way_ == 0; });
    tally_.note(client_->counters());
    return tally_.report();
  }

 private:
  bool next() {
    const auto intended = clock::now();
    if (intended >= window_.end) {
      return false;
    }
    try {
      return turns_->try_submit(request_of(settings_, payloads_.of(sent_++)), [this](outcome&& reply) { ended(reply); })
          .has_value();
    } catch (const request_error& refused) {
      tally_.note(refused);
      return false;
    }
  }

  void ended(const outcome& reply) {
    const std::lock_guard lock{mutex_};
    const auto* const good = std::get_if<result>(&reply);
    tally_.note(reply, good == nullptr ? std::chrono::nanoseconds{} : good->latency(), window_.holds(clock::now()));
    if (!next() && --under_way_ == 0) {
      changed_.notify_all();
    }
  }

  const load_settings& settings_;
  std::unique_ptr<client> client_;
  std::unique_ptr<session_turns> turns_;
  const client_payloads payloads_;
  window window_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t under_way_ = 0;
  std::uint64_t sent_ = 0;
  tally tally_;
};

/// An open-loop client: its thread sends at scheduled times.
class open_loop {
 public:
  open_loop(const load_settings& settings, const payloads& shared_payloads, int place)
      : settings_(settings),
        place_(place),
        client_(std::make_unique<client>(settings.connection)),
        turns_(std::make_unique<session_turns>(*client_, settings.pipeline, settings.sessions)),
        payloads_(settings, shared_payloads, *client_) {}
  /// Declared last: sessions, then the client, are destroyed before what their completions use.
  ~open_loop() {
    turns_.reset();
    client_.reset();
  }

  void start(clock::time_point begin, const window& when) {
    thread_ = std::thread{[this, begin, when] { send_all(begin, when); }};
  }

  const load_report& finish() {
    thread_.join();
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return under_way_ == 0; });
    tally_.note(client_->counters());
    return tally_.report();
  }

 private:
  void send_all(clock::time_point begin, const window& when) {
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // wake up on time, not up to 50 us later
    for (std::uint64_t turn = 0;; ++turn) {
      const auto number = turn * static_cast<std::uint64_t>(settings_.clients) + static_cast<std::uint64_t>(place_);
      const std::chrono::duration<double> after{static_cast<double>(number) / settings_.rate};
      const auto intended = begin + std::chrono::duration_cast<clock::duration>(after);
      if (intended >= when.end) {
        return;
      }
      std::this_thread::sleep_until(intended);
      send(intended, when.holds(intended), payloads_.of(turn));
    }
  }

  void send(clock::time_point intended, bool counts, std::span<const std::byte> bytes) {
    {
      const std::lock_guard lock{mutex_};
      ++under_way_;
    }
    try {
      turns_->submit(request_of(settings_, bytes), [this, intended, counts](const outcome& ended) {
        const std::lock_guard lock{mutex_};
        tally_.note(ended, clock::now() - intended, counts);
        leave();
      });
    } catch (const request_error& refused) {
      const std::lock_guard lock{mutex_};
      tally_.note(refused);
      leave();
    }
  }

  void leave() {
    if (--under_way_ == 0) {
      changed_.notify_all();
    }
  }

  const load_settings& settings_;
  int place_;
  std::unique_ptr<client> client_;
  std::unique_ptr<session_turns> turns_;
  const client_payloads payloads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t under_way_ = 0;
  tally tally_;
  std::thread thread_;
};

}  // namespace

void load_report::merge(const load_report& other) {
  requests += other.requests;
  bytes_out += other.bytes_out;
  unshared += other.unshared;
  latencies.merge(other.latencies);
  for (const auto& [kind, count] : other.errors) {
    error_count& total = errors[kind];
    total.first = total.requests == 0 ? count.first : total.first;
    total.requests += count.requests;
  }
}

payloads::payloads(std::size_t bytes)
    : all_(std::clamp<std::size_t>((std::size_t{4} << 20U) / std::max<std::size_t>(bytes, 1), 2, 16)) {
  std::mt19937_64 random{20240607};
  std::uniform_int_distribution<int> not_zero{1, 255};
  for (std::vector<std::byte>& each : all_) {
    each.resize(bytes);
    std::generate(each.begin(), each.end(), [&] { return static_cast<std::byte>(not_zero(random)); });
  }
}

client_payloads::client_payloads(const load_settings& settings, const payloads& shared_payloads, client& sender)
    : from_(shared_payloads) {
  const bool gains = settings.request_bytes >= settings.connection.shared_from_bytes;
  for (std::size_t each = 0; gains && each < shared_payloads.size(); ++each) {
    auto lent = sender.lend(settings.request_bytes);
    if (!lent) {
      break;
    }
    std::copy_n(shared_payloads.of(each).begin(), settings.request_bytes, lent->bytes().begin());
    lent_.push_back(std::move(*lent));
  }
}

load_report run_closed_loop(const load_settings& settings) {
  const payloads shared_payloads{settings.request_bytes};
  std::vector<std::unique_ptr<closed_loop>> loops;
  for (int each = 0; each < settings.clients; ++each) {
    loops.push_back(std::make_unique<closed_loop>(settings, shared_payloads));
  }
  const window when = window_of(settings);
  for (const auto& each : loops) {
    each->start(when);
  }
  load_report all;
  for (const auto& each : loops) {
    all.merge(each->finish());
  }
  all.elapsed = settings.duration;
  return all;
}

load_report run_open_loop(const load_settings& settings) {
  const payloads shared_payloads{settings.request_bytes};
  std::vector<std::unique_ptr<open_loop>> loops;
  for (int each = 0; each < settings.clients; ++each) {
    loops.push_back(std::make_unique<open_loop>(settings, shared_payloads, each));
  }
  const auto begin = clock::now();
  const window when = window_of(settings);
  for (const auto& each : loops) {
    each->start(begin, when);
  }
  load_report all;
  for (const auto& each : loops) {
    all.merge(each->finish());
  }
  all.elapsed = settings.duration;
  return all;
}

}  // namespace penstock::cli
