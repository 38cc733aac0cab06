#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "daemon/device/cuda/cuda_context.hpp"
#include "daemon/device/cuda/cuda_memory.hpp"
#include "daemon/device/cuda/cuda_stream.hpp"
#include "daemon/device/device.hpp"

namespace penstock {

/// One GPU, by its primary context. Any thread may create; what it creates belongs to the thread that uses it.
class cuda_device final : public device {
 public:
  /// Throws device_error with what is missing and what to do.
  explicit cuda_device(int id);

  [[nodiscard]] const device_facts& facts() const noexcept override { return facts_; }
  [[nodiscard]] std::unique_ptr<stream> open_stream(stream_priority priority) override;
  [[nodiscard]] std::unique_ptr<stream> open_blocking_stream() override;
  [[nodiscard]] std::unique_ptr<event> open_event(bool timed) override;
  [[nodiscard]] std::unique_ptr<operation> compile(std::string_view name, const operation_request& request) override;
  /// Page-locks the memory for every device. Blocks.
  void pin(std::byte* memory, std::size_t bytes) override;
  void unpin(std::byte* memory) noexcept override;
  /// Asks about an event that was reached long ago: a context that has failed answers even that with its error.
  [[nodiscard]] fault health() noexcept override;

 private:
  // Zeroed, page-locked for every device, aligned to 256 bytes. Blocks.
  [[nodiscard]] std::byte* take_pinned(std::size_t bytes) override;
  void free_pinned(std::byte* memory) noexcept override;
  // Zeroed, aligned to 256 bytes. Blocks.
  [[nodiscard]] std::byte* take_device(std::size_t bytes) override;
  void free_device(std::byte* memory) noexcept override;

  [[nodiscard]] std::unique_ptr<exported_memory> take_exported(std::size_t bytes) override;

  std::shared_ptr<cuda_context> context_;  // shared with the completions, which may outlive a failed device
  device_facts facts_;
  std::optional<cuda_exporter> exporter_;
  int lowest_priority_ = 0;
  int highest_priority_ = 0;
  std::unique_ptr<event_handle> probe_;
};

}  // namespace penstock
