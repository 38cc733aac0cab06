#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace penstock {

/// A pipeline as a page of TRACE describes it.
struct traced_pipeline {
  struct step {
    std::string name;
    std::uint32_t lane = 0;
  };
  std::string name;
  std::vector<step> steps;
};

/// One batch of a daemon's timeline. Times are nanoseconds of the daemon's clock.
struct traced_batch {
  struct request {
    std::int64_t received = 0;
    std::uint32_t client = 0;
    std::uint64_t id = 0;
    std::uint32_t session = 0;
    std::uint64_t sequence = 0;
    bool ended_early = false;
    std::string trace_id;  ///< hexadecimal; "" = none
  };
  struct step {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  std::uint32_t shard = 0;
  std::uint64_t number = 0;
  std::uint32_t pipeline_id = 0;
  std::shared_ptr<const traced_pipeline> pipeline;
  std::uint32_t slot = 0;
  std::string close_reason;
  std::uint64_t frames = 0;
  std::uint64_t request_count = 0;  ///< of which the first ones are in `requests`
  bool failed = false;
  std::int64_t opened = 0;  ///< each of these is at or after the one before it
  std::int64_t closed = 0;
  std::int64_t launched = 0;
  std::int64_t completed = 0;
  std::int64_t returned = 0;           ///< as completed, where that is not known
  std::vector<std::uint32_t> streams;  ///< by lane
  std::vector<step> steps;             ///< by the pipeline's steps; none when it was not timed
  std::vector<request> requests;
};

/// Reads an element of a page's "batches". Throws nlohmann::json::exception when it is none.
[[nodiscard]] traced_batch read_batch(const nlohmann::json& from);
/// Reads an element of a page's "pipelines". Throws as well.
[[nodiscard]] traced_pipeline read_pipeline(const nlohmann::json& from);

}  // namespace penstock
