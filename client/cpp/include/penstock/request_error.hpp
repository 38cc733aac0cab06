#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <penstock/export.hpp>

namespace penstock {

/// How a request failed. The numbers are the high byte of the wire's status.
enum class error_kind : std::uint8_t {
  rejected = 1,
  expired = 2,
  cancelled = 3,
  failed = 4,
  shutdown = 5,
  session_lost = 6
};

/// "rejected", "expired", ...
[[nodiscard]] PENSTOCK_EXPORT std::string_view name_of(error_kind kind) noexcept;

/// Why there is no result.
struct error_details {
  std::string reason;        ///< one sentence for a person
  std::string step;          ///< where it expired or was cancelled; "client" when the daemon never answered
  std::string stage;         ///< the pipeline's stage that failed
  std::string device_error;  ///< the device's name for what happened
};

/// The one error of a request. `what()` holds everything in one line.
class PENSTOCK_EXPORT request_error : public std::runtime_error {
 public:
  /// `status` is the wire's status code; its high byte is the kind.
  request_error(std::uint16_t status, error_details details);

  [[nodiscard]] error_kind kind() const noexcept { return static_cast<error_kind>(status_ >> 8U); }
  [[nodiscard]] std::uint16_t status() const noexcept { return status_; }
  [[nodiscard]] std::string_view status_name() const noexcept;  ///< "WRONG_SHAPE"
  [[nodiscard]] const error_details& details() const noexcept { return details_; }

 private:
  std::uint16_t status_;
  error_details details_;
};

/// The daemon could not be reached, or refused the client.
class PENSTOCK_EXPORT connect_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace penstock
