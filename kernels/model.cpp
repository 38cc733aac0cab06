#include "kernels/model.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include <dlfcn.h>

#include "base/printable.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {
namespace {

constexpr std::size_t most_inputs = 8;
/// With the state.
constexpr std::size_t most_tensors = 16;

const model_package& package_of(const parameters& settings) {
  const code_file& file = settings.code("file");
  if (file.package == nullptr) {
    throw parameter_error("file", file.path + ": it is not loaded");
  }
  return *file.package;
}

std::string names_of(std::span<const model_tensor> tensors) {
  std::string names;
  for (const model_tensor& each : tensors) {
    names += (names.empty() ? "'" : ", '") + each.name + "'";
  }
  return names;
}

/// For each input of the model the stage's that it reads: those of `inputs` stand in the order of their names.
std::vector<std::size_t> order_of(const model_package& package, const parameters& settings,
                                  std::span<const tensor_spec> inputs) {
  const parameters& names = settings.table("inputs");
  if (names.begin() == names.end()) {
    if (package.inputs.size() != 1) {
      throw parameter_error("inputs", "is missing: the model has the inputs " + names_of(package.inputs) +
                                          ", so say what each reads, as in inputs = { " + package.inputs.front().name +
                                          " = \"input\" }");
    }
    if (inputs.size() != 1) {
      throw parameter_error("from", "the model has one input, " + names_of(package.inputs) + "; " +
                                        std::to_string(inputs.size()) + " are given");
    }
    return {0};
  }
  for (const auto& [name, value] : names) {
    if (std::none_of(package.inputs.begin(), package.inputs.end(),
                     [&given = name](const model_tensor& each) { return each.name == given; })) {
      throw parameter_error("inputs", "the model has no input '" + name + "'; it has " + names_of(package.inputs));
    }
  }
  std::vector<std::size_t> order;
  for (const model_tensor& each : package.inputs) {
    const auto found =
        std::find_if(names.begin(), names.end(), [&](const auto& given) { return given.first == each.name; });
    if (found == names.end()) {
      throw parameter_error("inputs",
                            "lacks '" + each.name + "': the model has the inputs " + names_of(package.inputs));
    }
    order.push_back(static_cast<std::size_t>(std::distance(names.begin(), found)));
  }
  if (inputs.size() != order.size()) {
    throw parameter_error("from", "the model has " + std::to_string(order.size()) + " inputs; " +
                                      std::to_string(inputs.size()) + " are given");
  }
  return order;
}

model_runtime runtime_of(const parameters& settings) {
  constexpr std::array all{model_runtime::automatic, model_runtime::own, model_runtime::libtorch};
  return all[parse_choice(settings, "runtime", {"auto", "own", "libtorch"})];
}

}  // namespace

model_parameters parse_model(const parameters& settings, std::span<const tensor_spec> inputs) {
  const model_package& package = package_of(settings);
  model_parameters made{.package = settings.code("file").package,
                        .runtime = runtime_of(settings),
                        .order = order_of(package, settings, inputs)};
  const char* const field = settings.has("inputs") ? "inputs" : "from";
  for (std::size_t each = 0; each < package.inputs.size(); ++each) {
    const model_tensor& wanted = package.inputs[each];
    if (inputs[made.order[each]] != wanted.spec) {
      throw parameter_error(field, "the model's input '" + wanted.name + "' is " + wanted.spec.text() +
                                       ", and what it reads is " + inputs[made.order[each]].text());
    }
  }
  return made;
}

tensor_spec infer_model(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_model(settings, inputs).package->outputs.front().spec;
}

std::optional<session_traits> model_session(const parameters& settings, std::span<const tensor_spec> /*inputs*/) {
  return package_of(settings).state ? std::optional(session_traits{.whole_frames = true, .rate = {}}) : std::nullopt;
}

std::vector<operator_output> model_outputs(const parameters& settings, std::span<const tensor_spec> /*inputs*/) {
  const model_package& package = package_of(settings);
  std::vector<operator_output> made;
  for (const model_tensor& each : package.outputs) {
    made.push_back({each.name, each.spec});
  }
  return made.size() == 1 ? std::vector<operator_output>{} : made;
}

std::size_t state_bytes_of_model(const parameters& settings) {
  const model_package& package = package_of(settings);
  return package.state ? package.state->spec.bytes() : 0;
}

