#include "daemon/admin/http/http_server.hpp"

#include <algorithm>
#include <utility>

#include <boost/asio/post.hpp>

#include "daemon/settings/admin_address.hpp"

namespace penstock {
namespace {

using boost::system::error_code;

// Without a descriptor to spare, the next try would fail at once.
constexpr std::chrono::milliseconds rest{100};

}  // namespace

http_server::http_server(boost::asio::io_context& on, const admin_settings& how, http_handler handler,
                         http_limits limits)
    : io_(on), handler_(std::move(handler)), limits_(limits), names_(how.names), patience_(on) {
  for (const std::string& text : how.listen) {
    listeners_.emplace_back(on, parse_admin_address(text).value());
  }
}

void http_server::start() {
  for (http_listener& each : listeners_) {
    each.listen();
    accept(each);
  }
}

void http_server::accept(http_listener& at) {
  const auto next = std::make_shared<http_connection>(io_, limits_, http_names{names_, at.is_unix()}, handler_,
                                                      [this](const http_connection& ended) { forget(ended); });
  at.socket().async_accept(next->socket(), [this, &at, next](const error_code& failed) {
    if (stopping_) {
      return;
    }
    if (!failed) {
      take(next);
      accept(at);
      return;
    }
    // The connection that waits may be the operator's, and one that has a place a stranger's.
    if (!connections_.empty()) {
      (void)make_room();
    }
    at.rest().expires_after(rest);
    at.rest().async_wait([this, &at](const error_code&) {
      if (!stopping_) {
        accept(at);
      }
    });
  });
}

void http_server::take(const std::shared_ptr<http_connection>& next) {
  if (connections_.size() < limits_.connections || make_room()) {
    connections_.push_back(next);
    next->start();
  }
}

bool http_server::make_room() {
  const auto longest =
      std::min_element(connections_.begin(), connections_.end(), [](const auto& left, const auto& right) {
        return std::pair(!left->is_waiting(), left->waiting_since()) <
               std::pair(!right->is_waiting(), right->waiting_since());
      });
  if (!(*longest)->is_waiting()) {
    return false;
  }
  (*longest)->close();
  return true;
}

void http_server::forget(const http_connection& ended) {
  connections_.remove_if([&](const auto& each) { return each.get() == &ended; });
  check_stopped();
}

void http_server::stop(std::function<void()> done) {
  stopping_ = true;
  stopped_ = std::move(done);
  for (http_listener& each : listeners_) {
    each.rest().cancel();
    each.close();
  }
  for (const auto& each : std::list(connections_)) {
    each->finish();
  }
  patience_.expires_after(limits_.stop_timeout);
  patience_.async_wait([this](const error_code& cancelled) {
    if (!cancelled) {
      for (const auto& each : std::list(connections_)) {
        each->close();
      }
    }
  });
  check_stopped();
}

void http_server::check_stopped() {
  if (stopped_ && connections_.empty()) {
    patience_.cancel();
    boost::asio::post(io_, std::exchange(stopped_, nullptr));
  }
}

std::vector<std::string> http_server::addresses() const {
  std::vector<std::string> names;
  for (const http_listener& each : listeners_) {
    names.push_back(each.name());
  }
  return names;
}

}  // namespace penstock
