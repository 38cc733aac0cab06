#include "tests/daemon/device/completion_log.hpp"

#include <cerrno>
#include <ctime>

#include <gtest/gtest.h>

namespace penstock::testing {

// One line more than tickets for each ticket, so that a completion that runs twice is seen, not lost.
completion_log::completion_log(std::size_t tickets) : tickets_(tickets), lines_(2 * tickets) {
  for (std::size_t number = 0; number < tickets; ++number) {
    tickets_[number] = {this, number};
  }
  sem_init(&posted_, 0, 0);
}

completion_log::~completion_log() {
  sem_destroy(&posted_);
}

void completion_log::note(void* context, fault status) noexcept {
  const auto& mine = *static_cast<entry*>(context);
  completion_log& log = *mine.log;
  const std::size_t at = log.taken_.fetch_add(1);
  if (at < log.lines_.size()) {
    log.lines_[at] = {mine.number, status.name};
  }
  log.noted_.fetch_add(1);
  sem_post(&log.posted_);
}

fault completion_log::ask(stream& on) {
  return on.on_complete(note, ticket(asked_++));
}

bool completion_log::await(std::size_t count) {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 60;
  for (; count != 0; --count) {
    while (sem_timedwait(&posted_, &until) != 0) {
      if (errno != EINTR) {
        return false;
      }
    }
  }
  return true;
}

std::vector<std::size_t> completion_log::order() const {
  std::vector<std::size_t> numbers;
  for (std::size_t at = 0; at < noted_.load(); ++at) {
    numbers.push_back(lines_.at(at).number);
  }
  return numbers;
}

std::vector<std::string> completion_log::statuses() const {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < noted_.load(); ++at) {
    names.emplace_back(lines_.at(at).status != nullptr ? lines_[at].status : "");
  }
  return names;
}

}  // namespace penstock::testing
