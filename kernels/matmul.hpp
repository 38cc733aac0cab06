#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/number_file.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// matmul: y = activation(x · W + b) for each row x along the last axis, as a layer of a network computes it. The rows
/// of all frames of a batch are one product.
///
/// Input: f32, f16 or bf16 [..., K], whose last extent is fixed. Output: the input's spec, but [..., N].
/// Parameters:
///   weights     the name of a .npy file, W: [K, N] of f16, f32 or f64
///   bias        the name of a .npy file, b: [N]; none by default
///   activation  "none" (default) | "relu": max(y, 0) | "gelu": y / 2 · (1 + tanh(√(2/π) · (y + 0.044715 · y³)))
///   compute     "f32" (default) | "tf32" | "f16" | "bf16": what x and W are rounded to; sums are in f32. The host
///               computes "tf32" in f32
///   weights_in  "device" (default) | "host": W stays in host memory and is streamed to the GPU in tiles for each
///               batch, so that it may be larger than the GPU's memory. No difference on the host backend
///   tile_bytes  of a tile of weights_in = "host"; by default a 24th of W, and 16 MiB at least
///   engine      "lt" (default) | "xt": cuBLAS-Xt on a thread of its own, from W in host memory; on a GPU alone, and
///               the only stage of its pipeline. Like weights_in = "host" it takes f32 alone: W, the input, and compute
///               (or "tf32" by "lt")
///   repeatable  bool, default false: a row has the same bits whatever else its batch holds, on one machine
/// Before the activation each result is within e · √(Σ (x · w)²) of the exact one: e is 1e-6 · √K of f32, 4e-3 of tf32
/// and f16, 1.5e-2 of bf16. b and y are rounded once to the output's type. A NaN or an infinity in a row makes results
/// of that row not finite, and no others.
struct matmul_settings {
  enum class precision : std::uint8_t { f32, tf32, f16, bf16 };
  enum class activation_kind : std::uint8_t { none, relu, gelu };
  enum class weights_place : std::uint8_t { device, host };
  enum class engine_kind : std::uint8_t { lt, xt };

  std::shared_ptr<const number_file> weights;
  std::shared_ptr<const number_file> bias;  ///< nullptr: none
  precision compute = precision::f32;
  activation_kind activation = activation_kind::none;
  bool repeatable = false;
  weights_place weights_in = weights_place::device;  ///< host also with xt
  engine_kind engine = engine_kind::lt;
  std::size_t tile_bytes = 0;  ///< 0: as many as seem right
  std::int64_t inner = 0;      ///< K
  std::int64_t columns = 0;    ///< N
  frame_rows rows;             ///< of the input; the output has as many
  tensor_spec input;
  tensor_spec output;

  /// Rows of the largest batch.
  [[nodiscard]] std::int64_t max_rows(std::int64_t max_frames) const noexcept {
    return rows.count({.frames = max_frames, .leading = input.shape.front()});
  }
  /// The type that x and W are rounded to; f32 for tf32, to which a product rounds by itself.
  [[nodiscard]] element_type factor_type() const noexcept {
    return compute == precision::f16    ? element_type::f16
           : compute == precision::bf16 ? element_type::bf16
                                        : element_type::f32;
  }
};