std::vector<model_part> model_package::parts_of(std::string_view device) const {
  std::vector<model_part> made;
  std::copy_if(parts.begin(), parts.end(), std::back_inserter(made),
               [&](const model_part& each) { return each.device == device; });
  return made;
}

torch_type torch_type_of(element_type type) {
  switch (type) {
    case element_type::u8:
      return torch_type::u8;
    case element_type::i8:
      return torch_type::i8;
    case element_type::i16:
      return torch_type::i16;
    case element_type::u16:
      return torch_type::u16;
    case element_type::i32:
      return torch_type::i32;
    case element_type::i64:
      return torch_type::i64;
    case element_type::f16:
      return torch_type::f16;
    case element_type::bf16:
      return torch_type::bf16;
    case element_type::f32:
      return torch_type::f32;
    case element_type::f64:
      return torch_type::f64;
    case element_type::cf32:
      return torch_type::cf32;
    case element_type::boolean:
      return torch_type::boolean;
    default:
      throw package_error("has a tensor of " + std::string(name_of(type)) + ", which PyTorch does not know");
  }
}

std::vector<std::string> missing_functions(const library_image& library, const torch_provider& provider,
                                           bool with_cuda) {
  const auto is_upper = [](char letter) { return letter >= 'A' && letter <= 'Z'; };
  const auto is_of_cuda = [&](const std::string& name) {
    return name.starts_with("cuda") || (name.starts_with("cu") && name.size() > 2 && is_upper(name[2]));
  };
  // What its other libraries have can be known once they are loaded: those of GCC and glibc have versions.
  const auto is_asked = [&](const std::string& name) {
    return (with_cuda || !is_of_cuda(name)) && provider.find(name) == nullptr;
  };
  std::vector<std::string> missing;
  std::copy_if(library.wanted().begin(), library.wanted().end(), std::back_inserter(missing), is_asked);
  return missing;
}

namespace {

class own_provider final : public torch_provider {
 public:
  [[nodiscard]] const void* find(const std::string& name) const noexcept override { return own_torch_function(name); }
  [[nodiscard]] bool is_own() const noexcept override { return true; }
};

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& each : names) {
    all += (all.empty() ? "" : ", ") + printable(each);
  }
  return all;
}

/// Of all models of a device, sorted.
std::vector<std::string> missing_functions(const model_package& package, std::string_view device,
                                           const torch_provider& provider, bool with_cuda) {
  std::set<std::string> all;
  for (const model_part& part : package.parts_of(device)) {
    for (std::string& each : missing_functions(*part.library, provider, with_cuda)) {
      all.insert(std::move(each));
    }
  }
  return {all.begin(), all.end()};
}

void refuse_proxied(const model_package& package, std::string_view device) {
  std::set<std::string> names;
  bool asks = false;
  for (const model_part& part : package.parts_of(device)) {
    const std::vector<std::string>& wanted = part.library->wanted();
    asks = asks || std::find(wanted.begin(), wanted.end(), proxy_executor_function) != wanted.end();
    names.insert(part.proxied.begin(), part.proxied.end());
  }
  if (asks) {
    throw package_error("has operators that were not compiled and that PyTorch would have to run" +
                        (names.empty() ? "" : ": " + listed({names.begin(), names.end()})) +
                        "; write them with others in the model");
  }
}

/// The first two numbers of a version; nothing if it has none.
std::optional<std::pair<int, int>> numbers_of(std::string_view version) {
  std::pair<int, int> made;
  const char* const end = version.data() + version.size();
  const auto first = std::from_chars(version.data(), end, made.first);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '.') {
    return std::nullopt;
  }
  return std::from_chars(first.ptr + 1, end, made.second).ec == std::errc{} ? std::optional(made) : std::nullopt;
}

