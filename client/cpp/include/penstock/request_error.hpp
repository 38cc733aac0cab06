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

/// Details of an error.
struct error_details {
  std::string reason;        ///< one sentence
  std::string step;          ///< where the request was when it ended; "client" if the client ended it
  std::string stage;         ///< the pipeline's stage that failed
  std::string device_error;  ///< the device's name of the error
};

/// The error of a request. `what()` contains all details in one line.
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
