#include <utility>

#include <penstock/session.hpp>

#include "client/cpp/client_implementation.hpp"

namespace penstock {

session::session(client::implementation& owner, std::shared_ptr<link::session_record> record) noexcept
    : owner_(&owner), record_(std::move(record)) {}

session::session(session&& other) noexcept : owner_(other.owner_), record_(std::move(other.record_)) {}

session& session::operator=(session&& other) noexcept {
  if (this != &other) {
    close();
    owner_ = other.owner_;
    record_ = std::move(other.record_);
  }
  return *this;
}

session::~session() {
  close();
}

std::uint64_t session::submit(client::request what, completion done) {
  return owner_->submit(record_->pipeline().name, record_, what, std::move(done), true);
}

std::future<result> session::submit(client::request what) {
  std::future<result> future;
  owner_->submit(record_->pipeline().name, record_, what, keep_promise_of(future), true);
  return future;
}

std::optional<std::uint64_t> session::try_submit(client::request what, completion done) {
  const std::uint64_t id = owner_->submit(record_->pipeline().name, record_, what, std::move(done), false);
  return id == 0 ? std::nullopt : std::optional{id};
}

std::optional<std::future<result>> session::try_submit(client::request what) {
  std::future<result> future;
  const std::uint64_t id = owner_->submit(record_->pipeline().name, record_, what, keep_promise_of(future), false);
  return id == 0 ? std::nullopt : std::optional{std::move(future)};
}

void session::close() noexcept {
  if (record_ != nullptr) {
    owner_->close_session(record_);
  }
}

std::uint64_t session::frames() const noexcept {
  return record_->frames();
}
bool session::ended() const noexcept {
  return record_->ended().has_value();
}
std::string_view session::name() const noexcept {
  return record_->name();
}
std::string_view session::pipeline() const noexcept {
  return record_->pipeline().name;
}

}  // namespace penstock
