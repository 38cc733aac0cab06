#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include <penstock/session.hpp>

#include "client/cpp/client.hpp"
#include "client/cpp/errors.hpp"
#include "client/cpp/recording.hpp"
#include "proto/control.hpp"

namespace penstock {
namespace {

struct request_in_flight {
  std::uint64_t id = 0;
  std::future<result> reply;
};

}  // namespace

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

std::uint64_t session::submit(client::request request, completion done) {
  return owner_->submit(record_->pipeline().name, record_, request, std::move(done), true);
}

std::future<result> session::submit(client::request request) {
  std::future<result> future;
  owner_->submit(record_->pipeline().name, record_, request, keep_promise_of(future), true);
  return future;
}

std::optional<std::uint64_t> session::try_submit(client::request request, completion done) {
  const std::uint64_t id = owner_->submit(record_->pipeline().name, record_, request, std::move(done), false);
  return id == 0 ? std::nullopt : std::optional{id};
}

std::optional<std::future<result>> session::try_submit(client::request request) {
  std::future<result> future;
  const std::uint64_t id = owner_->submit(record_->pipeline().name, record_, request, keep_promise_of(future), false);
  return id == 0 ? std::nullopt : std::optional{std::move(future)};
}

result session::run(std::span<const std::byte> samples, unfilled tail, const std::optional<sample_account>& first) {
  const pipeline_info& pipeline = record_->pipeline();
  const auto cut = link::cut_recording(pipeline, owner_->catalogue()->server(), samples.size());
  const bool fills_none = cut.tail_samples > 0 && !pipeline.input.variable;
  if (fills_none && tail == unfilled::refuse) {
    throw link::local_error(wire::status::wrong_shape,
                            std::to_string(cut.tail_samples) + " samples at the end fill no frame of " +
                                pipeline.input.text() + ": unfilled::drop leaves them out, unfilled::pad adds zeros");
  }
  const auto all = std::make_shared<link::joined_results>(pipeline);
  std::deque<request_in_flight> sent;
  const auto take_oldest = [&] {
    all->add(sent.front().reply.get());
    sent.pop_front();
  };
  std::optional<sample_account> account = first;
  const auto send = [&](std::span<const std::byte> bytes, std::uint32_t frames, std::int64_t leading) {
    while (sent.size() >= cut.in_flight) {
      take_oldest();
    }
    client::request next;
    next.bytes = bytes;
    next.frames = frames;
    next.leading = leading;
    next.id = owner_->reserve_id();
    next.account = account;
    if (account) {
      const std::int64_t length = leading > 0 ? leading : pipeline.input.samples();
      const std::int64_t index = account->index + length * frames;
      account = account->knows_index() ? sample_account::at(index, account->epoch) : sample_account{};
    }
    sent.push_back({next.id, submit(next)});
  };
  try {
    for (std::size_t at = 0; at < cut.whole_frames; at += cut.frames) {
      const auto frames = static_cast<std::uint32_t>(std::min<std::size_t>(cut.frames, cut.whole_frames - at));
      send(samples.subspan(at * cut.frame_bytes, frames * cut.frame_bytes), frames, 0);
    }
    const auto rest = samples.subspan(cut.whole_frames * cut.frame_bytes);
    if (cut.tail_samples > 0 && pipeline.input.variable) {
      send(rest, 1, cut.tail_samples);
    } else if (fills_none && tail == unfilled::pad) {
      std::vector<std::byte> padded(rest.begin(), rest.end());
      padded.resize(cut.frame_bytes);
      send(padded, 1, 0);
    }
    while (!sent.empty()) {
      take_oldest();
    }
  } catch (...) {
    for (const request_in_flight& each : sent) {
      owner_->cancel(each.id);
    }
    throw;
  }
  return link::joined_results::take(all);
}

stage_numbers session::set(std::string_view stage, std::string_view name, double value) {
  const number_setting wanted{std::string(stage), std::string(name), value};
  return set({&wanted, 1});
}

stage_numbers session::set(std::span<const number_setting> wanted) {
  wire::set_values body;
  for (const number_setting& each : wanted) {
    if (each.value && !std::isfinite(*each.value)) {
      throw link::local_error(wire::status::out_of_range,
                              "'" + each.name + "' of stage '" + each.stage + "' must be a finite number");
    }
    body.values.push_back({each.stage, each.name, each.value});
  }
  const std::lock_guard lock{record_->setting()};  // a late one must not follow another
  return owner_->ask_values(record_, wire::encode(body));
}

stage_numbers session::values() {
  return owner_->ask_values(record_, "");
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