/// Those of a PyTorch on this machine. `lacks`: why own functions are not taken; "" if nobody asked for them.
std::shared_ptr<const torch_provider> choose_libtorch(const model_package& package, std::string_view device,
                                                      bool with_cuda, const std::string& lacks) {
  std::shared_ptr<const torch_provider> libtorch;
  try {
    libtorch = load_libtorch(device == "cuda");
  } catch (const std::runtime_error& error) {
    throw package_error((lacks.empty() ? "is to run with libtorch: " : lacks + "; ") + error.what());
  }
  const std::string version = libtorch->version();
  const std::vector<std::string> missing = missing_functions(package, device, *libtorch, with_cuda);
  if (!missing.empty()) {
    throw package_error("was made by PyTorch " + package.torch + " and calls functions that the one on this machine" +
                        (version.empty() ? "" : ", " + version + ",") + " has not: " + listed(missing));
  }
  // An older model runs with a newer PyTorch, not the other way round.
  const auto needs = numbers_of(package.torch);
  const auto has = numbers_of(version);
  if (needs && has && *has < *needs) {
    throw package_error("was made by PyTorch " + package.torch + "; the one on this machine is " + version +
                        ", which is older");
  }
  return libtorch;
}

}  // namespace

std::shared_ptr<const torch_provider> make_own_provider() {
  return std::make_shared<own_provider>();
}

std::shared_ptr<const torch_provider> choose_provider(const model_package& package, std::string_view device,
                                                      model_runtime runtime, std::shared_ptr<const torch_provider> own,
                                                      bool with_cuda) {
  refuse_proxied(package, device);
  std::string lacks;
  if (runtime != model_runtime::libtorch) {
    const std::vector<std::string> missing = missing_functions(package, device, *own, with_cuda);
    if (missing.empty()) {
      return own;
    }
    lacks = "calls functions that Penstock has not: " + listed(missing);
    if (runtime == model_runtime::own) {
      throw package_error(lacks);
    }
  }
  return choose_libtorch(package, device, with_cuda, lacks);
}

std::string note_on(const torch_provider& provider) {
  const std::string version = provider.version();
  return provider.is_own() ? "" : "with the functions of PyTorch" + (version.empty() ? "" : " " + version);
}

std::unique_ptr<operation> make_with_provider(
    const model_package& package, std::string_view device, model_runtime runtime,
    std::shared_ptr<const torch_provider> own, bool with_cuda,
    const std::function<std::unique_ptr<operation>(std::shared_ptr<const torch_provider>)>& make) {
  std::string lacks;
  try {
    return make(choose_provider(package, device, runtime, std::move(own), with_cuda));
  } catch (const own_functions_error& error) {
    if (runtime != model_runtime::automatic) {
      throw;
    }
    lacks = error.what();
  }
  return make(choose_libtorch(package, device, with_cuda, lacks));
}

namespace {

/// What is missing in this machine's CPU for code of this level; "" for nothing.
std::string missing_in_cpu(std::string_view level) {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") != 0 &&
                          __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                          __builtin_cpu_supports("avx512vl") != 0;
  if ((level.starts_with("avx512") && !has_avx512) || (level == "avx2" && !has_avx2)) {
    return "needs a CPU with " + std::string(level) + ", which this one lacks: export it with cpu=\"" +
           (has_avx2 ? "avx2" : "default") + "\"";
  }
#else
  static_cast<void>(level);
#endif
  return "";
}

/// Throws package_error if the models need a library that this machine lacks. A GPU's come with its driver.
void check_libraries(const model_package& package, const char* device) {
  for (const model_part& part : package.parts_of(device)) {
    for (const std::string& name : part.library->needed()) {
      if (name.starts_with("libtorch") || name.starts_with("libc10")) {
        throw package_error("is linked with " + printable(name) + ": make it with penstock.torch.export");
      }
      if (name.starts_with("libcuda") || name.starts_with("libnv")) {
        continue;
      }
      void* const opened = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
      if (opened == nullptr) {
        throw package_error("needs the library " + printable(name) + ", which this machine lacks");
      }
      ::dlclose(opened);
    }
  }
}

void check_device(const model_package& package, std::string_view architecture) {
  const char* const device = architecture.empty() ? "cpu" : "cuda";
  if (package.parts_of(device).empty()) {
    throw package_error(std::string("has no model for ") + (architecture.empty() ? "a CPU" : "a GPU") +
                        ": export it with devices=(\"" + device + "\",)");
  }
  if (architecture.empty()) {
    if (const std::string lacks = missing_in_cpu(package.cpu); !lacks.empty()) {
      throw package_error(lacks);
    }
  } else if (package.cuda != architecture) {
    throw package_error("has models for " + (package.cuda.empty() ? "no GPU" : package.cuda) + ", and the GPU is " +
                        std::string(architecture) + ": export it on a machine with such a GPU");
  }
  check_libraries(package, device);
}

}  // namespace

