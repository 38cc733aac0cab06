#pragma once

#include <cstdint>

#include "kernels/tensor.hpp"
#include "proto/control.hpp"
#include "proto/message.hpp"

namespace penstock {

/// How an element type travels: integer IQ as integers (with a last dimension of 2), cf32 as a 64-bit complex.
[[nodiscard]] wire::data_type wire_type(element_type type) noexcept;
/// Whether elements of that type have a last dimension of 2 of their own on the wire.
[[nodiscard]] bool travels_as_pairs(element_type type) noexcept;
/// The tensor header of `frames` frames of a spec whose leading dimension is `leading`.
[[nodiscard]] wire::tensor_header wire_header(const tensor_spec& spec, std::uint32_t frames,
                                              std::int64_t leading) noexcept;
/// How WELCOME describes it.
[[nodiscard]] wire::tensor_description describe(const tensor_spec& spec, std::string name, std::string op);

}  // namespace penstock
