#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/batch/slot_ring.hpp"
#include "daemon/pipeline/plan.hpp"

namespace penstock::testing {

/// What a test may change about a plan.
struct plan_wish {
  std::vector<std::int64_t> shape{16};
  bool variable = false;
  element_type type = element_type::u8;
  std::int64_t max_frames = 8;
  std::chrono::nanoseconds max_delay = std::chrono::microseconds{500};
  stream_priority priority = stream_priority::normal;
  overflow_policy overflow = overflow_policy::reject;
  bool ordered = true;
  bool keeps_state = false;     ///< a third stage with an output, "total"
  bool rewrites_input = false;  ///< only the first stage, whose output may lie where the input does; no state
  bool blocks = false;          ///< plan::blocks, though it has two stages
  std::uint32_t max_lanes = 1;  ///< the streams that a batch may run on
};

/// What "total" does with frames of that spec: the i32 sum of all bytes that the session has had, up to and with each
/// frame. It goes by session_frame alone, as an operator must, and gives wrong sums when what that says does not agree
/// with what the state holds.
[[nodiscard]] std::unique_ptr<operation> make_session_total(const tensor_spec& input);

/// What "next" does.
[[nodiscard]] std::unique_ptr<operation> make_next(const tensor_spec& input);

/// A plan of two trivial stages with an output each: "next" adds 1 to every byte of a frame, "sum" is the i32 sum of
/// its bytes.
[[nodiscard]] plan hand_made_plan(std::uint32_t id, const plan_wish& wish = {});

/// Plans that are numbered as they stand.
[[nodiscard]] std::vector<plan> hand_made_plans(const std::vector<plan_wish>& wishes);

/// The same by other means: what a right answer to a payload holds.
[[nodiscard]] std::string next_of(const std::string& payload);
[[nodiscard]] std::vector<std::int32_t> sums_of(const std::string& payload, std::size_t frames);
/// A payload that is like no other: bytes that depend on `seed` and on their place.
[[nodiscard]] std::string payload_of(std::size_t bytes, std::uint64_t seed);

}  // namespace penstock::testing
