#include "tests/bench/shared_loop.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <variant>

#include "daemon/device/backend.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

// Memory for the frames and the results, with the alignment of the arena.
client_options options_of(const shared_loop::load_settings& settings) {
  client_options options;
  options.url = settings.endpoint;
  options.transport = settings.transport;
  options.shared_bytes = 2 * (settings.in_flight + 1) * (settings.bytes + 4096);
  options.shared_at_first = options.shared_bytes;  // allocated at once: frames do not move
  options.shared_from_bytes = 1;
  return options;
}

}  // namespace

shared_loop::shared_loop(const load_settings& settings) : settings_(settings), client_(options_of(settings)) {
  pipeline_ = client_.pipelines().at(settings_.pipeline).name;
  if (settings_.transport == transport::zmq) {
    own_frames_.assign(settings_.in_flight * settings_.bytes, std::byte{});
    return;
  }
  while (shared_frames_.size() < settings_.in_flight) {
    std::optional<lent_memory> one = client_.lend(settings_.bytes);
    if (!one) {
      throw std::runtime_error("the daemon shares no memory: " + client_.shared_memory().absence);
    }
    std::fill(one->bytes().begin(), one->bytes().end(), std::byte{});
    shared_frames_.push_back(std::move(*one));
  }
}

std::span<const std::byte> shared_loop::frame(std::size_t number) const noexcept {
  return shared_frames_.empty() ? std::span(own_frames_).subspan(number * settings_.bytes, settings_.bytes)
                                : std::span<const std::byte>(shared_frames_[number].bytes()).first(settings_.bytes);
}

// `release` makes the client send without a copy over ZeroMQ too.
void shared_loop::send(std::size_t number) {
  client::request what;
  what.bytes = frame(number);
  what.release = [] {};
  client_.submit(pipeline_, std::move(what), [this, number](outcome&& ended) { take(number, std::move(ended)); });
}

void shared_loop::take(std::size_t number, outcome&& ended) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    {
      const result done = std::get<result>(std::move(ended));  // returns its memory before the next request
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
    idle_.notify_all();
  }
}

shared_loop::figures shared_loop::run(std::chrono::milliseconds span) {
  const client_counters before = client_.counters();
  const clock::time_point begin = clock::now();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    until_ = begin + span;
    in_flight_ = settings_.in_flight;
    latencies_us_.clear();
  }
  for (std::size_t number = 0; number < settings_.in_flight; ++number) {
    send(number);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  idle_.wait(lock, [this] { return in_flight_ == 0; });
  if (failure_) {
    throw std::runtime_error("a request failed: " + *failure_);
  }
  const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
  const client_counters after = client_.counters();
  const std::uint64_t shared = after.shared - before.shared;
  const std::uint64_t scheduled = settings_.transport == transport::zmq ? 0 : after.submitted - before.submitted;
  if (shared != scheduled) {
    throw std::runtime_error(std::to_string(shared) + " requests went through shared memory, and not " +
                             std::to_string(scheduled));
  }
  return {static_cast<double>(latencies_us_.size()) / seconds, quantile(latencies_us_, 0.5)};
}

namespace {

using clock = std::chrono::steady_clock;

void require(fault failed) {
  if (failed) {
    throw std::runtime_error("the device failed: " + std::string(failed.name));
  }
}

}  // namespace

two_way_copies::two_way_copies(const std::string& backend, std::size_t max_bytes)
    : device_(backend == "cuda" ? open_cuda_device(0) : open_host_device(2)),
      bytes_(max_bytes),
      pinned_input_(device_->allocate_pinned(bytes_)),
      pinned_output_(device_->allocate_pinned(bytes_)),
      input_(device_->allocate(bytes_)),
      output_(device_->allocate(bytes_)),
      in_(device_->open_stream(stream_priority::normal)),
      out_(device_->open_stream(stream_priority::normal)) {}

double two_way_copies::walk(stream& out, std::size_t bytes, std::size_t copies) {
  const clock::time_point begin = clock::now();
  std::size_t offset = 0;
  for (std::size_t copy = 0; copy < copies; ++copy) {
    require(in_->copy_in(input_.get() + offset, pinned_input_.get() + offset, bytes));
    require(out.copy_out(pinned_output_.get() + offset, output_.get() + offset, bytes));
    offset = offset + 2 * bytes <= bytes_ ? offset + bytes : 0;
  }
  require(in_->synchronize());
  require(out.synchronize());
  return static_cast<double>(bytes * copies) * 1e-9 / std::chrono::duration<double>(clock::now() - begin).count();
}

}  // namespace penstock::bench
