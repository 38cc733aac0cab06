#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "daemon/pipeline/plan.hpp"
#include "daemon/request/request.hpp"
#include "kernels/tensor.hpp"
#include "proto/control.hpp"
#include "proto/message.hpp"

// A pipeline's tensors as messages carry them. Pure functions; any thread.

namespace penstock {

/// The element type on the wire. Integer IQ travels as integers with a last dimension of 2, cf32 as 64-bit complex.
[[nodiscard]] wire::data_type wire_type(element_type type) noexcept;
/// True if the type gets a last dimension of 2 on the wire.
[[nodiscard]] bool travels_as_pairs(element_type type) noexcept;
/// The tensor header of `frames` frames of a spec whose leading dimension is `leading`.
[[nodiscard]] wire::tensor_header wire_header(const tensor_spec& spec, std::uint32_t frames,
                                              std::int64_t leading) noexcept;
/// The tensor's entry in WELCOME.
[[nodiscard]] wire::tensor_description describe(const tensor_spec& spec, std::string name, std::string op);

/// Bytes of a request's frames of one input.
[[nodiscard]] std::size_t bytes_of_input(const request& accepted, std::size_t input) noexcept;
/// Where they begin in the memory that a shared request names for its inputs.
[[nodiscard]] std::size_t offset_of_input(const request& accepted, std::size_t input) noexcept;

/// The part of one output that belongs to one request.
struct result_extent {
  std::int64_t leading = 0;  ///< of each frame; may be 0
  std::size_t bytes = 0;     ///< of all frames; they are contiguous
};

/// One output of a result, where the host can read it.
struct published_output {
  std::span<const std::byte> bytes;
  std::int64_t leading = 0;  ///< leading dimension of each frame
};

/// `steps_before`: input steps of the session before this request. `leading`: leading dimension of the request's input
/// frames. All frames of a request yield the same length (plan::period).
[[nodiscard]] result_extent extent_of(const plan_buffer& output, std::int64_t steps_before, std::int64_t leading,
                                      std::uint32_t frames) noexcept;

/// Bytes of the header of a request's result: with its account, if it has one.
[[nodiscard]] std::size_t result_header_bytes(const request& done) noexcept;
/// The index of the sample at which an output of a request with an account stands, in its sender's numbers.
[[nodiscard]] std::int64_t index_of_output(const request& done, std::size_t output) noexcept;
/// The earliest step of its session at which an output of a request stands, at most that of its own first sample.
[[nodiscard]] std::int64_t first_step_of(const request& accepted) noexcept;
/// The account of a result: that of its request, with the filled samples of earlier ones that its outputs reach back
/// to.
[[nodiscard]] wire::sample_account account_of_result(const request& done) noexcept;
/// Writes the account of the result of a request that has one, and behind it where each output stands: what lies
/// between byte 64 and the end of the result's header.
void encode_account(const request& done, std::span<std::byte> out) noexcept;

}  // namespace penstock
