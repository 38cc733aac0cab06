#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <penstock/export.hpp>

namespace penstock {

/// A tensor of a pipeline, per frame. Integer IQ has dtype "u8", "i8" or "i16" and a last extent of 2.
struct PENSTOCK_EXPORT tensor_info {
  std::string name;  ///< "input", or the name of the stage
  /// "u8", "u16", "i8", "i16", "i32", "i64", "f16", "bf16" (float16.hpp), "f32", "f64", "c64" (two floats), "bool" (a
  /// byte, 0 or 1); others of a later daemon.
  std::string dtype;
  std::string element;              ///< meaning: as dtype, or "cu8", "ci8", "ci16", "cf32"
  std::vector<std::int64_t> shape;  ///< of one frame
  bool variable = false;            ///< shape[0] is a maximum
  std::string op;                   ///< operator of the stage; "" for the input
  /// Input samples, along the first dimension, per `indices` of shape[0]: 256 for a spectrum of 256 samples. 1 if
  /// shape[0] is not a time dimension.
  std::uint64_t steps = 1;
  std::uint64_t indices = 1;  ///< more than 1 only behind a `resample`
  std::uint64_t axis = 0;     ///< of the input: the dimension of `shape` that is time

  /// Bytes of one element on the wire; 0 for an unknown dtype.
  [[nodiscard]] std::size_t item_bytes() const noexcept;
  /// Bytes of a frame with the leading extent `leading` (0: shape[0]). 0 on overflow or for an unknown dtype.
  [[nodiscard]] std::size_t frame_bytes(std::int64_t leading = 0) const noexcept;
  /// Of the input: samples of a frame, along `axis`.
  [[nodiscard]] std::int64_t samples() const noexcept;
  /// "u8[1024, 2]", "f32[max 512]".
  [[nodiscard]] std::string text() const;

  bool operator==(const tensor_info&) const = default;
};

/// A pipeline of the daemon.
struct PENSTOCK_EXPORT pipeline_info {
  std::string name;
  std::uint32_t id = 0;          ///< on the wire; may change when the daemon restarts
  std::uint32_t max_frames = 0;  ///< of one request
  tensor_info input;
  std::vector<tensor_info> outputs;
  bool keeps_state = false;  ///< needs a session, whose frames share state
  bool ordered = true;       ///< results of a session arrive in order
  /// In a session, requests of several frames need a leading extent that is a multiple of this.
  std::uint64_t period = 1;
  /// All inputs; of several, `input` is the first. A request's bytes are the frames of each, one input behind the
  /// other.
  std::vector<tensor_info> inputs;

  /// Bytes of one frame of all inputs with the leading extent `leading` of variable ones (0: shape[0]). 0 on overflow
  /// or for an unknown dtype.
  [[nodiscard]] std::size_t frame_bytes(std::int64_t leading = 0) const noexcept;
};

/// Properties of the daemon, and what it granted to this client.
struct server_info {
  std::string name;      ///< "penstockd 0.1.0"
  std::string instance;  ///< changes with every start of the daemon
  std::uint32_t credit_requests = 0;
  std::uint64_t credit_bytes = 0;
  std::uint64_t max_request_bytes = 0;
  std::uint64_t shared_bytes = 0;  ///< limit of shared memory for a client on its machine; 0 = none
  std::uint32_t shard = 0;         ///< the shard that this client is connected to
  /// Address of each shard for this client; "" = not reachable. Empty when there is only one shard.
  std::vector<std::string> shards;
};

}  // namespace penstock
