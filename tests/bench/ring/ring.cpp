#include "tests/bench/ring/ring.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/prctl.h>

#include "daemon/completion/completion.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/ring/ring.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/ring/hand_over.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

constexpr std::size_t payload_sizes[] = {64, 256, 4096, 65536, 1U << 20U};
constexpr std::size_t slots = 16;
constexpr std::size_t slot_bytes = 2U << 20U;  // from here on the host backend asks for huge pages
constexpr std::size_t most_copied = std::size_t{1} << 32U;

double ns_each(clock::time_point begin, std::size_t count) {
  return std::chrono::duration<double, std::nano>(clock::now() - begin).count() / static_cast<double>(count);
}

/// While it lives, memory that this process touches first gets no huge pages, whatever is asked for.
class no_huge_pages {
 public:
  no_huge_pages() noexcept { ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); }
  no_huge_pages(const no_huge_pages&) = delete;
  no_huge_pages& operator=(const no_huge_pages&) = delete;
  ~no_huge_pages() { ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); }
};

/// A ring with its queue, and the thread that runs this benchmark as its shard.
class workbench {
 public:
  workbench()
      : device_(open_host_device(1)),
        ring_(*device_, slots, {.pinned_input = slot_bytes, .pinned_output = 64, .arena = 64, .max_frames = 1}, false,
              completed_, signal_),
        payload_(slot_bytes, 'x') {}

  double claim_and_drop(std::size_t count) {
    const clock::time_point begin = clock::now();
    for (std::size_t at = 0; at < count; ++at) {
      ring::drop(*ring_.claim());
      (void)ring_.collect();
    }
    return ns_each(begin, count);
  }

  // The second thread drops what this one claims; slots are as many as they are.
  double drop_elsewhere(std::size_t count) {
    hand_over<slot*, slots> passed;
    std::thread dropper([&] {
      for (std::size_t at = 0; at < count; ++at) {
        ring::drop(*passed.take());
      }
    });
    const clock::time_point begin = clock::now();
    for (std::size_t claimed = 0; claimed < count;) {
      if (slot* const each = ring_.claim()) {
        passed.put(each);
        ++claimed;
      } else if (!ring_.collect()) {
        std::this_thread::yield();
      }
    }
    const double made = ns_each(begin, count);
    dropper.join();
    (void)ring_.collect();
    return made;
  }

  double push_and_take(std::size_t count) {
    completion_node node;
    const clock::time_point begin = clock::now();
    for (std::size_t at = 0; at < count; ++at) {
      queue_.push(node);
      (void)queue_.take();
    }
    return ns_each(begin, count);
  }

  double push_elsewhere(std::size_t count) {
    std::vector<completion_node> nodes(slots);
    hand_over<completion_node*, slots> passed;
    for (completion_node& each : nodes) {
      passed.put(&each);
    }
    const clock::time_point begin = clock::now();
    std::thread pusher([&] {
      for (std::size_t at = 0; at < count; ++at) {
        queue_.push(*passed.take());
      }
    });
    for (std::size_t taken = 0; taken < count;) {
      completion_node* next = queue_.take();
      if (next == nullptr) {
        std::this_thread::yield();
      }
      while (next != nullptr) {
        completion_node* const each = next;
        next = each->next;
        passed.put(each);
        ++taken;
      }
    }
    const double made = ns_each(begin, count);
    pusher.join();
    return made;
  }

  // Into one slot after the other, as requests arrive.
  double copy(std::size_t bytes, std::size_t count) {
    std::vector<slot*> held;
    for (slot* each = ring_.claim(); each != nullptr; each = ring_.claim()) {
      held.push_back(each);
    }
    const clock::time_point begin = clock::now();
    for (std::size_t at = 0; at < count; ++at) {
      std::memcpy(held[at % slots]->pinned_input.get(), payload_.data(), bytes);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    const double made = ns_each(begin, count);
    for (slot* const each : held) {
      ring::drop(*each);
    }
    (void)ring_.collect();
    return made;
  }

 private:
  std::unique_ptr<device> device_;
  wake_signal signal_;
  completion_queue completed_{signal_};
  completion_queue queue_{signal_};
  ring ring_;
  std::string payload_;
};

struct trial {
  std::string what;
  std::function<double()> run;
  std::vector<double> ns;
};

}  // namespace

ordered_json run_ring(const bench_options& options) {
  workbench bench;
  const std::unique_ptr<workbench> on_small_pages = [] {
    const no_huge_pages meanwhile;
    return std::make_unique<workbench>();
  }();
  const std::size_t count = options.quick ? 20'000 : 1'000'000;
  std::vector<trial> trials;
  trials.push_back({"slot claimed and dropped, one thread", [&] { return bench.claim_and_drop(count); }, {}});
  trials.push_back({"slot claimed here, dropped by another thread", [&] { return bench.drop_elsewhere(count); }, {}});
  trials.push_back({"completion pushed and taken, one thread", [&] { return bench.push_and_take(count); }, {}});
  trials.push_back(
      {"completion pushed by another thread, taken here", [&] { return bench.push_elsewhere(count); }, {}});
  const std::size_t operations = trials.size();
  for (const std::size_t bytes : payload_sizes) {
    const std::size_t copies = std::min(count, most_copied / (options.quick ? 64 : 1) / bytes);
    trials.push_back({"", [&bench, bytes, copies] { return bench.copy(bytes, copies); }, {}});
    trials.push_back({"", [&small = *on_small_pages, bytes, copies] { return small.copy(bytes, copies); }, {}});
  }
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (trial& each : trials) {
      each.ns.push_back(each.run());
    }
  }
  ordered_json result = {{"benchmark", "ring"},
                         {"machine", machine_facts()},
                         {"device", no_device()},
                         {"repeats", options.repeats},
                         {"slots", slots},
                         {"operations_a_repeat", count},
                         {"rows", ordered_json::array()},
                         {"copies", ordered_json::array()}};
  for (std::size_t at = 0; at < operations; ++at) {
    result["rows"].push_back({{"what", trials[at].what}, {"ns", to_json(spread_of(trials[at].ns))}});
  }
  for (std::size_t size = 0; size < std::size(payload_sizes); ++size) {
    const std::vector<double>& huge = trials[operations + 2 * size].ns;
    const std::vector<double>& small = trials[operations + 2 * size + 1].ns;
    result["copies"].push_back({{"bytes", payload_sizes[size]},
                                {"ns", to_json(spread_of(huge))},
                                {"small_pages_ns", to_json(spread_of(small))},
                                {"of_small_pages", to_json(spread_of(ratios(huge, small)))}});
  }
  return result;
}

}  // namespace penstock::bench