/// The parameters of products whose weights stay in host memory, once the others are parsed.
inline void parse_massive(const parameters& settings, matmul_settings& parsed) {
  using enum matmul_settings::precision;
  using engine_kind = matmul_settings::engine_kind;
  using weights_place = matmul_settings::weights_place;
  parsed.engine = static_cast<engine_kind>(parse_choice(settings, "engine", {"lt", "xt"}));
  parsed.weights_in = static_cast<weights_place>(parse_choice(settings, "weights_in", {"device", "host"}));
  const bool by_xt = parsed.engine == engine_kind::xt;
  if (by_xt && parsed.weights_in == weights_place::device && settings.has("weights_in")) {
    throw parameter_error("weights_in", "must be \"host\" with engine = \"xt\", or be left out");
  }
  parsed.weights_in = by_xt ? weights_place::host : parsed.weights_in;
  const bool streams = parsed.weights_in == weights_place::host && !by_xt;
  if (settings.has("tile_bytes")) {
    if (!streams) {
      throw parameter_error("tile_bytes", "is for weights_in = \"host\" by engine = \"lt\" alone");
    }
    constexpr std::int64_t least = std::int64_t{64} << 10U;
    constexpr std::int64_t most = std::int64_t{64} << 30U;
    parsed.tile_bytes = static_cast<std::size_t>(parse_integer(settings, "tile_bytes", least, most));
  }
  if (parsed.weights_in == weights_place::device) {
    return;
  }
  const std::string here = by_xt ? "engine = \"xt\"" : "weights_in = \"host\"";
  if (parsed.weights->type() != element_type::f32) {
    throw parameter_error("weights", "must be f32 with " + here + ", which takes them as they lie in the file, not " +
                                         parsed.weights->text());
  }
  if (parsed.input.type != element_type::f32) {
    throw parameter_error("from", here + " takes f32, not " + parsed.input.text());
  }
  if (parsed.compute != f32 && (by_xt || parsed.compute != tf32)) {
    throw parameter_error("compute", by_xt ? "must be \"f32\" with engine = \"xt\""
                                           : "must be \"f32\" or \"tf32\" with weights_in = \"host\"");
  }
  if (parsed.repeatable) {
    throw parameter_error("repeatable", "can't be had with " + here);
  }
  if (settings.has("axis")) {
    throw parameter_error("axis", "can't be had with " + here + ": rows lie along the last axis");
  }
}

/// Throws parameter_error.
[[nodiscard]] inline matmul_settings parse_matmul(const parameters& settings, const tensor_spec& input) {
  using enum element_type;
  require_element_type("matmul", input, {f32, f16, bf16});
  require_fixed_last_axis("matmul", input);
  constexpr std::int64_t most = 0x7fffffff;
  matmul_settings parsed;
  parsed.weights = settings.npy_file("weights");
  const std::vector<std::int64_t>& shape = parsed.weights->shape();
  if (shape.size() != 2 || shape[0] != input.shape.back() || shape[1] > most || shape[0] > most) {
    throw parameter_error("weights", "must be [" + std::to_string(input.shape.back()) + ", N] for an input of " +
                                         input.text() + ", not " + parsed.weights->text());
  }
  parsed.inner = shape[0];
  parsed.columns = shape[1];
  if (settings.has("bias")) {
    parsed.bias = settings.npy_file("bias");
    if (parsed.bias->shape() != std::vector<std::int64_t>{parsed.columns}) {
      throw parameter_error("bias", "must be [" + std::to_string(parsed.columns) + "] for weights of " +
                                        parsed.weights->text() + ", not " + parsed.bias->text());
    }
  }
  parsed.activation =
      static_cast<matmul_settings::activation_kind>(parse_choice(settings, "activation", {"none", "relu", "gelu"}));
  parsed.compute =
      static_cast<matmul_settings::precision>(parse_choice(settings, "compute", {"f32", "tf32", "f16", "bf16"}));
  parsed.repeatable = settings.flag("repeatable", false);
  parsed.rows = frame_rows{input};
  parsed.input = input;
  parsed.output = input;
  parsed.output.shape.back() = parsed.columns;
  parse_massive(settings, parsed);
  return parsed;
}

/// Reads numbers of parameter `key` from `first` on, which are to be rounded to `type`. Throws parameter_error.
inline void read_numbers(const number_file& file, const char* key, element_type type, std::int64_t first,
                         std::span<float> into) {
  // From here on, numbers are rounded to an infinity.
  const float beyond = type == element_type::f16    ? 65520.0F
                       : type == element_type::bf16 ? 0x1.ffp127F
                                                    : std::numeric_limits<float>::infinity();
  try {
    file.read(first, into);
  } catch (const number_file_error& error) {
    throw parameter_error(key, error.what());
  }
  if (std::any_of(into.begin(), into.end(), [beyond](float each) { return std::abs(each) >= beyond; })) {
    throw parameter_error(key, "\"" + file.name() + "\": holds numbers beyond the range of " +
                                   (type == element_type::f16 ? "f16, ±65504" : "bf16, ±3.39e38"));
  }
}

[[nodiscard]] std::unique_ptr<operation> make_matmul_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_matmul_cuda(const operation_request& request);

}  // namespace penstock
