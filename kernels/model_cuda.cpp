#include "kernels/model.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "kernels/captured_program.hpp"
#include "kernels/launch.cuh"
#include "kernels/torch_cuda.hpp"

namespace penstock {
namespace {

constexpr std::size_t most_tensors = 16;  // that a model reads or gives, with its state
constexpr std::size_t alignment = 256;

std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

class own_provider final : public torch_provider {
 public:
  [[nodiscard]] const void* find(const std::string& name) const noexcept override { return own_cuda_function(name); }
  [[nodiscard]] bool is_own() const noexcept override { return true; }
};

/// Makes a device current for as long as it lives, as code of packages wants to find it.
class current_device {
 public:
  explicit current_device(int wanted) noexcept {
    static_cast<void>(cudaGetDevice(&before_));
    if (before_ != wanted) {
      static_cast<void>(cudaSetDevice(wanted));
    }
    changed_ = before_ != wanted;
  }
  current_device(const current_device&) = delete;
  current_device& operator=(const current_device&) = delete;
  ~current_device() {
    if (changed_) {
      static_cast<void>(cudaSetDevice(before_));
    }
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// A model of one bucket, with what its runs need.
struct cuda_bucket {
  explicit cuda_bucket(std::shared_ptr<torch_cuda_libraries> libraries) : device(std::move(libraries)) {}

  cuda_torch_device device;
  std::unique_ptr<loaded_model> model;
  torch_needs needs;
  std::vector<torch_tensor> tensors;
  std::vector<torch_block> blocks;

  /// A run in memory as `needs` says.
  fault run(cudaStream_t stream, std::span<const std::size_t> order, const captured_memory& memory) noexcept {
    std::array<const void*, most_tensors> inputs{};
    std::array<void*, most_tensors> outputs{};
    for (std::size_t each = 0; each < memory.inputs.size(); ++each) {
      inputs[each] = memory.inputs[order[each]];
    }
    std::copy(memory.outputs.begin(), memory.outputs.end(), outputs.begin());
    device.take_outputs(memory.outputs);
    fault met;
    {
      torch_run current(device, stream, {memory.scratch, needs.bytes}, tensors, blocks);
      met = model->run(stream, inputs, outputs);
    }
    device.take_outputs({});
    return met;
  }
};

std::string architecture_of(int device) {
  int major = 0;
  int minor = 0;
  require_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "tell what a GPU computes");
  require_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "tell what a GPU computes");
  return "sm_" + std::to_string(10 * major + minor);
}

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& each : names) {
    all += (all.empty() ? "" : ", ") + each;
  }
  return all;
}