bool has_models_for_gpus(const parameters& settings) {
  return !package_of(settings).parts_of("cuda").empty();
}

void check_model(const parameters& settings, std::string_view architecture) {
  const model_package& package = package_of(settings);
  try {
    check_device(package, architecture);
    static_cast<void>(choose_provider(package, architecture.empty() ? "cpu" : "cuda", runtime_of(settings),
                                      make_own_provider(), /*with_cuda=*/false));
  } catch (const package_error& error) {
    throw parameter_error("file", settings.code("file").path + ": " + error.what());
  }
}

// The cheapest way to run n frames: a run of any bucket, and the cheapest way to run the rest.
bucket_plan::bucket_plan(std::span<const std::int64_t> buckets, std::int64_t max_frames, std::int64_t overhead)
    : next_(static_cast<std::size_t>(max_frames) + 1, 0) {
  std::vector<std::int64_t> costs(next_.size(), 0);
  for (std::int64_t frames = 1; frames <= max_frames; ++frames) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    // Of equal ones the largest.
    for (std::size_t bucket = buckets.size(); bucket-- > 0;) {
      const std::int64_t rest = std::max<std::int64_t>(frames - buckets[bucket], 0);
      const std::int64_t cost = buckets[bucket] + overhead + costs[static_cast<std::size_t>(rest)];
      if (cost < least) {
        least = cost;
        next_[static_cast<std::size_t>(frames)] = static_cast<std::uint32_t>(bucket);
      }
    }
    costs[static_cast<std::size_t>(frames)] = least;
  }
}

// -- the container of AOTInductor -------------------------------------------------------------------------------------

/// Its C API (torch/csrc/inductor/aoti_runtime/interface.h) and what else it takes to run it.
struct loaded_model::functions {
  using handle = void*;
  using error = std::int32_t;

  error (*create)(handle* container, std::size_t models, const char* device, const char* cubin_folder) = nullptr;
  error (*drop)(handle container) = nullptr;
  error (*input_count)(handle container, std::size_t* count) = nullptr;
  error (*output_count)(handle container, std::size_t* count) = nullptr;
  error (*run)(handle container, handle* inputs, std::size_t input_count, handle* outputs, std::size_t output_count,
               void* stream, void* proxy_executor) = nullptr;
  error (*constant_count)(handle container, std::size_t* count) = nullptr;
  error (*is_folded)(handle container, std::size_t constant, bool* is_folded) = nullptr;
  error (*fold)(handle container, bool use_inactive, void* stream, void* proxy_executor) = nullptr;
  error (*last_error)(const char** text) = nullptr;  ///< newer ones have it
  // of the provider
  error (*tensor)(void* data, std::int64_t extents, const std::int64_t* sizes, const std::int64_t* strides,
                  std::int64_t offset, std::int32_t type, std::int32_t device_type, std::int32_t device_index,
                  handle* tensor) = nullptr;
  error (*drop_tensor)(handle tensor) = nullptr;
  error (*copy)(handle to, handle from, std::int32_t non_blocking) = nullptr;
  error (*extents)(handle tensor, std::int64_t* count) = nullptr;
  error (*sizes)(handle tensor, std::int64_t** sizes) = nullptr;
  error (*type)(handle tensor, std::int32_t* type) = nullptr;
  error (*guard_stream)(void* stream, std::int32_t device_index, handle* guard) = nullptr;  ///< of libtorch on CUDA
  error (*drop_guard)(handle guard) = nullptr;
  /// Where the library has loops for several threads: how many this thread may use.
  void (*set_threads)(int count) = nullptr;

  /// Whether some of its constants are computed before the first run. It would do so in that run's memory.
  [[nodiscard]] bool has_folded(handle container) const {
    std::size_t count = 0;
    bool found = false;
    if (constant_count(container, &count) != 0) {
      return false;
    }
    for (std::size_t each = 0; each < count && !found; ++each) {
      found = is_folded(container, each, &found) == 0 && found;
    }
    return found;
  }
  [[nodiscard]] std::string reason() const {
    const char* text = nullptr;
    if (last_error == nullptr || last_error(&text) != 0 || text == nullptr || *text == '\0') {
      return "";
    }
    return std::string(": ") + text;
  }
};

