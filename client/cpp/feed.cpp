#include "client/cpp/feed.hpp"

#include <utility>

#include "client/cpp/messages.hpp"

namespace penstock::link {
namespace {

std::size_t bytes_in(const published& item) noexcept {
  std::size_t bytes = 0;
  for (const tensor_view& each : item.outputs.outputs()) {
    bytes += each.bytes.size();
  }
  return bytes;
}

}  // namespace

void feed::restart() noexcept {
  publishers_.clear();
  next_sequence_ = 0;
  restarted_ = true;
}

void feed::hear(wire::publisher&& source) {
  const std::uint32_t number = source.session;
  if (source.ended) {
    publishers_.erase(number);
  } else {
    publishers_[number] = std::make_shared<const wire::publisher>(std::move(source));
  }
}

bool feed::take_in(const wire::message_header& header, std::vector<zmq::message_t>& parts) {
  const auto found = publishers_.find(header.session);
  if (found == publishers_.end() || header.sequence < next_sequence_) {
    return true;  // of the connection before, or its PUBLISHER was lost with that and comes again
  }
  const std::shared_ptr<const wire::publisher> source = found->second;
  auto outputs = read_published(header, std::move(parts), source);
  if (!outputs) {
    return false;
  }
  published item{.outputs = std::move(*outputs),
                 .session = source->name,
                 .client = source->client,
                 .pipeline = source->pipeline,
                 .publisher = source->session,
                 .sequence = header.sequence,
                 .lost = header.sequence - next_sequence_,
                 .restarted = std::exchange(restarted_, false),
                 .is_source = source->source};
  next_sequence_ = header.sequence + 1;
  if (received_) {
    received_(std::move(item));
  } else {
    add(std::move(item));
  }
  return true;
}

void feed::add(published&& item) {
  const std::size_t bytes = bytes_in(item);
  const std::lock_guard lock{mutex_};
  while (!waiting_.empty() && waiting_bytes_ + bytes > buffer_bytes_) {
    const published& oldest = waiting_.front();
    waiting_bytes_ -= bytes_in(oldest);
    passed_over_ += 1 + oldest.lost;
    passed_over_restart_ = passed_over_restart_ || oldest.restarted;
    waiting_.pop_front();
  }
  waiting_bytes_ += bytes;
  waiting_.push_back(std::move(item));
  changed_.notify_one();
}

void feed::end(std::optional<request_error> error) {
  const std::lock_guard lock{mutex_};
  if (!std::exchange(ended_, true)) {
    error_ = std::move(error);
  }
  changed_.notify_all();
}

std::optional<published> feed::next(std::optional<std::chrono::nanoseconds> at_most) {
  std::unique_lock lock{mutex_};
  const auto come = [this] { return !waiting_.empty() || ended_; };
  if (at_most) {
    changed_.wait_for(lock, *at_most, come);
  } else {
    changed_.wait(lock, come);
  }
  if (waiting_.empty()) {
    if (auto error = std::exchange(error_, std::nullopt)) {
      throw request_error(std::move(*error));
    }
    return std::nullopt;
  }
  std::optional<published> taken(std::move(waiting_.front()));
  waiting_.pop_front();
  waiting_bytes_ -= bytes_in(*taken);
  taken->lost += std::exchange(passed_over_, 0);
  taken->restarted = std::exchange(passed_over_restart_, false) || taken->restarted;
  return taken;
}

bool feed::ended() const {
  const std::lock_guard lock{mutex_};
  return ended_ && waiting_.empty() && !error_;
}

}  // namespace penstock::link
