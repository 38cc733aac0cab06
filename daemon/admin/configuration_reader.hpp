#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/security/authorized_keys.hpp"
#include "daemon/settings/settings.hpp"

namespace penstock {

/// What a reload found in the files.
struct read_configuration {
  settings wanted{};
  std::optional<authorized_keys> keys{};
  std::string error{};  ///< why there is nothing
};

/// Reads the files of a configuration on a thread of its own, for which nobody waits longer than `patience`: a file
/// system that hangs holds that thread for as long as it likes, and neither the reload nor the daemon's end. Members:
/// the admin's thread.
class configuration_reader {
 public:
  using callback = std::function<void(read_configuration)>;

  /// `read` is called on the other thread, which may outlive this: it owns all that it uses. It does not throw.
  configuration_reader(boost::asio::io_context& admin, std::function<read_configuration()> read,
                       std::chrono::seconds patience);
  configuration_reader(const configuration_reader&) = delete;
  configuration_reader& operator=(const configuration_reader&) = delete;
  ~configuration_reader();

  /// Calls `done` once, later; with an error when the files could not be read in time, and at once when those of an
  /// earlier time still are. One at a time.
  void read(callback done);
  /// Whether the thread still reads. The process must then end without its static objects being destroyed.
  [[nodiscard]] bool is_reading() const noexcept;

 private:
  struct reading;

  void finish(const std::shared_ptr<reading>& which, read_configuration found);

  boost::asio::io_context& admin_;
  std::function<read_configuration()> read_;
  std::chrono::seconds patience_;
  boost::asio::steady_timer too_late_;
  callback done_;                     // empty when nobody waits
  std::shared_ptr<reading> reading_;  // the last one
};

}  // namespace penstock
