#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cublas.hpp"
#include "kernels/kernel_queue.hpp"
#include "kernels/launch.cuh"
#include "kernels/matmul_massive.hpp"
#include "kernels/pinned_file.hpp"

namespace penstock {
namespace {

/// A tile's memory on the device, and the events between its copy and its products.
class tile_buffer {
 public:
  explicit tile_buffer(std::size_t bytes) : memory_(bytes) {
    require_cuda(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming), "create an event");
    require_cuda(cudaEventCreateWithFlags(&used_, cudaEventDisableTiming), "create an event");
  }
  tile_buffer(const tile_buffer&) = delete;
  tile_buffer& operator=(const tile_buffer&) = delete;
  ~tile_buffer() {
    cudaEventDestroy(copied_);
    cudaEventDestroy(used_);
  }

  [[nodiscard]] std::byte* data() noexcept { return memory_.data(); }

  /// Copies a tile once the last product of the one before is done; what is enqueued on `stream` then follows it.
  fault fill(const std::byte* from, std::size_t bytes, cudaStream_t copies, cudaStream_t stream) noexcept {
    cudaError_t met = cudaStreamWaitEvent(copies, used_, 0);
    met = met != cudaSuccess ? met : cudaMemcpyAsync(memory_.data(), from, bytes, cudaMemcpyHostToDevice, copies);
    met = met != cudaSuccess ? met : cudaEventRecord(copied_, copies);
    return cuda_fault(met != cudaSuccess ? met : cudaStreamWaitEvent(stream, copied_, 0));
  }
  /// What is enqueued on `stream` so far is the last that reads it.
  fault release(cudaStream_t stream) noexcept { return cuda_fault(cudaEventRecord(used_, stream)); }