/// Models of one stage on CUDA, captured.
class model_cuda final : public operation {
 public:
  model_cuda(const model_parameters& settings, const operation_request& request, int device)
      : device_(device), order_(settings.order) {
    const model_package& package = *settings.package;
    const own_provider provider;
    const auto libraries = std::make_shared<torch_cuda_libraries>();
    std::vector<operator_output> outputs;
    for (const model_tensor& each : package.outputs) {
      outputs.push_back({each.name, each.spec});
    }
    wave_layout layout =
        wave_layout_of(request.inputs, outputs, package.state ? package.state->spec.bytes() : 0, request.max_frames);
    if (package.state) {
      order_.push_back(order_.size());
    }
    std::vector<captured_step> steps;
    for (const model_part& each : package.parts_of("cuda")) {
      if (const std::vector<std::string> missing = missing_functions(*each.library, provider, true); !missing.empty()) {
        throw package_error("calls functions on the GPU that there are not: " + listed(missing));
      }
      auto bucket = std::make_shared<cuda_bucket>(libraries);
      const std::size_t before = torch_cuda_allocated();
      bucket->model =
          std::make_unique<loaded_model>(each, package, provider, &bucket->device, "cuda:" + std::to_string(device));
      weights_bytes_ += torch_cuda_allocated() - before;
      prepare(*bucket, layout);
      steps.push_back({.frames = each.frames,
                       .scratch_bytes = bucket->needs.bytes,
                       .enqueue = [bucket, order = order_](cudaStream_t stream, const captured_memory& memory) {
                         return bucket->run(stream, order, memory);
                       }});
    }
    program_ = std::make_unique<captured_program>(std::move(layout), std::move(steps));
  }
  /// What its library frees is the device's.
  ~model_cuda() override {
    const current_device current(device_);
    program_.reset();
  }

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return program_->state_bytes(); }
  [[nodiscard]] std::size_t own_bytes() const noexcept override { return weights_bytes_ + program_->own_bytes(); }
  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return program_->run(stream, arguments);
  }

 private:
  /// Runs it over zeros: finds out what a run needs, and keeps what its calls have chosen.
  void prepare(cuda_bucket& bucket, const wave_layout& layout) const {
    const auto frames = static_cast<std::size_t>(bucket.model->frames());
    std::size_t bytes = 0;
    std::vector<std::size_t> inputs_at;
    std::vector<std::size_t> outputs_at;
    const auto place = [&](std::vector<std::size_t>& to, std::size_t of_frame) {
      to.push_back(std::exchange(bytes, bytes + aligned(frames * of_frame)));
    };
    for (const std::size_t each : layout.inputs) {
      place(inputs_at, each);
    }
    for (const std::size_t each : layout.outputs) {
      place(outputs_at, each);
    }
    if (layout.state_bytes != 0) {
      place(inputs_at, layout.state_bytes);
      place(outputs_at, layout.state_bytes);
    }
    device_array<std::byte> memory(std::max<std::size_t>(bytes, alignment));
    const private_stream stream;
    std::array<const void*, most_tensors> inputs{};
    std::array<void*, most_tensors> outputs{};
    for (std::size_t each = 0; each < inputs_at.size(); ++each) {
      inputs[each] = memory.data() + inputs_at[order_[each]];
    }
    for (std::size_t each = 0; each < outputs_at.size(); ++each) {
      outputs[each] = memory.data() + outputs_at[each];
    }
    require_cuda(cudaMemsetAsync(memory.data(), 0, bytes, stream.get()), "clear device memory");
    fault met;
    {
      torch_run current(bucket.device, stream.get());
      met = bucket.model->run(stream.get(), inputs, outputs);
      const fault waited = cuda_fault(cudaStreamSynchronize(stream.get()));
      met = met ? met : waited;
      bucket.needs = current.needs();
    }
    if (met) {
      const std::string& why = bucket.device.refusal();
      throw package_error("has a model of " + std::to_string(frames) +
                          " frames that can't be run on the GPU: " + (why.empty() ? std::string(met.name) : why));
    }
    bucket.tensors.resize(bucket.needs.tensors);
    bucket.blocks.resize(bucket.needs.blocks);
  }

  const int device_;
  std::vector<std::size_t> order_;
  std::size_t weights_bytes_ = 0;
  std::unique_ptr<captured_program> program_;
};

}  // namespace

std::unique_ptr<operation> make_model_cuda(const operation_request& request) {
  const model_parameters settings = parse_model(request.settings, request.inputs);
  const model_package& package = *settings.package;
  const std::string& path = request.settings.code("file").path;
  int device = 0;
  require_cuda(cudaGetDevice(&device), "tell the current CUDA device");
  if (package.parts_of("cuda").empty()) {
    throw parameter_error("file", path + ": has no model for a GPU; export it on a machine that has one");
  }
  if (const std::string here = architecture_of(device); package.cuda != here) {
    throw parameter_error("file", path + ": its models for a GPU are for " + package.cuda + ", and this one is an " +
                                      here + "; export it on a machine with such a GPU");
  }
  try {
    return std::make_unique<model_cuda>(settings, request, device);
  } catch (const package_error& error) {
    throw parameter_error("file", path + ": " + error.what());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

}  // namespace penstock