namespace {

template <class Function>
void take(Function& function, const void* address, const std::string& name, bool is_optional = false) {
  if (address == nullptr && !is_optional) {
    throw package_error("has no function " + name + ": it is not a model of AOTInductor, or one of another version");
  }
  function = reinterpret_cast<Function>(const_cast<void*>(address));
}

std::vector<given_function> functions_for(const model_part& part, const torch_provider& provider) {
  std::vector<given_function> given;
  for (const std::string& each : part.library->wanted()) {
    if (const void* const address = provider.find(each)) {
      given.push_back({each, address});
    }
  }
  return given;
}

}  // namespace

loaded_model::loaded_model(const model_part& part, const model_package& package, const torch_provider& provider,
                           torch_device* memory, const std::string& device)
    : frames_(part.frames), functions_(std::make_unique<functions>()) {
  const auto describe = [this](const model_tensor& tensor) {
    tensor_shape made{.type = torch_type_of(tensor.spec.type), .sizes = {frames_}, .strides = {}};
    made.sizes.insert(made.sizes.end(), tensor.shape.begin(), tensor.shape.end());
    std::int64_t stride = 1;
    for (auto size = made.sizes.rbegin(); size != made.sizes.rend(); ++size) {
      made.strides.insert(made.strides.begin(), stride);
      stride *= *size;
    }
    return made;
  };
  for (const model_tensor& each : package.inputs) {
    inputs_.push_back(describe(each));
  }
  for (const model_tensor& each : package.outputs) {
    outputs_.push_back(describe(each));
  }
  if (package.state) {
    inputs_.push_back(describe(*package.state));
    outputs_.push_back(describe(*package.state));
  }
  if (device.starts_with("cuda")) {
    device_type_ = torch_cuda;
    device_index_ = device.size() > 5 ? device[5] - '0' : 0;
  }
  try {
    library_ = std::make_unique<shared_object>(*part.library, functions_for(part, provider));
  } catch (const library_error& error) {
    throw package_error(std::string("has a model that ") + error.what());
  }
  functions& api = *functions_;
  const auto exported = [&](auto& function, const char* name, bool is_optional = false) {
    take(function, library_->find(name), name, is_optional);
  };
  const auto provided = [&](auto& function, const char* name, bool is_optional = false) {
    take(function, provider.find(name), name, is_optional);
  };
  exported(api.create, "AOTInductorModelContainerCreateWithDevice");
  exported(api.drop, "AOTInductorModelContainerDelete");
  exported(api.input_count, "AOTInductorModelContainerGetNumInputs");
  exported(api.output_count, "AOTInductorModelContainerGetNumOutputs");
  exported(api.run, "AOTInductorModelContainerRunSingleThreaded");
  exported(api.constant_count, "AOTInductorModelContainerGetNumConstants");
  exported(api.is_folded, "AOTInductorModelContainerGetConstantFromFolded");
  exported(api.fold, "AOTInductorModelContainerRunConstantFolding");
  exported(api.last_error, "AOTInductorGetLastError", true);
  exported(api.set_threads, "omp_set_num_threads", true);
  provided(api.tensor, "aoti_torch_create_tensor_from_blob");
  provided(api.drop_tensor, "aoti_torch_delete_tensor_object");
  provided(api.copy, "aoti_torch_copy_");
  provided(api.extents, "aoti_torch_get_dim");
  provided(api.sizes, "aoti_torch_get_sizes");
  provided(api.type, "aoti_torch_get_dtype");
  if (!provider.is_own() && device_type_ == torch_cuda) {
    provided(api.guard_stream, "aoti_torch_create_cuda_stream_guard");
    provided(api.drop_guard, "aoti_torch_delete_cuda_stream_guard");
  }
  std::optional<torch_setting> setting;
  if (memory != nullptr) {
    setting.emplace(*memory);
  }
  if (api.create(&container_, 1, device.c_str(), nullptr) != 0) {
    throw package_error("has a model that can't be made" + api.reason());
  }
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  std::string wrong;
  if (api.input_count(container_, &inputs) != 0 || api.output_count(container_, &outputs) != 0 ||
      inputs != inputs_.size() || outputs != outputs_.size()) {
    wrong = "has a model of " + std::to_string(inputs) + " inputs and " + std::to_string(outputs) +
            " outputs, with its state; its penstock.json says " + std::to_string(inputs_.size()) + " and " +
            std::to_string(outputs_.size());
  } else if (inputs > most_inputs + 1 || outputs > most_tensors) {
    wrong = "has a model of " + std::to_string(inputs) + " inputs and " + std::to_string(outputs) +
            " outputs; allowed are 8 and 15";
  } else if (api.has_folded(container_) && api.fold(container_, false, nullptr, nullptr) != 0) {
    wrong = "has a model whose constants can't be folded" + api.reason();
  }
  if (!wrong.empty()) {
    api.drop(container_);
    throw package_error(wrong);
  }
}

