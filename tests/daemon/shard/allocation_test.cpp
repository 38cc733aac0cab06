// The hot path asks for no memory: a shard on a thread of its own, over each backend, serves thousands of requests.
//
// Told apart by call site: what libzmq and the CUDA driver ask for inside their own functions (a message that is
// received, a copy that libzmq was told to send, a launch) is theirs, and is printed, and libzmq's is held to what its
// messages need; what our code asks for itself, on any thread but the client's, must be nothing. The CUDA runtime is a
// part of our module and has no names in there: its cudaStreamAddCallback keeps 16 bytes for each call, so that it is
// the one place that asks once a batch, at most.

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "daemon/shard/shard.hpp"
#include "proto/message.hpp"
#include "tests/bench/load_client.hpp"
#include "tests/support/allocation_log.hpp"
#include "tests/support/test_backend.hpp"

namespace penstock::testing {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t warm_up_requests = 3000;
constexpr std::size_t requests = 10'000;
constexpr milliseconds no_limit = std::chrono::minutes{2};
constexpr std::size_t device_bytes = std::size_t{1} << 20U;

struct path_shape {
  const char* name;
  completion_mode completion;
  /// Of a frame. Up to 4 KiB go in one part. A result of 64 KiB and more is sent from its slot, or, where a device
  /// reads such payloads in place, from there.
  std::size_t floats;
  std::size_t in_flight;
  bool timed = false;    ///< requests have a deadline
  bool session = false;  ///< they belong to one
  bool shared = false;   ///< their frames lie in an arena
  std::size_t clients = 1;
  bool forked = false;        ///< of four stages: two lanes that part and are joined, and one behind them
  bool drops_oldest = false;  ///< which none has to here: an ERROR asks for memory by design
  bool mapped = false;        ///< by an expression
};

void PrintTo(const path_shape& shape, std::ostream* to) {
  *to << shape.name;
}

std::string stage(const std::string& name, const std::string& rest) {
  return "[[pipeline.stage]]\nname = \"" + name + "\"\n" + rest;
}

settings settings_for(const path_shape& shape) {
  const std::string affine = "op = \"affine\"\na = 2.0\nb = 1.0\n";
  const std::string from_input = "from = \"input\"\n" + affine;
  const std::string stages = shape.forked
                                 ? stage("one", from_input) + stage("other", from_input) +
                                       stage("both", "from = [\"one\", \"other\"]\nop = \"add\"\n") + stage("y", affine)
                                 : stage("y", shape.mapped ? "op = \"map\"\nexpr = \"2 * x + 1\"\n" : affine);
  settings how = parse_settings(fmt::format("config_version = 1\n[[pipeline]]\nname = \"y\"\n"
                                            "input = {{ dtype = \"f32\", shape = [{}] }}\noverflow = \"{}\"\n{}",
                                            shape.floats, shape.drops_oldest ? "drop-oldest" : "reject", stages),
                                "test.toml");
  how.daemon.listen = {"tcp://127.0.0.1:*"};
  how.stream_pool.completion = shape.completion;
  return how;
}

// A shard that serves until the object goes.
class running_shard {
 public:
  running_shard(const settings& settings, const std::string& backend) : device_(open_test_backend(backend)) {
    for (const pipeline_declaration& each : settings.pipelines) {
      plans_.push_back(compile_plan(each, static_cast<std::uint32_t>(plans_.size()), *device_));
    }
    std::promise<shard*> made;
    thread_ = std::thread([this, &settings, &made] {
      shard serving(settings, *device_, plans_, memory_);
      made.set_value(&serving);
      (void)serving.run();
      may_go_.get_future().wait();
    });
    shard_ = made.get_future().get();
    endpoint_ = shard_->endpoints().front();
  }
  ~running_shard() {
    shard_->stop();
    shard_->stop();
    may_go_.set_value();
    thread_.join();
  }
  running_shard(const running_shard&) = delete;
  running_shard& operator=(const running_shard&) = delete;

  [[nodiscard]] const std::string& endpoint() const noexcept { return endpoint_; }
  [[nodiscard]] std::uint32_t lanes() const noexcept { return plans_.front().order.lanes; }
  [[nodiscard]] std::uint64_t batches_done() {
    std::promise<std::uint64_t> done;
    shard_->ask([&done](shard& on) { done.set_value(on.report().batches_done); });
    return done.get_future().get();
  }
  /// Gives the first client an arena, which ends with this object.
  void lend(const std::string& client) {
    arena_.emplace(1, device_bytes, *device_, nobody_);
    std::promise<bool> admitted;
    shard_->ask([this, &client, &admitted](shard& on) {
      admitted.set_value(
          on.admit_arena({.shard = 0, .client = client, .incarnation = 0, .bytes = device_bytes}, *arena_));
    });
    EXPECT_TRUE(admitted.get_future().get());
  }

