#include "tests/bench/timing/kept_batches.hpp"

#include <chrono>
#include <memory>
#include <vector>

#include "daemon/device/backend.hpp"
#include "daemon/pipeline/check.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/client_table.hpp"
#include "daemon/ring/ring.hpp"
#include "daemon/timeline/recorder.hpp"

namespace penstock::bench {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t slots = 16;             // the daemon's default
constexpr std::size_t messages_a_clock = 16;  // a shard reads it once for so many, which have one time then
constexpr timing_settings untimed{.batches_per_second = 0};

pipeline_declaration declaration_of(std::size_t requests) {
  pipeline_declaration made;
  made.name = "y";
  made.input = {element_type::f32, {64}, false};
  made.batch.max_frames = static_cast<std::int64_t>(requests);
  stage_declaration stage;
  stage.name = "y";
  stage.op = "affine";
  stage.settings.set("a", 2.0);
  stage.settings.set("b", 1.0);
  made.stages.push_back(std::move(stage));
  return check_pipeline(std::move(made));
}

/// Slots whose batches are full, and the recorder that is told of them.
class rig {
 public:
  explicit rig(std::size_t requests)
      : opened_(open_device(
            {.backend = backend_choice::host, .ids = {0}, .every_device = false, .shards = 1, .host_threads = 1})),
        requests_(slots * requests) {
    plans_.push_back(compile_plan(declaration_of(requests), 0, *opened_.device));
    clocks_ = std::make_unique<clock_pool>(*opened_.device, plans_, 0);
    told_ = std::make_unique<recorder>(*opened_.device, *clocks_, plans_, slots, untimed, clock::now);
    for (std::size_t at = 0; at < slots; ++at) {
      slots_.push_back(std::make_unique<slot>());
      fill(*slots_.back(), at, requests);
    }
  }

  void turn(std::size_t batch) {
    slot& of = *slots_[batch % slots];
    const time_point now = clock::now();
    told_->turn(now);
    told_->opened(of);
    told_->closed(of);
    of.work.launched = now;
    told_->launching(of);
    told_->completed(of);
    for (const request* each : of.work.requests) {
      told_->replied(*each);
    }
    told_->collected();
  }

 private:
  void fill(slot& which, std::size_t at, std::size_t requests) {
    which.index = static_cast<std::uint32_t>(at);
    which.streams = {0};
    which.work.pipeline = &plans_.front();
    which.work.frames = static_cast<std::int64_t>(requests);
    client_record& client = *clients_.admit("client", clock::now());
    clock::time_point received;
    for (std::size_t place = 0; place < requests; ++place) {
      request& made = requests_[at * requests + place];
      received = place % messages_a_clock == 0 ? clock::now() : received;
      made.client = &client;
      made.pipeline = &plans_.front();
      made.id = place;
      made.frames = 1;
      made.received = received;
      which.work.requests.push_back(&made);
    }
  }

  opened_device opened_;
  std::vector<plan> plans_;
  std::unique_ptr<clock_pool> clocks_;
  std::unique_ptr<recorder> told_;
  client_table clients_{1, 1024};
  std::vector<request> requests_;
  std::vector<std::unique_ptr<slot>> slots_;
};

}  // namespace

double nanoseconds_to_keep(std::size_t requests, std::size_t batches) {
  rig of(requests);
  const std::size_t warm = untimed.recent_batches;
  clock::time_point begin;
  for (std::size_t batch = 0; batch < warm + batches; ++batch) {
    if (batch == warm) {
      begin = clock::now();
    }
    of.turn(batch);
  }
  return std::chrono::duration<double, std::nano>(clock::now() - begin).count() / static_cast<double>(batches);
}

}  // namespace penstock::bench
