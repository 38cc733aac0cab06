#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/shard/dispatcher.hpp"
#include "tests/bench/overlap/overlap_ways.hpp"

namespace penstock::bench {

/// One bar of a timeline: what a stream did, by the device's clock.
struct timeline_bar {
  std::uint32_t stream = 0;
  std::string what;  ///< "copy in", "compute" or "copy out"
  double begin_us = 0;
  double end_us = 0;
};

/// The daemon's own core: its ring, wheel, batcher and dispatcher, one request a chunk, without sockets. The payloads
/// lie in the slots already, as those of clients that share memory with the daemon do.
class core_way final : public overlap_way {
 public:
  /// `timed`: every batch is timed with device events, for `timeline`.
  core_way(device& on, const overlap_work& what, std::size_t chunks, completion_mode mode, bool timed = false);
  ~core_way() override;

  double run() override;
  /// What the streams did in the last run, from its first step on; empty unless every batch of it was timed.
  [[nodiscard]] std::vector<timeline_bar> timeline();

 private:
  // Counts terminal replies: every one has to be a result.
  class reply_count final : public reply_port {
   public:
    void result(const request& of, slot& from) override;
    void released(const request& /*of*/) override {}
    void error(const request& of, wire::status code, const wire::error_body& why) override;
    std::size_t results = 0;
    std::size_t errors = 0;
  };
  // The payloads lie in the slots: nothing is parked, and nothing copied.
  class nothing_parked final : public payload_store {
   public:
    std::span<std::byte> parked(std::uint32_t place) noexcept override;
    void unpark(std::uint32_t place) noexcept override;
  };

  void fill_slots();
  void submit_chunk();
  void wait_for_news();

  std::vector<plan> plans_;
  std::size_t chunks_;
  wake_signal signal_;
  completion_queue completed_{signal_};
  ring slots_;
  state_pool states_;
  clock_pool clocks_;
  wheel streams_;
  account counters_;
  client_table clients_;
  reply_count replies_;
  ledger book_;
  nothing_parked payloads_;
  recorder timeline_;
  dispatcher path_;
  std::uint64_t sent_ = 0;
};

}  // namespace penstock::bench
