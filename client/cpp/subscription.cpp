#include <utility>

#include <penstock/subscription.hpp>

#include "client/cpp/client.hpp"
#include "client/cpp/feed.hpp"

namespace penstock {

subscription::subscription(client::implementation& owner, std::shared_ptr<link::feed> feed, std::uint64_t id,
                           std::uint64_t queue_bytes) noexcept
    : owner_(&owner), feed_(std::move(feed)), id_(id), queue_bytes_(queue_bytes) {}

subscription::subscription(subscription&& other) noexcept
    : owner_(other.owner_), feed_(std::move(other.feed_)), id_(other.id_), queue_bytes_(other.queue_bytes_) {}

subscription& subscription::operator=(subscription&& other) noexcept {
  if (this != &other) {
    close();
    owner_ = other.owner_;
    feed_ = std::move(other.feed_);
    id_ = other.id_;
    queue_bytes_ = other.queue_bytes_;
  }
  return *this;
}

subscription::~subscription() {
  close();
}

std::optional<published> subscription::next(std::optional<std::chrono::nanoseconds> at_most) {
  owner_->check_may_wait();
  return feed_->next(at_most);
}

bool subscription::ended() const noexcept {
  return feed_->ended();
}

void subscription::close() noexcept {
  if (feed_ != nullptr) {
    owner_->close_subscription(feed_, id_);
  }
}

}  // namespace penstock