 private:
  /// The arena is the object's own.
  struct no_owner : arena_owner {
    void take_back(client_arena& /*unused*/) noexcept override {}
  };

  std::unique_ptr<device> device_;
  std::vector<plan> plans_;
  memory_budget memory_{std::size_t{1} << 32U};
  no_owner nobody_;
  std::optional<client_arena> arena_;
  std::promise<void> may_go_;
  std::thread thread_;
  shard* shard_ = nullptr;
  std::string endpoint_;
};

class HotPath : public ::testing::TestWithParam<std::tuple<std::string, path_shape>> {
 protected:
  struct measured {
    std::vector<allocation_place> places;  ///< that asked for memory while the requests went through
    std::uint64_t batches = 0;
  };

  static measured allocations_of(const std::string& backend, const path_shape& shape) {
    allocation_log::exempt_this_thread();
    const settings how = settings_for(shape);
    running_shard serving(how, backend);
    EXPECT_EQ(serving.lanes(), shape.forked ? 2U : 1U);
    std::vector<std::unique_ptr<bench::load_client>> clients;
    for (std::size_t each = 0; each < shape.clients; ++each) {
      clients.push_back(std::make_unique<bench::load_client>(serving.endpoint(), 0, shape.floats, true,
                                                             "client" + std::to_string(each)));
      prepare(*clients.back(), shape, serving);
    }
    (void)run(clients, shape.in_flight, warm_up_requests);
    const std::uint64_t before = serving.batches_done();
    allocation_log::begin();
    const std::size_t results = run(clients, shape.in_flight, requests);
    allocation_log::end();
    EXPECT_EQ(results, requests);
    return {allocation_log::places(), serving.batches_done() - before};
  }

 private:
  static void prepare(bench::load_client& client, const path_shape& shape, running_shard& serving) {
    if (shape.timed) {
      client.limit_requests(std::chrono::minutes{1});
    }
    if (shape.session) {
      client.open_session();
    }
    if (shape.shared) {
      serving.lend("client0");
      client.share({.arena = 1, .input = 0, .output = device_bytes / 2, .output_bytes = device_bytes / 2});
    }
  }