 private:
  device_array<std::byte> memory_;
  cudaEvent_t copied_ = nullptr;
  cudaEvent_t used_ = nullptr;
};

class copy_stream {
 public:
  copy_stream() { require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream"); }
  copy_stream(const copy_stream&) = delete;
  copy_stream& operator=(const copy_stream&) = delete;
  ~copy_stream() { cudaStreamDestroy(stream_); }

  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Rows of W in a tile: a multiple of 64, so that tiles are aligned, and at least those.
std::int64_t rows_of_tile(const matmul_settings& settings) {
  constexpr std::int64_t step = 64;
  constexpr std::size_t fewest_bytes = std::size_t{16} << 20U;
  // So many that the first copy, which nothing hides, is a few hundredths of all. More of them take the driver's queue,
  // in which a stream has room for about a thousand calls, and three a tile and batch are here.
  constexpr std::size_t tiles = 24;
  const std::size_t row = static_cast<std::size_t>(settings.columns) * sizeof(float);
  const std::size_t all = static_cast<std::size_t>(settings.inner) * row;
  const std::size_t wanted = settings.tile_bytes != 0 ? settings.tile_bytes : std::max(fewest_bytes, all / tiles);
  const auto rows = static_cast<std::int64_t>(wanted / row) / step * step;
  return std::clamp<std::int64_t>(rows, std::min(step, settings.inner), settings.inner);
}

product_activation activation_of(matmul_settings::activation_kind kind) noexcept {
  switch (kind) {
    case matmul_settings::activation_kind::relu:
      return product_activation::relu;
    case matmul_settings::activation_kind::gelu:
      return product_activation::gelu;
    case matmul_settings::activation_kind::none:
      break;
  }
  return product_activation::none;
}

class matmul_streamed final : public operation {
 public:
  matmul_streamed(matmul_settings settings, std::int64_t max_frames)
      : settings_(std::move(settings)),
        weights_(*settings_.weights),
        tile_rows_(rows_of_tile(settings_)),
        bias_(settings_.bias != nullptr ? static_cast<std::size_t>(settings_.columns) : 1) {
    if (settings_.bias != nullptr) {
      std::vector<float> bias(static_cast<std::size_t>(settings_.columns));
      read_numbers(*settings_.bias, "bias", element_type::f32, 0, bias);
      copy_to_device(bias_.data(), bias.data(), bias.size() * sizeof(float), "copy a bias");
    }
    try {
      for (std::unique_ptr<tile_buffer>& each : tiles_) {
        each = std::make_unique<tile_buffer>(bytes_of(tile_rows_));
      }
    } catch (const std::runtime_error& error) {
      throw parameter_error("tile_bytes", std::string(error.what()) + ": three tiles of " +
                                              std::to_string(bytes_of(tile_rows_)) +
                                              " bytes lie on the device; give a smaller one");
    }
    make_products(settings_.max_rows(max_frames));
  }
  ~matmul_streamed() override { cudaStreamSynchronize(copies_.get()); }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return workspace_bytes_; }
  [[nodiscard]] std::string note() const override {
    return "weights: " + std::string(weights_.how()) + "; " + std::to_string(tile_count()) + " tiles of " +
           std::to_string(bytes_of(tile_rows_) >> 20U) + " MiB";
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t rows = settings_.rows.count(arguments.extent);
    if (rows <= 0) {
      return {};
    }
    const fault failed =
        kernel_queue::of(stream).enqueue([&](cudaStream_t queue) { return enqueue(queue, rows, arguments); });
    return failed || finishes_
               ? failed
               : finish_rows(stream, multiprocessors_, settings_, bias(), static_cast<float*>(arguments.output), rows);
  }

 private:
  [[nodiscard]] std::size_t bytes_of(std::int64_t rows) const noexcept {
    return static_cast<std::size_t>(rows * settings_.columns) * sizeof(float);
  }
  [[nodiscard]] std::int64_t tile_count() const noexcept { return divide_up(settings_.inner, tile_rows_); }
  [[nodiscard]] std::int64_t rows_of_last() const noexcept { return settings_.inner - (tile_count() - 1) * tile_rows_; }

  [[nodiscard]] const float* bias() const noexcept { return settings_.bias != nullptr ? bias_.data() : nullptr; }

  void make_products(std::int64_t max_rows) {
    const auto library = cublaslt_library::load();
    // The tile's memory has weights to try algorithms with.
    copy_to_device(tiles_.front()->data(), weights_.data(), bytes_of(tile_rows_), "copy a tile");
    const auto make = [&](std::int64_t rows, bool adds, bool ends) {
      const product_matrix out{.type = element_type::f32, .leading = settings_.columns};
      const product_settings product{
          .m = max_rows,
          .n = settings_.columns,
          .k = rows,
          .a = {.type = element_type::f32, .leading = settings_.inner},
          .b = {.type = element_type::f32, .leading = settings_.columns},
          .c = out,
          .out = out,
          .tf32 = settings_.compute == matmul_settings::precision::tf32,
          .beta = adds ? 1.0 : 0.0,
          .has_bias = ends && settings_.bias != nullptr,
          .activation = ends ? activation_of(settings_.activation) : product_activation::none,
      };
      cublaslt_product made(library, product, cublaslt_product::buckets::one, tiles_.front()->data());
      workspace_bytes_ = std::max(workspace_bytes_, made.workspace_bytes());
      return made;
    };
    const std::int64_t count = tile_count();
    if (count > 1) {
      first_.emplace(make(tile_rows_, false, false));
    }
    if (count > 2) {
      next_.emplace(make(tile_rows_, true, false));
    }
    try {
      last_.emplace(make(rows_of_last(), count > 1, true));
    } catch (const no_algorithm&) {
      // As for some extents that are no multiple of 8: bias and activation follow.
      last_.emplace(make(rows_of_last(), count > 1, false));
      finishes_ = false;
    }
  }

  fault enqueue(cudaStream_t stream, std::int64_t rows, const operation_arguments& arguments) noexcept {
    const auto* const x = static_cast<const float*>(arguments.inputs[0]);
    const std::int64_t count = tile_count();
    for (std::int64_t tile = 0; tile < count; ++tile) {
      const std::int64_t begin = tile * tile_rows_;
      tile_buffer& buffer = *tiles_[turn_++ % tiles_.size()];
      const std::size_t bytes = bytes_of(std::min(tile_rows_, settings_.inner - begin));
      if (const fault failed = buffer.fill(weights_.data() + bytes_of(begin), bytes, copies_.get(), stream)) {
        return failed;
      }
      const cublaslt_product& product = tile == count - 1 ? *last_ : tile == 0 ? *first_ : *next_;
      const fault failed = product.run(stream, {.a = x + begin,
                                                .b = buffer.data(),
                                                .c = arguments.output,
                                                .bias = bias(),
                                                .out = arguments.output,
                                                .workspace = arguments.scratch,
                                                .rows = rows});
      // Also behind a product that was refused: its kernels may be there in part.
      const fault unmarked = buffer.release(stream);
      if (failed || unmarked) {
        return failed ? failed : unmarked;
      }
    }
    return {};
  }

  static constexpr std::size_t tiles_on_device = 3;

  const matmul_settings settings_;
  const std::int64_t multiprocessors_ = multiprocessor_count();
  const pinned_file weights_;
  const std::int64_t tile_rows_;
  device_array<float> bias_;
  std::array<std::unique_ptr<tile_buffer>, tiles_on_device> tiles_;
  const copy_stream copies_;
  std::optional<cublaslt_product> first_;  ///< out = x · W
  std::optional<cublaslt_product> next_;   ///< out += x · W
  std::optional<cublaslt_product> last_;   ///< with bias and activation
  bool finishes_ = true;                   ///< it has them
  std::size_t workspace_bytes_ = 0;
  std::size_t turn_ = 0;  ///< tiles that were filled
};

}  // namespace

std::unique_ptr<operation> make_matmul_streamed(const matmul_settings& settings, std::int64_t max_frames) {
  return std::make_unique<matmul_streamed>(settings, max_frames);
}

}  // namespace penstock
