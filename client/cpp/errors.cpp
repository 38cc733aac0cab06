#include "client/cpp/errors.hpp"

#include <utility>

#include <penstock/request_error.hpp>

#include "proto/status.hpp"

namespace penstock {
namespace {

std::string sentence_of(std::uint16_t status, const error_details& details) {
  std::string text{wire::name_of(static_cast<wire::status>(status))};
  const auto add = [&text](std::string_view before, const std::string& value) {
    if (!value.empty()) {
      text.append(before).append(value);
    }
  };
  add(": ", details.reason);
  add(", at step ", details.step);
  add(", in stage ", details.stage);
  add(", device error ", details.device_error);
  return text;
}

}  // namespace

std::string_view name_of(error_kind kind) noexcept {
  switch (kind) {
    case error_kind::rejected:
      return "rejected";
    case error_kind::expired:
      return "expired";
    case error_kind::cancelled:
      return "cancelled";
    case error_kind::failed:
      return "failed";
    case error_kind::shutdown:
      return "shutdown";
    case error_kind::session_lost:
      return "session lost";
  }
  return "unknown";
}

request_error::request_error(std::uint16_t status, error_details details)
    : std::runtime_error(sentence_of(status, details)), status_(status), details_(std::move(details)) {}

std::string_view request_error::status_name() const noexcept {
  return wire::name_of(static_cast<wire::status>(status_));
}

}  // namespace penstock
