#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include <semaphore.h>

#include "daemon/device/device.hpp"

namespace penstock::testing {

/// Writes down which completions ran, in their order, each with its status. As a completion must, it only stores.
class completion_log {
 public:
  /// A ticket for each completion that a test asks for, numbered from 0.
  explicit completion_log(std::size_t tickets);
  completion_log(const completion_log&) = delete;
  completion_log& operator=(const completion_log&) = delete;
  ~completion_log();

  /// The function and the context that on_complete takes for a ticket.
  static void note(void* context, fault status) noexcept;
  [[nodiscard]] void* ticket(std::size_t number) noexcept { return &tickets_[number]; }

  /// Asks the stream for a completion of the next ticket; returns the stream's fault.
  fault ask(stream& on);
  /// Waits until `count` more completions have run; false when that takes more than a minute.
  [[nodiscard]] bool await(std::size_t count);

  /// How many have run. After `await` of all of them, these are complete.
  [[nodiscard]] std::size_t count() const noexcept { return noted_.load(); }
  [[nodiscard]] std::vector<std::size_t> order() const;
  [[nodiscard]] std::vector<std::string> statuses() const;

 private:
  struct entry {
    completion_log* log = nullptr;
    std::size_t number = 0;
  };
  struct line {
    std::size_t number = 0;
    const char* status = nullptr;
  };

  std::vector<entry> tickets_;
  std::vector<line> lines_;           // written by the device's threads, one each
  std::atomic<std::size_t> taken_{};  // lines taken by the device's threads
  std::atomic<std::size_t> noted_{};  // lines written
  std::size_t asked_ = 0;
  sem_t posted_{};
};

}  // namespace penstock::testing