  // So many together, by all clients at once. How many results came.
  static std::size_t run(std::vector<std::unique_ptr<bench::load_client>>& clients, std::size_t in_flight,
                         std::size_t together) {
    std::vector<std::future<bench::load_result>> running;
    for (const auto& each : clients) {
      running.push_back(std::async(std::launch::async, [&each, in_flight, share = together / clients.size()] {
        allocation_log::exempt_this_thread();
        return each->run(in_flight, share, no_limit);
      }));
    }
    std::size_t results = 0;
    for (auto& each : running) {
      results += each.get().results;
    }
    return results;
  }
};

// Whose it is when it is not ours, else "".
std::string other_owner(const allocation_place& place, completion_mode completion, std::uint64_t batches) {
  for (const std::string library : {"libzmq", "libcuda.so"}) {
    if (place.library.rfind(library, 0) == 0) {
      return library;
    }
  }
  // With "auto" the others are polled for.
  const bool a_callback_each = completion == completion_mode::automatic
                                   ? place.count <= batches
                                   : completion == completion_mode::callback && place.count == batches;
  return place.library == "penstock-cuda.so" && a_callback_each ? "cudaStreamAddCallback" : "";
}

// Pieces of memory for each request.
struct libzmq_pieces {
  double in_calls = 0;        ///< of our code
  double on_its_threads = 0;  ///< which read for the daemon and for its clients
};

// In calls it is one for each part of a reply that is not what came in: always 1.000 on the host backend, or 2.000 with
// a payload in a part of its own. Half of one is room enough, and one message more a reply is seen. Its threads ask by
// the read, however many small messages that brings: 0.1 to 2.0, and 4.0 with payloads in parts of their own, which
// have memory of their own at either end. There the bound is one more, and another for the news that a counted reply
// has been let go of.
libzmq_pieces most_of_libzmq(const path_shape& shape) {
  const bool in_parts = !shape.shared && shape.floats * sizeof(float) > wire::max_inline_bytes;
  return in_parts ? libzmq_pieces{3.5, 5} : libzmq_pieces{1.5, 3};
}

TEST_P(HotPath, AsksForNoMemoryAfterItsWarmUp) {
  const auto& [backend, shape] = GetParam();
  if (shape.mapped && backend != "host") {
    GTEST_SKIP() << "this program is no compiler of kernels";
  }
  const measured found = allocations_of(backend, shape);
  std::string ours;
  std::size_t of_callbacks = 0;
  libzmq_pieces of_libzmq;
  for (const allocation_place& each : found.places) {
    const std::string owner = other_owner(each, shape.completion, found.batches);
    of_callbacks += owner == "cudaStreamAddCallback" ? 1U : 0U;
    if (owner.empty()) {
      ours += fmt::format("{} of {} from {} {}, in {} batches\n", each.count, each.library, each.caller, each.entry,
                          found.batches);
      continue;
    }
    const double a_request = static_cast<double>(each.count) / requests;
    fmt::print("{}: {:.3f} a request in {} {}\n", owner, a_request, each.caller, each.entry);
    if (owner == "libzmq") {
      (each.entry.empty() ? of_libzmq.on_its_threads : of_libzmq.in_calls) += a_request;
    }
  }
  EXPECT_EQ(ours, "");
  EXPECT_LE(of_callbacks, 1U);
  const libzmq_pieces most = most_of_libzmq(shape);
  EXPECT_LE(of_libzmq.in_calls, most.in_calls);
  EXPECT_LE(of_libzmq.on_its_threads, most.on_its_threads);
  EXPECT_GE(of_libzmq.in_calls, 0.99) << "the log sees nothing: each reply has memory of its own";
}

constexpr auto by_callback = completion_mode::callback;
constexpr auto polled = completion_mode::poll;
constexpr auto by_itself = completion_mode::automatic;
constexpr std::size_t small = 64;
constexpr std::size_t large = 32768;

const path_shape shapes[] = {
    {.name = "SmallByCallback", .completion = by_callback, .floats = small, .in_flight = 32},
    {.name = "SmallPolled", .completion = polled, .floats = small, .in_flight = 32},
    {.name = "SmallByItself", .completion = by_itself, .floats = small, .in_flight = 32},
    {.name = "LargeByCallback", .completion = by_callback, .floats = large, .in_flight = 8},
    {.name = "LargePolled", .completion = polled, .floats = large, .in_flight = 8},
    {.name = "LargeByItself", .completion = by_itself, .floats = large, .in_flight = 8},
    {.name = "OneAtATime", .completion = by_callback, .floats = 1024, .in_flight = 1},
    {.name = "OneAtATimeByItself", .completion = by_itself, .floats = 1024, .in_flight = 1},
    {.name = "InAPartOfItsOwn", .completion = by_callback, .floats = 2048, .in_flight = 32},
    {.name = "InPlace", .completion = by_callback, .floats = 98304, .in_flight = 4},
    {.name = "Timed", .completion = by_callback, .floats = small, .in_flight = 32, .timed = true},
    {.name = "InASession", .completion = by_callback, .floats = small, .in_flight = 32, .session = true},
    {.name = "TimedInASession", .completion = polled, .floats = small, .in_flight = 32, .timed = true, .session = true},
    {.name = "Shared", .completion = by_callback, .floats = 16384, .in_flight = 8, .shared = true},
    {.name = "SharedPolled", .completion = polled, .floats = 16384, .in_flight = 8, .shared = true},
    {.name = "OfManyClients", .completion = by_callback, .floats = 1024, .in_flight = 8, .timed = true, .clients = 4},
    {.name = "ForkedByCallback", .completion = by_callback, .floats = small, .in_flight = 32, .forked = true},
    {.name = "ForkedPolled", .completion = polled, .floats = small, .in_flight = 32, .forked = true},
    {.name = "ForkedByItself", .completion = by_itself, .floats = small, .in_flight = 32, .forked = true},
    {.name = "ForkedLarge", .completion = by_callback, .floats = large, .in_flight = 8, .forked = true},
    {.name = "Mapped", .completion = by_callback, .floats = small, .in_flight = 32, .mapped = true},
    {.name = "MappedLarge", .completion = by_callback, .floats = large, .in_flight = 8, .mapped = true},
    {.name = "DroppingOldest", .completion = by_callback, .floats = small, .in_flight = 32, .drops_oldest = true},
};

INSTANTIATE_TEST_SUITE_P(EachWay, HotPath,
                         ::testing::Combine(::testing::ValuesIn(test_backends()), ::testing::ValuesIn(shapes)),
                         [](const auto& each) {
                           return std::get<1>(each.param).name + ("_" + std::get<0>(each.param));
                         });

}  // namespace
}  // namespace penstock::testing
