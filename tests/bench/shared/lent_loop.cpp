#include "tests/bench/shared/lent_loop.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

// Room for the frames and the results, each with what the arena puts between them.
client_options options_of(const lent_loop::settings& how) {
  client_options made;
  made.url = how.endpoint;
  made.transport = how.transport;
  made.shared_bytes = 2 * (how.in_flight + 1) * (how.bytes + 4096);
  made.shared_at_first = made.shared_bytes;  // frames stay where they lie
  made.shared_from_bytes = 1;
  return made;
}

}  // namespace

lent_loop::lent_loop(const settings& how) : how_(how), client_(options_of(how)) {
  pipeline_ = client_.pipelines().at(how_.pipeline).name;
  if (how_.transport == transport::zmq) {
    own_.assign(how_.in_flight * how_.bytes, std::byte{});
    return;
  }
  while (lent_.size() < how_.in_flight) {
    std::optional<lent_memory> one = client_.lend(how_.bytes);
    if (!one) {
      throw std::runtime_error("the daemon shares no memory: " + client_.shared_memory().absence);
    }
    std::fill(one->bytes().begin(), one->bytes().end(), std::byte{});
    lent_.push_back(std::move(*one));
  }
}

std::span<const std::byte> lent_loop::frame(std::size_t number) const noexcept {
  return lent_.empty() ? std::span(own_).subspan(number * how_.bytes, how_.bytes)
                       : std::span<const std::byte>(lent_[number].bytes()).first(how_.bytes);
}

// With a `release` the frame is sent from where it lies over ZeroMQ too.
void lent_loop::send(std::size_t number) {
  client::request what;
  what.bytes = frame(number);
  what.release = [] {};
  client_.submit(pipeline_, std::move(what), [this, number](outcome&& ended) { take(number, std::move(ended)); });
}

void lent_loop::take(std::size_t number, outcome&& ended) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    {
      const result done = std::get<result>(std::move(ended));  // its room goes back before the next needs one
      latencies_us_.push_back(std::chrono::duration<double, std::micro>(done.latency()).count());
    }
    if (clock::now() < until_) {
      send(number);
      return;
    }
  } catch (const std::exception& error) {
    const auto* const refused = std::get_if<request_error>(&ended);
    failure_ = refused != nullptr ? refused->what() : error.what();
  }
  if (--in_flight_ == 0) {
    rest_.notify_all();
  }
}

lent_loop::outcome_of_run lent_loop::run(std::chrono::milliseconds span) {
  const client_counters before = client_.counters();
  const clock::time_point begin = clock::now();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    until_ = begin + span;
    in_flight_ = how_.in_flight;
    latencies_us_.clear();
  }
  for (std::size_t number = 0; number < how_.in_flight; ++number) {
    send(number);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  rest_.wait(lock, [this] { return in_flight_ == 0; });
  if (failure_) {
    throw std::runtime_error("a request failed: " + *failure_);
  }
  const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
  const client_counters after = client_.counters();
  const std::uint64_t shared = after.shared - before.shared;
  const std::uint64_t meant = how_.transport == transport::zmq ? 0 : after.submitted - before.submitted;
  if (shared != meant) {
    throw std::runtime_error(std::to_string(shared) + " requests went through shared memory, and not " +
                             std::to_string(meant));
  }
  return {static_cast<double>(latencies_us_.size()) / seconds, quantile(latencies_us_, 0.5)};
}

}  // namespace penstock::bench
