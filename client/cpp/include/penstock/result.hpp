#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/export.hpp>
#include <penstock/sample_account.hpp>

namespace penstock {

/// An output of a result: a view of the received message or of shared memory. Valid while a copy of the result exists.
struct tensor_view {
  std::string_view name;   ///< name of the stage
  std::string_view dtype;  ///< as in tensor_info
  /// Little-endian, row-major, at ANY alignment: copy it out, or read it with memcpy.
  std::span<const std::byte> bytes;
  std::array<std::int64_t, 8> extents{};
  std::size_t dimensions = 0;
  /// Of a result with an account: the index, in the sender's numbers, of the sample at which the first element stands;
  /// without index_known, counted from the request's first sample. It can lie before the request's own samples.
  std::int64_t index = 0;

  /// shape[0] is the number of frames.
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept { return {extents.data(), dimensions}; }

  /// A copy of the elements: std::int64_t for "i64", penstock::float16 for "f16", std::complex<float> for "c64", bool
  /// for "bool". Throws std::invalid_argument when the bytes are not a whole number of elements.
  template <class Element>
  [[nodiscard]] std::vector<Element> to_vector() const {
    static_assert(std::is_trivially_copyable_v<Element>);
    if (bytes.size() % sizeof(Element) != 0) {
      throw std::invalid_argument("the tensor holds no whole number of such elements");
    }
    std::vector<Element> out(bytes.size() / sizeof(Element));
    if constexpr (std::is_same_v<Element, bool>) {
      for (std::size_t at = 0; at < out.size(); ++at) {
        out[at] = bytes[at] != std::byte{0};
      }
    } else if (!out.empty()) {
      std::memcpy(out.data(), bytes.data(), bytes.size());
    }
    return out;
  }
};

/// The result of a request. Copies are cheap and share the data. A result in shared memory keeps its block until the
/// last copy is destroyed, on any thread, also after the client.
class PENSTOCK_EXPORT result {
 public:
  /// For the client's use: `storage` owns the data of the views.
  result(std::uint64_t request_id, std::uint32_t frames, std::vector<tensor_view> outputs,
         std::shared_ptr<const void> storage)
      : request_id_(request_id), frames_(frames), outputs_(std::move(outputs)), storage_(std::move(storage)) {}

  [[nodiscard]] std::uint64_t request_id() const noexcept { return request_id_; }
  [[nodiscard]] std::uint32_t frames() const noexcept { return frames_; }
  /// In the pipeline's order.
  [[nodiscard]] std::span<const tensor_view> outputs() const noexcept { return outputs_; }
  /// Throws std::out_of_range when the pipeline has no output of that name.
  [[nodiscard]] const tensor_view& output(std::string_view name) const;
  /// Time from submit to the arrival of the reply.
  [[nodiscard]] std::chrono::nanoseconds latency() const noexcept { return latency_; }
  void set_latency(std::chrono::nanoseconds latency) noexcept { latency_ = latency; }
  /// Which samples it is of, where the request said it and the daemon knows accounts.
  [[nodiscard]] const std::optional<sample_account>& account() const noexcept { return account_; }
  void set_account(const std::optional<sample_account>& account) noexcept { account_ = account; }

 private:
  std::uint64_t request_id_;
  std::uint32_t frames_;
  std::vector<tensor_view> outputs_;
  std::shared_ptr<const void> storage_;
  std::chrono::nanoseconds latency_{};
  std::optional<sample_account> account_;
};

}  // namespace penstock
