#pragma once

#include <memory>

#include "kernels/matmul.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// Products whose weights stay in host memory (matmul_settings::placement), on a GPU. Weights may be larger than the
/// GPU's memory. Both throw parameter_error and std::runtime_error.

/// By cuBLASLt: weights are copied to the device in tiles, rows of W, on a stream of the operation's own, while the
/// tile before is multiplied; out is the sum over the tiles, in f32. Three tiles lie on the device. All rows of a batch
/// use a tile once it is there. Runs on several streams share the tiles and wait for each other by events alone.
[[nodiscard]] std::unique_ptr<operation> make_matmul_streamed(const matmul_settings& settings, std::int64_t max_frames);

/// What a product leaves where cuBLASLt can't fuse it: out[r, n] = activation(out[r, n] + bias[n]), enqueued on a
/// kernel_queue. nullptr: no bias.
[[nodiscard]] fault finish_rows(void* stream, std::int64_t multiprocessors, const matmul_settings& settings,
                                const float* bias, float* out, std::int64_t rows) noexcept;

/// By cuBLAS-Xt: `run` takes no stream and host memory, and returns when the product is there
/// (device::open_blocking_stream).
[[nodiscard]] std::unique_ptr<operation> make_matmul_xt(const matmul_settings& settings, std::int64_t max_frames);

}  // namespace penstock
