#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/export.hpp>

namespace penstock {

/// One output of a result: a view of the message that was received, or of the memory that is shared with the daemon,
/// valid while a copy of its result lives.
struct tensor_view {
  std::string_view name;   ///< the stage that made it
  std::string_view dtype;  ///< "u8", "i8", "i16", "i32", "f32", "c64"
  /// Little-endian, row-major, at ANY alignment: copy it out, or read it with memcpy.
  std::span<const std::byte> bytes;
  std::array<std::int64_t, 8> extents{};
  std::size_t dimensions = 0;

  /// shape[0] is the number of frames.
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept { return {extents.data(), dimensions}; }

  /// The elements, copied. Throws std::invalid_argument when the bytes are no whole number of them.
  template <class Element>
  [[nodiscard]] std::vector<Element> to_vector() const {
    static_assert(std::is_trivially_copyable_v<Element>);
    if (bytes.size() % sizeof(Element) != 0) {
      throw std::invalid_argument("the tensor holds no whole number of such elements");
    }
    std::vector<Element> out(bytes.size() / sizeof(Element));
    if (!out.empty()) {
      std::memcpy(out.data(), bytes.data(), bytes.size());
    }
    return out;
  }
};

/// What came back for one request. Copies are cheap and share what was received. One that came through shared memory
/// keeps its room there until the last copy has gone, on whatever thread, also when the client has gone before.
class PENSTOCK_EXPORT result {
 public:
  /// For the client: `storage` keeps what the views look at.
  result(std::uint64_t request_id, std::uint32_t frames, std::vector<tensor_view> outputs,
         std::shared_ptr<const void> storage)
      : request_id_(request_id), frames_(frames), outputs_(std::move(outputs)), storage_(std::move(storage)) {}

  [[nodiscard]] std::uint64_t request_id() const noexcept { return request_id_; }
  [[nodiscard]] std::uint32_t frames() const noexcept { return frames_; }
  /// In the order in which the pipeline declares them.
  [[nodiscard]] std::span<const tensor_view> outputs() const noexcept { return outputs_; }
  /// Throws std::out_of_range when the pipeline has no output of that name.
  [[nodiscard]] const tensor_view& output(std::string_view name) const;
  /// From the call of submit to the arrival of the reply.
  [[nodiscard]] std::chrono::nanoseconds latency() const noexcept { return latency_; }
  void set_latency(std::chrono::nanoseconds latency) noexcept { latency_ = latency; }

 private:
  std::uint64_t request_id_;
  std::uint32_t frames_;
  std::vector<tensor_view> outputs_;
  std::shared_ptr<const void> storage_;
  std::chrono::nanoseconds latency_{};
};

}  // namespace penstock