loaded_model::~loaded_model() {
  functions_->drop(container_);
}

std::string loaded_model::reason() const {
  std::string text = functions_->reason();
  text.erase(std::find_if(text.rbegin(), text.rend(), [](char each) { return each != '\n'; }).base(), text.end());
  return text;
}

fault loaded_model::run(void* stream, std::span<const void* const> inputs, std::span<void* const> outputs) noexcept {
  const functions& api = *functions_;
  std::array<void*, most_tensors> given{};
  std::array<void*, most_tensors> made{};
  void* guard = nullptr;
  fault met;
  if (api.guard_stream != nullptr && api.guard_stream(stream, device_index_, &guard) != 0) {
    return {"MODEL_STREAM"};
  }
  if (api.set_threads != nullptr) {
    api.set_threads(1);  // of this thread; the daemon's workers are the parallelism
  }
  const auto tensor = [&](const tensor_shape& shape, const void* data, void** result) {
    return api.tensor(const_cast<void*>(data), static_cast<std::int64_t>(shape.sizes.size()), shape.sizes.data(),
                      shape.strides.data(), 0, static_cast<std::int32_t>(shape.type), device_type_, device_index_,
                      result) == 0;
  };
  for (std::size_t each = 0; each < inputs_.size() && !met; ++each) {
    if (!tensor(inputs_[each], inputs[each], &given[each])) {
      met = {"MODEL_INPUT"};
      for (std::size_t before = 0; before < each; ++before) {
        api.drop_tensor(given[before]);
      }
    }
  }
  // It takes the inputs, also where it fails.
  if (!met && api.run(container_, given.data(), inputs_.size(), made.data(), outputs_.size(), stream, nullptr) != 0) {
    met = {"MODEL_FAILED"};
  }
  const auto copy_out = [&](const tensor_shape& shape, void* from, void* to) -> fault {
    std::int64_t extents = 0;
    std::int64_t* sizes = nullptr;
    std::int32_t type = 0;
    if (api.extents(from, &extents) != 0 || api.sizes(from, &sizes) != 0 || api.type(from, &type) != 0) {
      return {"MODEL_OUTPUT"};
    }
    if (type != static_cast<std::int32_t>(shape.type) ||
        !std::equal(sizes, sizes + extents, shape.sizes.begin(), shape.sizes.end())) {
      return {"MODEL_OUTPUT_IS_NOT_WHAT_THE_PACKAGE_SAYS"};
    }
    void* target = nullptr;
    if (!tensor(shape, to, &target)) {
      return {"MODEL_OUTPUT"};
    }
    const bool copied = api.copy(target, from, 1) == 0;
    api.drop_tensor(target);
    return {copied ? nullptr : "MODEL_OUTPUT"};
  };
  for (std::size_t each = 0; each < outputs_.size() && !met; ++each) {
    met = made[each] != nullptr ? copy_out(outputs_[each], made[each], outputs[each]) : fault{"MODEL_OUTPUT"};
  }
  // Two outputs may be one tensor: it is dropped once, when all are copied.
  for (auto each = made.begin(); each != made.end(); ++each) {
    if (*each != nullptr && std::find(made.begin(), each, *each) == each) {
      api.drop_tensor(*each);
    }
  }
  if (guard != nullptr) {
    api.drop_guard(guard);
  }
  const torch_run* const run = torch_run::current();
  return met && run != nullptr && run->met() ? run->met() : met;
}

}  // namespace penstock
