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

wave_layout layout_of(const model_package& package, const operation_request& request) {
  std::vector<operator_output> outputs;
  for (const model_tensor& each : package.outputs) {
    outputs.push_back({each.name, each.spec});
  }
  return wave_layout_of(request.inputs, outputs, package.state ? package.state->spec.bytes() : 0, request.max_frames);
}

/// For each tensor that the model reads, the stage's; its state comes last in both.
std::vector<std::size_t> order_of(const model_parameters& settings) {
  std::vector<std::size_t> order = settings.order;
  if (settings.package->state) {
    order.push_back(order.size());
  }
  return order;
}

std::string device_name(int device) {
  return "cuda:" + std::to_string(device);
}

std::string refusal_of(std::int64_t frames, const std::string& why) {
  return "has a model of " + std::to_string(frames) + (frames == 1 ? " frame" : " frames") +
         " that can't be run on the GPU: " + why;
}

/// Models with our own functions, captured.
class model_cuda final : public operation {
 public:
  model_cuda(const model_parameters& settings, const operation_request& request, const torch_provider& provider,
             int device)
      : device_(device), order_(order_of(settings)) {
    const model_package& package = *settings.package;
    const auto libraries = std::make_shared<torch_cuda_libraries>();
    wave_layout layout = layout_of(package, request);
    std::vector<captured_step> steps;
    for (const model_part& each : package.parts_of("cuda")) {
      auto bucket = std::make_shared<cuda_bucket>(libraries);
      const std::size_t before = torch_cuda_allocated();
      bucket->model = std::make_unique<loaded_model>(each, package, provider, &bucket->device, device_name(device));
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
      const std::string text = refusal_of(bucket.model->frames(), why.empty() ? text_of(met) : why);
      if (is_lack_of_own_functions(met)) {
        throw own_functions_error(text);
      }
      throw package_error(text);
    }
    bucket.tensors.resize(bucket.needs.tensors);
    bucket.blocks.resize(bucket.needs.blocks);
  }

  const int device_;
  const std::vector<std::size_t> order_;
  std::size_t weights_bytes_ = 0;
  std::unique_ptr<captured_program> program_;
};

