#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <poll.h>

#include "proto/message.hpp"

namespace penstock::live {

/// One output of one result, on its way out of a sink. Views, valid for the call.
struct result_message {
  std::string_view session;  ///< without its epoch
  std::string_view output;
  std::string_view name;             ///< topic or path
  std::span<const std::byte> bytes;  ///< whole items
  wire::tensor_header shape{};
  std::string_view element;  ///< "f32": the type of its numbers
  std::size_t item_bytes = 1;
  std::size_t unit_bytes = 1;  ///< a result has a multiple of so many: of a frame, or of an item where frames vary
  /// Number of its first item in its stream: an output of a session. With an account it says where in the stream the
  /// items lie, so that a gap is a jump; else the items are counted.
  std::uint64_t offset = 0;
  bool knows_place = false;  ///< `offset` is from an account
  bool begins = false;       ///< its first item does not follow the last one of its stream: start, gap, new epoch
  double item_rate = 0;      ///< items per second; 0: not known
  std::optional<std::int64_t> time_ns{};  ///< of its first item, since 1970 UTC
  std::optional<wire::sample_account> account{};
  std::int64_t index = 0;      ///< of the input's sample at which it stands, in the account's numbers
  std::uint64_t sequence = 0;  ///< its number in its stream, of those that came
  std::uint32_t frames = 1;
};

enum class write_progress : std::uint8_t {
  written,
  dropped,  ///< not all receivers got it, or none: it is counted
  full,     ///< nobody takes it now: wait for a descriptor, and write it again
  failed    ///< it can't go on: make a new writer after a pause (back-off), and write it again; `failure` says why
};

/// Writes what a sink gets to a network or a file. Made on the sink's thread, and used and destroyed there; making it
/// throws std::runtime_error when it can't begin. It does not wait, but for a disk.
class result_writer {
 public:
  virtual ~result_writer() = default;

  [[nodiscard]] virtual write_progress write(const result_message& message) = 0;
  /// Nothing waits to be written just now. Called before `descriptors`, too.
  virtual void idle() {}
  /// Appends what to wait for, after `full` and `idle`; where that is nothing after `full`, try again soon.
  virtual void descriptors(std::vector<pollfd>& /*wanted*/) const {}
  /// Of the last `write` that failed.
  [[nodiscard]] virtual std::string_view failure() const { return {}; }
};

}  // namespace penstock::live
