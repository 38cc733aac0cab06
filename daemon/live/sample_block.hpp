#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/config/source_declaration.hpp"
#include "daemon/live/sample_stream.hpp"

namespace penstock::live {

/// Which samples of its source's clock a block has.
struct block_account {
  std::int64_t index = 0;         ///< of the first sample
  std::int64_t time_ns = 0;       ///< of that sample, since 1970 UTC
  std::uint64_t lost_before = 0;  ///< samples known to be lost before it (or within it, where gaps are spliced)
  std::uint32_t epoch = 0;
  std::uint32_t filled = 0;  ///< samples of the block that are filled in
  time_quality quality = time_quality::none;
  std::uint8_t flags = 0;  ///< of wire::sample_flag

  bool operator==(const block_account&) const = default;
};

/// Samples that become one request.
struct sample_block {
  stream_number stream = 0;
  std::byte* bytes = nullptr;
  std::size_t samples = 0;  ///< with those that are filled in
  block_account account;

  /// Samples that came from the source.
  [[nodiscard]] std::size_t real() const noexcept { return samples - account.filled; }
};

/// Where an assembler has its memory from, and its blocks go. Thread: the source's.
class block_store {
 public:
  virtual ~block_store() = default;
  /// Memory for a block. nullptr: there is none, and what should go there is dropped.
  [[nodiscard]] virtual std::byte* take() = 0;
  /// Takes over the block and its memory.
  virtual void put(const sample_block& block) = 0;
  /// Memory from `take` that is not needed.
  virtual void give_back(std::byte* memory) = 0;
};

/// What assembler and queue must know of a source.
struct block_plan {
  std::size_t sample_bytes = 1;
  std::size_t block = 1;  ///< samples
  std::size_t frame = 0;  ///< a block has a multiple of so many samples; 0: any number
  double rate = 0;        ///< samples per second; 0: not known
  gap_settings gap;
  overrun_policy overrun = overrun_policy::drop_oldest;
  std::size_t queue = 0;             ///< bytes
  std::size_t streams = 1;           ///< at most
  std::uint64_t max_fill = 0;        ///< samples, of gap.max_fill
  std::vector<std::byte> missing{};  ///< a sample that stands for a missing one; empty: it is zero

  [[nodiscard]] std::size_t block_bytes() const noexcept { return block * sample_bytes; }
  /// Writes samples that stand for missing ones.
  void fill(std::byte* to, std::size_t samples) const noexcept;
};

/// Of a source with that rate; 0: not known.
[[nodiscard]] block_plan plan_of(const source_declaration& source, double rate);

}  // namespace penstock::live
