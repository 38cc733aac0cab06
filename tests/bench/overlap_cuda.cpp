#include "tests/bench/overlap.hpp"

#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/correlate.hpp"
#include "kernels/kernel_queue.hpp"
#include "tests/bench/bare_cuda.hpp"

namespace penstock::bench {
namespace {

using clock = std::chrono::steady_clock;

void require(fault failed) {
  if (failed) {
    throw std::runtime_error("the kernel failed: " + std::string(failed.name));
  }
}

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

// Launches each kernel at once.
class bare_queue final : public kernel_queue {
 public:
  explicit bare_queue(cudaStream_t stream) : stream_(stream) {}

  fault add(const kernel_call& call) noexcept override {
    const cudaError_t status =
        cudaLaunchKernel(call.kernel, call.grid, call.block, const_cast<void**>(call.arguments.data()), 0, stream_);
    return status == cudaSuccess ? fault{} : fault{cudaGetErrorName(status)};
  }

 private:
  fault flush() noexcept override { return {}; }
  [[nodiscard]] cudaStream_t stream() const noexcept override { return stream_; }

  cudaStream_t stream_;
};

class pageable_way final : public overlap_way {
 public:
  pageable_way(const overlap_buffers& buffers, const overlap_work& work)
      : buffers_(buffers),
        kernel_(work.compile(&make_correlate_cuda)),
        whole_(chunks_of(buffers, 1)),
        input_(whole_.front().bytes),
        output_(whole_.front().bytes) {
    std::memcpy(input_.data(), buffers.pinned_input.get(), input_.size());
  }

  double run() override {
    const chunk& all = whole_.front();
    const clock::time_point begin = clock::now();
    bench::require(cudaMemcpy(buffers_.input.get(), input_.data(), all.bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    require(kernel_->run(&queue_, all.launch));
    bench::require(cudaMemcpy(output_.data(), buffers_.output.get(), all.bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return seconds_since(begin);
  }

 private:
  const overlap_buffers& buffers_;
  std::unique_ptr<operation> kernel_;
  std::vector<chunk> whole_;
  bare_queue queue_{nullptr};
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
};

class bare_way final : public overlap_way {
 public:
  bare_way(const overlap_buffers& buffers, const overlap_work& work, std::size_t chunks)
      : buffers_(buffers),
        kernel_(work.compile(&make_correlate_cuda)),
        chunks_(chunks_of(buffers, chunks)),
        streams_(make_bare_streams(overlap_streams)) {}

  double run() override {
    const clock::time_point begin = clock::now();
    for (std::size_t at = 0; at < chunks_.size(); ++at) {
      const chunk& each = chunks_[at];
      const cudaStream_t stream = streams_[at % streams_.size()].get();
      bench::require(cudaMemcpyAsync(buffers_.input.get() + each.offset, buffers_.pinned_input.get() + each.offset,
                                     each.bytes, cudaMemcpyHostToDevice, stream),
                     "cudaMemcpyAsync");
      bare_queue queue(stream);
      require(kernel_->run(&queue, each.launch));
      bench::require(cudaMemcpyAsync(buffers_.pinned_output.get() + each.offset, buffers_.output.get() + each.offset,
                                     each.bytes, cudaMemcpyDeviceToHost, stream),
                     "cudaMemcpyAsync");
    }
    for (const bare_stream& each : streams_) {
      bench::require(cudaStreamSynchronize(each.get()), "cudaStreamSynchronize");
    }
    return seconds_since(begin);
  }

 private:
  const overlap_buffers& buffers_;
  std::unique_ptr<operation> kernel_;
  std::vector<chunk> chunks_;
  std::vector<bare_stream> streams_;
};

}  // namespace

std::unique_ptr<overlap_way> make_pageable_way(const overlap_buffers& buffers, const overlap_work& work) {
  return std::make_unique<pageable_way>(buffers, work);
}

std::unique_ptr<overlap_way> make_bare_way(const overlap_buffers& buffers, const overlap_work& work,
                                           std::size_t chunks) {
  return std::make_unique<bare_way>(buffers, work, chunks);
}

}  // namespace penstock::bench
