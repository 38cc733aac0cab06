#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/daemon/device/completion_log.hpp"
#include "tests/daemon/device/device_contract.hpp"

namespace penstock::testing {
namespace {

/// What a failing device must do. On CUDA the fault spoils the context for the whole process, so the scenarios run in
/// a process of their own (this program again, as a "threadsafe" death test) and report by what they print and return.
class fault_contract : public device_contract {
 protected:
  void run_apart(const std::function<void()>& scenario) {
    if (std::string_view(GetParam()) == "host") {
      scenario();
      EXPECT_EQ(complaints_, "");
      return;
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
          scenario();
          std::fputs(complaints_.c_str(), stderr);
          ::_exit(complaints_.empty() ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
  }

  void expect(bool holds, const std::string& claim) {
    if (!holds) {
      complaints_ += claim + "\n";
    }
  }

  void expect_fault(fault met, const std::string& of) {
    const std::string name = met.name != nullptr ? met.name : "no fault";
    expect(name == gates().fault_name(), of + " gave " + name);
  }

  void expect_statuses(const completion_log& log, const std::vector<std::string>& expected, const std::string& of) {
    const std::vector<std::string> statuses = log.statuses();
    expect(statuses == expected, of + ": " + ::testing::PrintToString(statuses));
    for (std::size_t at = 0; at < statuses.size(); ++at) {
      expect(log.order()[at] == at, of + ": completions out of order");
    }
  }

  void answers_everything_in_flight();
  void skips_work_behind_the_fault();
  void refuses_everything_later();

 private:
  std::string complaints_;
};

void fault_contract::answers_everything_in_flight() {
  completion_log before(1);
  completion_log on_it(3);
  completion_log behind(2);
  const auto faulty = gates().make_faulty();
  const auto failing = open_stream();
  const auto waiting = open_stream();
  const auto point = open_event();
  const auto held = shut(*failing);
  bool taken = !before.ask(*failing) && !failing->launch(*faulty, {}) && !failing->record(*point);
  taken = taken && !on_it.ask(*failing) && !on_it.ask(*failing) && !on_it.ask(*failing);
  taken = taken && !waiting->wait(*point) && !behind.ask(*waiting) && !behind.ask(*waiting);
  expect(taken, "a call behind a shut gate was refused");
  held->open();
  const std::string name = gates().fault_name();
  expect(before.await(1), "the completion before the fault did not run");
  expect(on_it.await(3), "not every completion behind the fault ran");
  expect(behind.await(2), "not every completion of a stream that waits for the failed one ran");
  expect_statuses(on_it, {name, name, name}, "behind the fault");
  expect_statuses(behind, {name, name}, "on the stream that waits");
  expect_fault(target().health(), "health");
}

void fault_contract::skips_work_behind_the_fault() {
  const device_memory pinned = target().allocate_pinned(2 * sizeof(std::uint32_t));
  const device_memory cell = target().allocate(sizeof(std::uint32_t));
  completion_log log(1);
  const auto faulty = gates().make_faulty();
  const auto queue = open_stream();
  const auto held = shut(*queue);
  words(pinned)[0] = 7;
  words(pinned)[1] = 8;
  bool taken = !queue->copy_in(cell.get(), words(pinned), sizeof(std::uint32_t)) && !queue->launch(*faulty, {});
  taken = taken && !queue->copy_out(words(pinned) + 1, cell.get(), sizeof(std::uint32_t)) && !log.ask(*queue);
  expect(taken, "a call behind a shut gate was refused");
  held->open();
  expect(log.await(1), "the completion behind the fault did not run");
  expect(words(pinned)[1] == 8, "work behind the fault was done");
}

void fault_contract::refuses_everything_later() {
  const device_memory pinned = target().allocate_pinned(64);
  const device_memory memory = target().allocate(64);
  completion_log log(1);
  completion_log never(1);
  const auto faulty = gates().make_faulty();
  const auto harmless = gates().make();
  const auto point = open_event();
  {
    const auto queue = open_stream();
    const auto other = open_stream();
    expect(!queue->launch(*faulty, {}), "the faulty launch was refused");
    if (!log.ask(*queue)) {
      expect(log.await(1), "an accepted completion did not run");
    }
    expect_fault(queue->synchronize(), "synchronize");
    for (stream* const each : {queue.get(), other.get()}) {
      expect_fault(each->copy_in(memory.get(), pinned.get(), 64), "copy_in");
      expect_fault(each->copy_out(pinned.get(), memory.get(), 64), "copy_out");
      expect_fault(each->launch(*harmless, {}), "launch");
      expect_fault(each->record(*point), "record");
      expect_fault(each->wait(*point), "wait");
      expect_fault(never.ask(*each), "on_complete");
      expect_fault(each->synchronize(), "synchronize");
    }
  }
  fault why;
  expect(point->query(why) == event::state::failed, "an event of a failed device is not failed");
  expect_fault(why, "query");
  expect(point->elapsed_us(*point) < 0, "an event of a failed device tells a time");
  expect_fault(target().health(), "health");
  expect(never.count() == 0, "a completion ran that was refused");
}

TEST_P(fault_contract, AnswersEverythingInFlight) {
  run_apart([this] { answers_everything_in_flight(); });
}

TEST_P(fault_contract, SkipsWorkBehindTheFault) {
  run_apart([this] { skips_work_behind_the_fault(); });
}

TEST_P(fault_contract, RefusesEverythingLater) {
  run_apart([this] { refuses_everything_later(); });
}

INSTANTIATE_TEST_SUITE_P(backend, fault_contract, ::testing::Values("host", "cuda"), name_of_backend);

}  // namespace
}  // namespace penstock::testing
