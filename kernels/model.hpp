#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/model_package.hpp"
#include "kernels/operation.hpp"
#include "kernels/torch_functions.hpp"
#include "kernels/waves.hpp"

namespace penstock {

/// Whose functions a model calls.
enum class model_runtime { automatic, own, libtorch };

/// A stage of models, checked against its package.
struct model_parameters {
  std::shared_ptr<const model_package> package;
  model_runtime runtime = model_runtime::automatic;
  /// For each input of the model, the stage's input that it reads.
  std::vector<std::size_t> order;
};

/// model: a PyTorch model in an AOTInductor package (penstock.torch.export).
///
/// Inputs: those of the model, of its types and shapes. Outputs: those of the model; of several, each has its name.
/// Parameters:
///   file     the package, beside the configuration; see [code]
///   inputs   names of the model's inputs and what each reads; may be left out where the model has one
///   runtime  auto, own or libtorch: whose functions it calls
///   tolerance  how much its results on the host and on a GPU may differ, as a part of the largest number; default 1e-4
[[nodiscard]] model_parameters parse_model(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] tensor_spec infer_model(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::optional<session_traits> model_session(const parameters& settings,
                                                          std::span<const tensor_spec> inputs);
[[nodiscard]] std::vector<operator_output> model_outputs(const parameters& settings,
                                                         std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_model_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_model_cuda(const operation_request& request);

/// Where the functions come from that packages call.
class torch_provider {
 public:
  torch_provider() = default;
  torch_provider(const torch_provider&) = delete;
  torch_provider& operator=(const torch_provider&) = delete;
  virtual ~torch_provider() = default;

  /// nullptr: it has none of this name.
  [[nodiscard]] virtual const void* find(const std::string& name) const noexcept = 0;
  /// True if models run in the memory of a torch_run.
  [[nodiscard]] virtual bool is_own() const noexcept = 0;
  /// Of the PyTorch that has them, as "2.13"; "" if that is not known.
  [[nodiscard]] virtual std::string version() const { return ""; }
};

/// What packages call to have PyTorch run an operator that was not compiled. No provider has it.
inline constexpr std::string_view proxy_executor_function = "aoti_torch_proxy_executor_call_function";

/// own_torch_function.
[[nodiscard]] std::shared_ptr<const torch_provider> make_own_provider();
/// The functions of a PyTorch on this machine (libtorch_cpu.so, and libtorch_cuda.so `with_cuda`), opened at run time:
/// for models that call more than own_torch_function has. Its own threads are set to 1. It stays loaded until the
/// process ends.
///
/// Loads from the folder that PENSTOCK_LIBTORCH names, such as /usr/lib/python3/dist-packages/torch/lib, if it is set;
/// else from the default library path. Throws std::runtime_error, which says what is missing and what to install.
[[nodiscard]] std::shared_ptr<const torch_provider> load_libtorch(bool with_cuda);
/// Whose functions the models of a device call: `own` if it has all that they call, else those of a PyTorch on this
/// machine, unless `runtime` says which. Throws package_error, which names what is missing. Functions of CUDA's runtime
/// and driver count only where `with_cuda` says so.
[[nodiscard]] std::shared_ptr<const torch_provider> choose_provider(const model_package& package,
                                                                    std::string_view device, model_runtime runtime,
                                                                    std::shared_ptr<const torch_provider> own,
                                                                    bool with_cuda);
/// Whose functions they are, for the log; "" for own.
[[nodiscard]] std::string note_on(const torch_provider& provider);
/// The operation that `make` makes with the functions that choose_provider says. Names do not tell of which types a
/// model's products are: where own functions turn out to lack some (own_functions_error), and `runtime` leaves the
/// choice, it is made with those of a PyTorch.
[[nodiscard]] std::unique_ptr<operation> make_with_provider(
    const model_package& package, std::string_view device, model_runtime runtime,
    std::shared_ptr<const torch_provider> own, bool with_cuda,
    const std::function<std::unique_ptr<operation>(std::shared_ptr<const torch_provider>)>& make);
/// Bytes of state a session.
[[nodiscard]] std::size_t state_bytes_of_model(const parameters& settings);
[[nodiscard]] bool has_models_for_gpus(const parameters& settings);
/// Throws parameter_error unless the stage's package has models for a GPU of this architecture, or for this machine's
/// CPU where it is "", and all functions that they call. Nothing of it runs.
void check_model(const parameters& settings, std::string_view architecture);
/// Throws parameter_error if this machine lacks OpenBLAS or oneDNN, and the stage's models for the CPU call it.
void check_host_libraries(const parameters& settings, std::span<const tensor_spec> inputs);

/// The functions that a package's library wants and the provider does not have, sorted. Those of CUDA's runtime and
/// driver (cudaMalloc, cuLaunchKernel) count only where `with_cuda` says so.
[[nodiscard]] std::vector<std::string> missing_functions(const library_image& library, const torch_provider& provider,
                                                         bool with_cuda);

/// How a batch is cut into runs of a model's buckets.
class bucket_plan {
 public:
  /// `buckets` rise. A run of B frames costs B + `overhead`, whether they are all used or not.
  bucket_plan(std::span<const std::int64_t> buckets, std::int64_t max_frames, std::int64_t overhead);

  /// The bucket to run next where so many frames are left, as an index; it is padded if it is larger.
  [[nodiscard]] std::size_t next(std::int64_t left) const noexcept { return next_[static_cast<std::size_t>(left)]; }

 private:
  std::vector<std::uint32_t> next_;
};

/// A model of one bucket, loaded: the container of AOTInductor.
///
/// It is made with one instance and run by RunSingleThreaded, from several threads at once on the host: after the
/// constants are folded, a run only reads the container. (`Run` would take two locks and hand out one of several
/// instances.)
class loaded_model {
 public:
  /// Loads the library with the provider's functions and its constants on the device ("cpu", "cuda:0"). Throws
  /// package_error, which names what is missing or says what the container said. `memory`: where constants are, for a
  /// provider that is_own.
  loaded_model(const model_part& part, const model_package& package, const torch_provider& provider,
               torch_device* memory, const std::string& device);
  loaded_model(const loaded_model&) = delete;
  loaded_model& operator=(const loaded_model&) = delete;
  ~loaded_model();

  [[nodiscard]] std::int64_t frames() const noexcept { return frames_; }
  /// Tensors that the model has, state last.
  [[nodiscard]] std::size_t inputs() const noexcept { return inputs_.size(); }
  [[nodiscard]] std::size_t outputs() const noexcept { return outputs_.size(); }
  /// Runs it over full tensors of its bucket: device memory, the state last. Outputs are copied to where they belong.
  /// With a provider that is_own, within a torch_run of this thread. `stream`: a cudaStream_t; nullptr on the host.
  fault run(void* stream, std::span<const void* const> inputs, std::span<void* const> outputs) noexcept;
  /// What the model said of this thread's last run that was MODEL_FAILED, after ": "; "" for nothing.
  [[nodiscard]] std::string reason() const;

 private:
  struct tensor_shape {
    torch_type type = torch_type::f32;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
  };
  struct functions;

  std::int64_t frames_ = 1;
  std::int32_t device_type_ = torch_cpu;
  std::int32_t device_index_ = 0;
  std::vector<tensor_shape> inputs_;
  std::vector<tensor_shape> outputs_;
  std::unique_ptr<shared_object> library_;
  std::unique_ptr<functions> functions_;
  void* container_ = nullptr;
};

/// Products by OpenBLAS and convolutions by oneDNN, in the host's memory.
[[nodiscard]] std::unique_ptr<torch_device> make_host_torch();

/// PyTorch's number of an element type; throws package_error for one that it lacks.
[[nodiscard]] torch_type torch_type_of(element_type type);

}  // namespace penstock
