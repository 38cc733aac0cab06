#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <penstock/export.hpp>

namespace penstock {

/// One tensor of a pipeline, as one frame of it travels. Integer IQ has dtype "u8", "i8" or "i16" and a last extent
/// of 2.
struct PENSTOCK_EXPORT tensor_info {
  std::string name;                 ///< "input", or the stage that makes it
  std::string dtype;                ///< "u8", "i8", "i16", "i32", "f32", "c64"
  std::string element;              ///< what it means: as dtype, or "cu8", "ci8", "ci16", "cf32"
  std::vector<std::int64_t> shape;  ///< of one frame
  bool variable = false;            ///< shape[0] is only the most that it can be
  std::string op;                   ///< the operator that makes it; "" for the input
  /// Steps of the pipeline's input, along its first extent, that one index of shape[0] covers: a spectrum of each 256
  /// samples has 256. 1 too where shape[0] does not lie along time.
  std::uint64_t steps = 1;

  /// Bytes of one element on the wire; 0 for a dtype that this version does not know.
  [[nodiscard]] std::size_t item_bytes() const noexcept;
  /// Bytes of one frame whose leading extent is `leading`; 0 stands for shape[0]. 0 when it can't be computed.
  [[nodiscard]] std::size_t frame_bytes(std::int64_t leading = 0) const noexcept;
  /// "u8[1024, 2]", "f32[max 512]".
  [[nodiscard]] std::string text() const;

  bool operator==(const tensor_info&) const = default;
};

struct pipeline_info {
  std::string name;
  std::uint32_t id = 0;          ///< on the wire; may change when the daemon restarts
  std::uint32_t max_frames = 0;  ///< of one request
  tensor_info input;
  std::vector<tensor_info> outputs;
  bool keeps_state = false;  ///< it remembers what came before: its frames belong to a session
  bool ordered = true;       ///< results of a session come in its order
  /// Requests of several frames in a session have a leading extent that is a multiple of it.
  std::uint64_t period = 1;
};

/// What the daemon said of itself and granted.
struct server_info {
  std::string name;      ///< "penstockd 0.1.0"
  std::string instance;  ///< changes with every start of the daemon
  std::uint32_t credit_requests = 0;
  std::uint64_t credit_bytes = 0;
  std::uint64_t max_request_bytes = 0;
  std::uint64_t shared_bytes = 0;  ///< of memory that a client on its machine may share with it; 0 = none
  std::uint32_t shard = 0;         ///< the one that this client is at
  /// Where this client would reach each shard; "" where it has no address for it. Empty when there is only this one.
  std::vector<std::string> shards;
};

}  // namespace penstock
