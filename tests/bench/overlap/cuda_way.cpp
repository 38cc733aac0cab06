#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/correlate.hpp"
#include "kernels/kernel_queue.hpp"
#include "tests/bench/overlap/overlap_ways.hpp"
#include "tests/bench/wake_up.hpp"

namespace penstock::bench {
namespace {

using clock = std::chrono::steady_clock;

void require(cudaError_t status) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string("CUDA failed: ") + cudaGetErrorName(status));
  }
}

void require(fault failed) {
  if (failed) {
    throw std::runtime_error("the kernel failed: " + std::string(failed.name));
  }
}

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

// Launches each kernel as it comes.
class bare_queue final : public kernel_queue {
 public:
  explicit bare_queue(cudaStream_t on) : on_(on) {}

  fault add(const kernel_call& call) noexcept override {
    const cudaError_t met =
        cudaLaunchKernel(call.kernel, call.grid, call.block, const_cast<void**>(call.arguments.data()), 0, on_);
    return met == cudaSuccess ? fault{} : fault{cudaGetErrorName(met)};
  }

 private:
  fault flush() noexcept override { return {}; }
  [[nodiscard]] cudaStream_t stream() const noexcept override { return on_; }

  cudaStream_t on_;
};

// One after the other on the default stream, as simple programs do it.
class serial_way final : public overlap_way {
 public:
  serial_way(const overlap_buffers& with, const overlap_work& work, bool pageable)
      : with_(with), kernel_(work.compile(&make_correlate_cuda)), whole_(chunks_of(with, 1)) {
    source_ = with.pinned_input.get();
    sink_ = with.pinned_output.get();
    if (pageable) {
      pageable_input_.resize(whole_.front().bytes);
      pageable_output_.resize(whole_.front().bytes);
      std::memcpy(pageable_input_.data(), source_, pageable_input_.size());
      source_ = pageable_input_.data();
      sink_ = pageable_output_.data();
    }
  }

  double run() override {
    const chunk& all = whole_.front();
    const clock::time_point begin = clock::now();
    require(cudaMemcpy(with_.input.get(), source_, all.bytes, cudaMemcpyHostToDevice));
    require(kernel_->run(&default_stream_, all.launch));
    require(cudaMemcpy(sink_, with_.output.get(), all.bytes, cudaMemcpyDeviceToHost));
    return seconds_since(begin);
  }

 private:
  const overlap_buffers& with_;
  std::unique_ptr<operation> kernel_;
  std::vector<chunk> whole_;
  bare_queue default_stream_{nullptr};
  std::vector<std::byte> pageable_input_;
  std::vector<std::byte> pageable_output_;
  const std::byte* source_ = nullptr;
  std::byte* sink_ = nullptr;
};

class bare_stream {
 public:
  bare_stream() { require(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking)); }
  bare_stream(bare_stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  bare_stream& operator=(bare_stream&&) = delete;
  ~bare_stream() {
    if (handle_ != nullptr) {
      cudaStreamDestroy(handle_);
    }
  }

  [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

class bare_way : public overlap_way {
 public:
  bare_way(const overlap_buffers& with, const overlap_work& work, std::size_t chunks)
      : with_(with),
        kernel_(work.compile(&make_correlate_cuda)),
        chunks_(chunks_of(with, chunks)),
        streams_(overlap_streams) {}

  double run() override {
    const clock::time_point begin = clock::now();
    for (std::size_t at = 0; at < chunks_.size(); ++at) {
      const chunk& each = chunks_[at];
      const cudaStream_t on = streams_[at % streams_.size()].get();
      require(cudaMemcpyAsync(with_.input.get() + each.offset, with_.pinned_input.get() + each.offset, each.bytes,
                              cudaMemcpyHostToDevice, on));
      bare_queue queue(on);
      require(kernel_->run(&queue, each.launch));
      require(cudaMemcpyAsync(with_.pinned_output.get() + each.offset, with_.output.get() + each.offset, each.bytes,
                              cudaMemcpyDeviceToHost, on));
      enqueued(on);
    }
    wait();
    return seconds_since(begin);
  }

 protected:
  virtual void enqueued(cudaStream_t /*on*/) {}
  virtual void wait() {
    for (const bare_stream& each : streams_) {
      require(cudaStreamSynchronize(each.get()));
    }
  }
  [[nodiscard]] std::size_t chunks() const noexcept { return chunks_.size(); }

 private:
  const overlap_buffers& with_;
  std::unique_ptr<operation> kernel_;
  std::vector<chunk> chunks_;
  std::vector<bare_stream> streams_;
};

class told_way final : public bare_way {
 public:
  using bare_way::bare_way;

 private:
  void enqueued(cudaStream_t on) override { require(cudaStreamAddCallback(on, &told_way::done, this, 0)); }
  void wait() override {
    while (told_.load(std::memory_order_acquire) < chunks()) {
      if (!wake_.rest(20)) {
        throw std::runtime_error("a stream's callback did not come");
      }
    }
    told_.store(0, std::memory_order_relaxed);
  }
  static void CUDART_CB done(cudaStream_t /*on*/, cudaError_t /*status*/, void* way) {
    static_cast<told_way*>(way)->told_.fetch_add(1, std::memory_order_release);
    static_cast<told_way*>(way)->wake_.ring();
  }

  wake_up wake_;
  std::atomic<std::size_t> told_{0};  // counted by CUDA's thread
};

}  // namespace

std::unique_ptr<overlap_way> make_pageable_way(const overlap_buffers& with, const overlap_work& work) {
  return std::make_unique<serial_way>(with, work, true);
}

std::unique_ptr<overlap_way> make_pinned_way(const overlap_buffers& with, const overlap_work& work) {
  return std::make_unique<serial_way>(with, work, false);
}

std::unique_ptr<overlap_way> make_told_way(const overlap_buffers& with, const overlap_work& work, std::size_t chunks) {
  return std::make_unique<told_way>(with, work, chunks);
}

std::unique_ptr<overlap_way> make_bare_way(const overlap_buffers& with, const overlap_work& work, std::size_t chunks) {
  return std::make_unique<bare_way>(with, work, chunks);
}

}  // namespace penstock::bench