/// Models with the functions of a PyTorch on this machine, which allocates what it needs: not captured. It keeps no
/// state, and runs in waves for that.
class model_of_libtorch final : public operation {
 public:
  model_of_libtorch(const model_parameters& settings, const operation_request& request,
                    std::shared_ptr<const torch_provider> provider, int device)
      : device_(device),
        order_(order_of(settings)),
        provider_(std::move(provider)),
        layout_(layout_of(*settings.package, request)) {
    if (layout_.state_bytes != 0) {
      layout_.inputs.push_back(layout_.state_bytes);
      layout_.outputs.push_back(layout_.state_bytes);
    }
    std::vector<std::int64_t> frames;
    for (const model_part& each : settings.package->parts_of("cuda")) {
      models_.push_back(
          std::make_unique<loaded_model>(each, *settings.package, *provider_, nullptr, device_name(device)));
      frames.push_back(each.frames);
    }
    // What a launch costs more is like this many frames.
    constexpr std::int64_t overhead = 8;
    plan_.emplace(frames, request.max_frames, overhead);
    const auto place = [&](std::size_t bytes) {
      return std::exchange(scratch_, scratch_ + aligned(bytes * static_cast<std::size_t>(frames.back())));
    };
    for (const std::size_t each : layout_.inputs) {
      inputs_at_.push_back(place(each));
    }
    for (const std::size_t each : layout_.outputs) {
      outputs_at_.push_back(place(each));
    }
    run_once();
  }
  /// What its libraries free is the device's.
  ~model_of_libtorch() override {
    const current_device current(device_);
    models_.clear();
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_; }
  [[nodiscard]] std::string note() const override { return note_on(*provider_); }
  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return kernel_queue::of(stream).enqueue([&](cudaStream_t on) {
      const std::int64_t frames = arguments.extent.frames;
      fault met;
      for (std::int64_t done = 0; done < frames && !met;) {
        loaded_model& model = *models_[plan_->next(frames - done)];
        const std::int64_t count = std::min(model.frames(), frames - done);
        met = run_frames(on, model, arguments, static_cast<std::size_t>(done), static_cast<std::size_t>(count));
        done += count;
      }
      return met;
    });
  }

 private:
  /// Kernels of models read and write 16 bytes at a time.
  static bool is_aligned(const void* memory) noexcept { return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0; }

  static fault done(cudaError_t status) noexcept {
    if (status != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
    }
    return cuda_fault(status);
  }

  fault run_frames(cudaStream_t stream, loaded_model& model, const operation_arguments& arguments, std::size_t first,
                   std::size_t count) noexcept {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const auto rows = static_cast<std::size_t>(model.frames());
    std::array<const void*, most_tensors> given{};
    std::array<void*, most_tensors> outputs{};
    for (std::size_t each = 0; each < layout_.inputs.size(); ++each) {
      const std::size_t bytes = layout_.inputs[each];
      const auto* const from = static_cast<const std::byte*>(arguments.inputs[each]) + first * bytes;
      given[each] = from;
      if (count == rows && is_aligned(from)) {
        continue;
      }
      std::byte* const own = scratch + inputs_at_[each];
      given[each] = own;
      fault met = done(cudaMemcpyAsync(own, from, count * bytes, cudaMemcpyDeviceToDevice, stream));
      if (!met && count != rows) {
        met = done(cudaMemsetAsync(own + count * bytes, 0, (rows - count) * bytes, stream));
      }
      if (met) {
        return met;
      }
    }
    std::array<const void*, most_tensors> inputs{};
    for (std::size_t each = 0; each < order_.size(); ++each) {
      inputs[each] = given[order_[each]];
    }
    for (std::size_t each = 0; each < layout_.outputs.size(); ++each) {
      std::byte* const to = output_of(arguments, each) + first * layout_.outputs[each];
      outputs[each] = count == rows && is_aligned(to) ? to : scratch + outputs_at_[each];
    }
    fault met = model.run(stream, inputs, outputs);
    for (std::size_t each = 0; each < layout_.outputs.size() && !met; ++each) {
      std::byte* const to = output_of(arguments, each) + first * layout_.outputs[each];
      if (outputs[each] != to) {
        met = done(cudaMemcpyAsync(to, outputs[each], count * layout_.outputs[each], cudaMemcpyDeviceToDevice, stream));
      }
    }
    return met;
  }

  static std::byte* output_of(const operation_arguments& arguments, std::size_t output) noexcept {
    return static_cast<std::byte*>(arguments.outputs.empty() ? arguments.output : arguments.outputs[output]);
  }

  /// Over zeros: loads kernels, and finds out whether it runs at all.
  void run_once() {
    device_array<std::byte> memory(scratch_);
    const private_stream stream;
    std::array<const void*, most_tensors> inputs{};
    std::array<void*, most_tensors> outputs{};
    for (std::size_t each = 0; each < order_.size(); ++each) {
      inputs[each] = memory.data() + inputs_at_[order_[each]];
    }
    for (std::size_t each = 0; each < outputs_at_.size(); ++each) {
      outputs[each] = memory.data() + outputs_at_[each];
    }
    require_cuda(cudaMemsetAsync(memory.data(), 0, scratch_, stream.get()), "clear device memory");
    for (const std::unique_ptr<loaded_model>& each : models_) {
      const fault met = each->run(stream.get(), inputs, outputs);
      const fault waited = cuda_fault(cudaStreamSynchronize(stream.get()));
      if (met || waited) {
        throw package_error(refusal_of(each->frames(), text_of(met ? met : waited)));
      }
    }
  }

  const int device_;
  const std::vector<std::size_t> order_;
  const std::shared_ptr<const torch_provider> provider_;
  wave_layout layout_;  // the state among its inputs and outputs
  std::vector<std::unique_ptr<loaded_model>> models_;
  std::optional<bucket_plan> plan_;
  std::size_t scratch_ = 0;
  // Where these begin in the scratch.
  std::vector<std::size_t> inputs_at_;
  std::vector<std::size_t> outputs_at_;
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
    const auto make = [&](std::shared_ptr<const torch_provider> provider) -> std::unique_ptr<operation> {
      if (provider->is_own()) {
        return std::make_unique<model_cuda>(settings, request, *provider, device);
      }
      auto step = std::make_unique<model_of_libtorch>(settings, request, std::move(provider), device);
      return package.state ? make_waves_cuda(std::move(step), layout_of(package, request))
                           : std::unique_ptr<operation>(std::move(step));
    };
    return make_with_provider(package, "cuda", settings.runtime, std::make_shared<own_provider>(), /*with_cuda=*/true,
                              make);
  } catch (const package_error& error) {
    throw parameter_error("file", path + ": " + error.what());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

}  // namespace penstock
