#include "kernels/model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/half.hpp"
#include "kernels/onednn.hpp"
#include "kernels/openblas.hpp"

namespace penstock {
namespace {

constexpr std::size_t alignment = 64;

std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

// -- tensors in the host's memory -------------------------------------------------------------------------------------

/// Calls `row(to, from, count, to_stride, from_stride)` for each row along the last axis, strides in bytes.
template <class Row>
void for_rows(const torch_tensor& to, const torch_tensor& from, const Row& row) noexcept {
  const auto element = static_cast<std::int64_t>(size_of(to.type));
  const auto axes = static_cast<std::size_t>(to.extents);
  if (axes == 0) {
    row(to.first(), from.first(), 1, element, element);
    return;
  }
  std::array<std::int64_t, most_torch_extents> at{};
  std::byte* target = to.first();
  const std::byte* source = from.first();
  for (;;) {
    row(target, source, to.sizes[axes - 1], to.strides[axes - 1] * element, from.strides[axes - 1] * element);
    std::size_t axis = axes - 1;
    for (; axis-- > 0;) {
      target += to.strides[axis] * element;
      source += from.strides[axis] * element;
      if (++at[axis] < to.sizes[axis]) {
        break;
      }
      target -= to.strides[axis] * element * at[axis];
      source -= from.strides[axis] * element * at[axis];
      at[axis] = 0;
    }
    if (axis > axes) {
      return;
    }
  }
}

void copy_tensor(const torch_tensor& to, const torch_tensor& from) noexcept {
  const std::size_t element = size_of(to.type);
  if (to.is_contiguous() && from.is_contiguous()) {
    std::memcpy(to.first(), from.first(), static_cast<std::size_t>(to.elements()) * element);
    return;
  }
  for_rows(to, from,
           [element](std::byte* target, const std::byte* source, std::int64_t count, std::int64_t target_stride,
                     std::int64_t source_stride) {
             if (target_stride == static_cast<std::int64_t>(element) && source_stride == target_stride) {
               std::memcpy(target, source, static_cast<std::size_t>(count) * element);
               return;
             }
             for (std::int64_t each = 0; each < count; ++each) {
               std::memcpy(target + each * target_stride, source + each * source_stride, element);
             }
           });
}

template <class Number>
void store(double value, std::array<std::byte, 8>& to) noexcept {
  const auto number = static_cast<Number>(value);
  std::memcpy(to.data(), &number, sizeof number);
}

/// An element of this value.
bool encode(torch_type type, double value, std::array<std::byte, 8>& to) noexcept {
  to = {};
  switch (type) {
    case torch_type::u8:
      store<std::uint8_t>(value, to);
      return true;
    case torch_type::i8:
      store<std::int8_t>(value, to);
      return true;
    case torch_type::u16:
      store<std::uint16_t>(value, to);
      return true;
    case torch_type::i16:
      store<std::int16_t>(value, to);
      return true;
    case torch_type::i32:
      store<std::int32_t>(value, to);
      return true;
    case torch_type::i64:
      store<std::int64_t>(value, to);
      return true;
    case torch_type::f32:
    case torch_type::cf32:
      store<float>(value, to);
      return true;
    case torch_type::f64:
      store<double>(value, to);
      return true;
    case torch_type::boolean:
      store<std::uint8_t>(value != 0 ? 1 : 0, to);
      return true;
    default:
      return value == 0;
  }
}

/// A matrix as BLAS takes it.
struct blas_matrix {
  const std::byte* first = nullptr;
  bool is_transposed = false;
  std::int64_t pitch = 1;
};

/// Of the last two axes; nothing if neither is without gaps.
std::optional<blas_matrix> matrix_of(const torch_tensor& tensor) noexcept {
  const auto row = static_cast<std::size_t>(tensor.extents - 2);
  const std::int64_t rows = tensor.sizes[row];
  const std::int64_t columns = tensor.sizes[row + 1];
  const std::int64_t row_stride = rows == 1 ? columns : tensor.strides[row];
  const std::int64_t column_stride = columns == 1 ? 1 : tensor.strides[row + 1];
  if (column_stride == 1 && row_stride >= columns) {
    return blas_matrix{tensor.first(), false, row_stride};
  }
  const std::int64_t turned_row = rows == 1 ? 1 : tensor.strides[row];
  const std::int64_t turned_column = columns == 1 ? rows : tensor.strides[row + 1];
  if (turned_row == 1 && turned_column >= rows) {
    return blas_matrix{tensor.first(), true, turned_column};
  }
  return std::nullopt;
}

/// Products by OpenBLAS, convolutions by oneDNN.
class host_torch final : public torch_device {
 public:
  [[nodiscard]] std::int32_t type() const noexcept override { return torch_cpu; }
  [[nodiscard]] std::byte* allocate(std::size_t bytes) noexcept override {
    return static_cast<std::byte*>(std::aligned_alloc(alignment, aligned(std::max<std::size_t>(bytes, 1))));
  }
  void release(std::byte* memory) noexcept override { std::free(memory); }

  /// Why a run that prepares has failed, for people; "" if its fault says all.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  fault product(torch_run& run, const torch_product& asked, std::size_t call) noexcept override {
    if (asked.out->type != torch_type::f32 && asked.out->type != torch_type::f64) {
      return {"TORCH_PRODUCT_OF_ANOTHER_TYPE_THAN_F32_AND_F64"};
    }
    if (blas_ == nullptr) {
      if (!run.prepares()) {
        return {"TORCH_CALL_NOT_PREPARED"};
      }
      try {
        blas_ = openblas_library::load();
      } catch (const std::exception& error) {
        problem_ = error.what();
        return {"OPENBLAS_IS_MISSING"};
      }
    }
    static_cast<void>(call);
    torch_block* held[3] = {};
    const fault failed = multiply(run, asked, held);
    for (torch_block* const each : held) {
      if (each != nullptr) {
        run.release(*each);
      }
    }
    return failed;
  }

  fault convolve(torch_run& run, const torch_convolution& asked, std::size_t call) noexcept override {
    if (asked.out->type != torch_type::f32) {
      return {"TORCH_CONVOLUTION_OF_ANOTHER_TYPE_THAN_F32"};
    }
    torch_block* held[4] = {};
    const fault failed = convolve(run, asked, call, held);
    for (torch_block* const each : held) {
      if (each != nullptr) {
        run.release(*each);
      }
    }
    return failed;
  }

  fault copy(torch_run* /*run*/, const torch_tensor& to, const torch_tensor& from) noexcept override {
    copy_tensor(to, from);
    return {};
  }

  fault fill(torch_run* /*run*/, const torch_tensor& to, double value) noexcept override {
    std::array<std::byte, 8> element{};
    if (!encode(to.type, value, element)) {
      return {"TORCH_FILL_OF_ANOTHER_TYPE"};
    }
    const std::size_t bytes = size_of(to.type);
    for_rows(to, to,
             [&](std::byte* target, const std::byte* /*source*/, std::int64_t count, std::int64_t stride,
                 std::int64_t /*source_stride*/) {
               for (std::int64_t each = 0; each < count; ++each) {
                 std::memcpy(target + each * stride, element.data(), bytes);
               }
             });
    return {};
  }

 private:
  /// `tensor` without gaps, in memory of the run if it has some.
  static fault straighten(torch_run& run, torch_tensor& tensor, torch_block*& held) noexcept {
    torch_tensor straight = tensor;
    std::int64_t stride = 1;
    for (auto axis = static_cast<std::size_t>(tensor.extents); axis-- > 0;) {
      straight.strides[axis] = stride;
      stride *= tensor.sizes[axis];
    }
    held = run.allocate(static_cast<std::size_t>(stride) * size_of(tensor.type));
    if (held == nullptr) {
      return {"TORCH_OUT_OF_SCRATCH"};
    }
    straight.data = held->data;
    straight.offset = 0;
    copy_tensor(straight, tensor);
    tensor = straight;
    return {};
  }

  fault multiply(torch_run& run, const torch_product& asked, torch_block** held) noexcept {
    torch_tensor left = *asked.left;
    torch_tensor right = *asked.right;
    torch_tensor out = *asked.out;
    if (!matrix_of(left)) {
      if (const fault failed = straighten(run, left, held[0])) {
        return failed;
      }
    }
    if (!matrix_of(right)) {
      if (const fault failed = straighten(run, right, held[1])) {
        return failed;
      }
    }
    const bool has_gaps = !matrix_of(out);
    if (has_gaps) {
      if (const fault failed = straighten(run, out, held[2])) {
        return failed;
      }
    }
    if (asked.add != nullptr && (asked.add->first() != out.first() || has_gaps)) {
      copy_tensor(out, *asked.add);
    }
    const double beta = asked.add == nullptr ? 0 : asked.beta;
    const std::int64_t pairs = out.extents == 3 ? out.sizes[0] : 1;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      if (const fault failed =
              multiply(*matrix_of(left), *matrix_of(right), *matrix_of(out), out, left, asked.alpha, beta)) {
        return failed;
      }
      for (torch_tensor* const each : {&left, &right, &out}) {
        each->offset += each->extents == 3 ? each->strides[0] : 0;
      }
    }
    if (has_gaps) {
      out.offset = 0;
      copy_tensor(*asked.out, out);
    }
    return {};
  }

  fault multiply(const blas_matrix& left, const blas_matrix& right, const blas_matrix& out, const torch_tensor& shape,
                 const torch_tensor& left_shape, double alpha, double beta) const noexcept {
    const auto row = static_cast<std::size_t>(shape.extents - 2);
    std::int64_t rows = shape.sizes[row];
    std::int64_t columns = shape.sizes[row + 1];
    const std::int64_t inner = left_shape.sizes[row + 1];
    for (const std::int64_t each : {rows, columns, inner, left.pitch, right.pitch, out.pitch}) {
      if (each > openblas_library::max_extent) {
        return {"TORCH_PRODUCT_IS_TOO_LARGE"};
      }
    }
    blas_matrix first = left;
    blas_matrix second = right;
    // A transposed result is the product of the transposed factors in the other order.
    if (out.is_transposed) {
      std::swap(first, second);
      first.is_transposed = !first.is_transposed;
      second.is_transposed = !second.is_transposed;
      std::swap(rows, columns);
    }
    auto* const result = const_cast<std::byte*>(out.first);
    // A row times a matrix, as of one frame: the functions for matrices take far longer for it.
    if (rows == 1 && shape.type == torch_type::f32) {
      blas_->sgemv(openblas_library::row_major,
                   second.is_transposed ? openblas_library::plain : openblas_library::transposed,
                   static_cast<int>(second.is_transposed ? columns : inner),
                   static_cast<int>(second.is_transposed ? inner : columns), static_cast<float>(alpha),
                   reinterpret_cast<const float*>(second.first), static_cast<int>(second.pitch),
                   reinterpret_cast<const float*>(first.first), static_cast<int>(first.is_transposed ? first.pitch : 1),
                   static_cast<float>(beta), reinterpret_cast<float*>(result), 1);
      return {};
    }
    const auto call = [&]<class Number>(auto gemm, Number /*kind*/) {
      gemm(openblas_library::row_major, first.is_transposed ? openblas_library::transposed : openblas_library::plain,
           second.is_transposed ? openblas_library::transposed : openblas_library::plain, static_cast<int>(rows),
           static_cast<int>(columns), static_cast<int>(inner), static_cast<Number>(alpha),
           reinterpret_cast<const Number*>(first.first), static_cast<int>(first.pitch),
           reinterpret_cast<const Number*>(second.first), static_cast<int>(second.pitch), static_cast<Number>(beta),
           reinterpret_cast<Number*>(result), static_cast<int>(out.pitch));
    };
    if (shape.type == torch_type::f64) {
      call(blas_->dgemm, double{});
    } else {
      call(blas_->sgemm, float{});
    }
    return {};
  }

  fault convolve(torch_run& run, const torch_convolution& asked, std::size_t call, torch_block** held) noexcept {
    torch_tensor input = *asked.input;
    torch_tensor weight = *asked.weight;
    torch_tensor bias = asked.bias == nullptr ? torch_tensor{} : *asked.bias;
    const bool is_constant = weight.is_constant && (asked.bias == nullptr || bias.is_constant);
    std::size_t at = 0;
    for (torch_tensor* const each : {&input, &weight, &bias}) {
      if (each->data != nullptr && !each->is_contiguous()) {
        if (const fault failed = straighten(run, *each, held[at])) {
          return failed;
        }
      }
      ++at;
    }
    const auto* const weights = reinterpret_cast<const float*>(weight.first());
    const auto* const biases = asked.bias == nullptr ? nullptr : reinterpret_cast<const float*>(bias.first());
    if (run.prepares()) {
      constexpr double longest = 1.25;  // models are compared with PyTorch's results
      try {
        convolutions_.resize(std::max(convolutions_.size(), call + 1));
        if (library_ == nullptr) {
          library_ = load_onednn();
        }
        convolutions_[call] = std::make_unique<onednn_convolution>(
            library_, shape_of(asked), is_constant ? weights : nullptr, is_constant ? biases : nullptr, longest);
      } catch (const std::exception& error) {
        problem_ = error.what();
        return {"ONEDNN"};
      }
    }
    if (call >= convolutions_.size() || convolutions_[call] == nullptr ||
        convolutions_[call]->shape() != shape_of(asked)) {
      return {"TORCH_CALL_NOT_PREPARED"};
    }
    const onednn_convolution& made = *convolutions_[call];
    held[3] = run.allocate(made.workspace_bytes());
    if (held[3] == nullptr) {
      return {"TORCH_OUT_OF_SCRATCH"};
    }
    return made.run(held[3]->data, reinterpret_cast<const float*>(input.first()), weights, biases,
                    reinterpret_cast<float*>(asked.out->first()));
  }

  std::shared_ptr<const openblas_library> blas_;
  std::shared_ptr<const onednn_library> library_;
  std::vector<std::unique_ptr<onednn_convolution>> convolutions_;  // by the number of their call
  std::string problem_;
};

// -- the operation ----------------------------------------------------------------------------------------------------

/// A model of one bucket, with what its runs need.
struct host_bucket {
  host_torch device;
  std::unique_ptr<loaded_model> model;
  torch_needs needs;
};

/// A model without sessions: its state, if it has one, is its last input and output.
class model_host final : public operation {
 public:
  model_host(const model_parameters& settings, std::int64_t max_frames, const torch_provider& provider)
      : order_(settings.order), is_own_(provider.is_own()), note_(note_on(provider)) {
    const model_package& package = *settings.package;
    const auto add = [](std::vector<std::size_t>& to, const model_tensor& tensor) {
      to.push_back(tensor.spec.bytes());
    };
    for (const model_tensor& each : package.inputs) {
      add(input_bytes_, each);
    }
    for (const model_tensor& each : package.outputs) {
      add(output_bytes_, each);
    }
    if (package.state) {
      order_.push_back(order_.size());
      add(input_bytes_, *package.state);
      add(output_bytes_, *package.state);
    }
    std::vector<std::int64_t> frames;
    for (const model_part& each : package.parts_of("cpu")) {
      auto bucket = std::make_unique<host_bucket>();
      bucket->model =
          std::make_unique<loaded_model>(each, package, provider, is_own_ ? &bucket->device : nullptr, "cpu");
      frames.push_back(each.frames);
      buckets_.push_back(std::move(bucket));
    }
    plan_.emplace(frames, max_frames, 1);
    place_padding(frames.back());
    for (const std::unique_ptr<host_bucket>& each : buckets_) {
      prepare(*each);
    }
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return elements_at_ + run_bytes_; }
  [[nodiscard]] std::string note() const override { return note_; }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    std::array<const void*, 16> inputs{};
    std::array<void*, 16> outputs{};
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const std::int64_t frames = arguments.extent.frames;
    for (std::int64_t done = 0; done < frames;) {
      host_bucket& bucket = *buckets_[plan_->next(frames - done)];
      const std::int64_t count = std::min(bucket.model->frames(), frames - done);
      const bool pads = count < bucket.model->frames();
      for (std::size_t each = 0; each < input_bytes_.size(); ++each) {
        const auto* const from = static_cast<const std::byte*>(arguments.inputs[order_[each]]) +
                                 static_cast<std::size_t>(done) * input_bytes_[each];
        inputs[each] = pads ? padded(scratch + inputs_at_[each], from, input_bytes_[each], count, bucket) : from;
      }
      for (std::size_t each = 0; each < output_bytes_.size(); ++each) {
        outputs[each] = pads ? scratch + outputs_at_[each] : output_at(arguments, each, done);
      }
      if (const fault failed = run(bucket, inputs, outputs, scratch + elements_at_)) {
        return failed;
      }
      for (std::size_t each = 0; pads && each < output_bytes_.size(); ++each) {
        std::memcpy(output_at(arguments, each, done), outputs[each],
                    static_cast<std::size_t>(count) * output_bytes_[each]);
      }
      done += count;
    }
    return {};
  }

 private:
  [[nodiscard]] std::byte* output_at(const operation_arguments& arguments, std::size_t output,
                                     std::int64_t frame) const noexcept {
    void* const first = arguments.outputs.empty() ? arguments.output : arguments.outputs[output];
    return static_cast<std::byte*>(first) + static_cast<std::size_t>(frame) * output_bytes_[output];
  }

  /// The frames, and zeros up to the bucket.
  static const void* padded(std::byte* to, const std::byte* from, std::size_t bytes, std::int64_t count,
                            const host_bucket& bucket) noexcept {
    const std::size_t given = static_cast<std::size_t>(count) * bytes;
    std::memcpy(to, from, given);
    std::memset(to + given, 0, static_cast<std::size_t>(bucket.model->frames()) * bytes - given);
    return to;
  }

  fault run(host_bucket& bucket, std::span<const void* const> inputs, std::span<void* const> outputs,
            std::byte* memory) const noexcept {
    if (!is_own_) {
      return bucket.model->run(nullptr, inputs, outputs);
    }
    const torch_needs& needs = bucket.needs;
    auto* const tensors = reinterpret_cast<torch_tensor*>(memory + aligned(needs.bytes));
    auto* const blocks =
        reinterpret_cast<torch_block*>(memory + aligned(needs.bytes) + aligned(needs.tensors * sizeof(torch_tensor)));
    const torch_run current(bucket.device, nullptr, {memory, needs.bytes}, {tensors, needs.tensors},
                            {blocks, needs.blocks});
    return bucket.model->run(nullptr, inputs, outputs);
  }

  void place_padding(std::int64_t frames) {
    const auto place = [&](std::size_t bytes) {
      return std::exchange(elements_at_, elements_at_ + aligned(bytes * static_cast<std::size_t>(frames)));
    };
    for (const std::size_t each : input_bytes_) {
      inputs_at_.push_back(place(each));
    }
    for (const std::size_t each : output_bytes_) {
      outputs_at_.push_back(place(each));
    }
  }

  /// Runs it over zeros: finds out what a run needs, and keeps what its calls have made.
  void prepare(host_bucket& bucket) {
    std::vector<std::byte> room(elements_at_ + alignment);
    std::byte* const first = room.data() + (alignment - reinterpret_cast<std::uintptr_t>(room.data()) % alignment);
    std::array<const void*, 16> inputs{};
    std::array<void*, 16> outputs{};
    for (std::size_t each = 0; each < input_bytes_.size(); ++each) {
      inputs[each] = first + inputs_at_[each];
    }
    for (std::size_t each = 0; each < output_bytes_.size(); ++each) {
      outputs[each] = first + outputs_at_[each];
    }
    fault failed;
    if (is_own_) {
      torch_run current(bucket.device, nullptr);
      failed = bucket.model->run(nullptr, inputs, outputs);
      bucket.needs = current.needs();
    } else {
      failed = bucket.model->run(nullptr, inputs, outputs);
    }
    if (failed) {
      const std::string& problem = bucket.device.problem();
      const std::string why = failed.name == std::string_view("MODEL_FAILED") ? bucket.model->reason() : "";
      const std::string text = "has a model that can't be run: " + (problem.empty() ? text_of(failed) + why : problem);
      if (is_own_ && is_lack_of_own_functions(failed)) {
        throw own_functions_error(text);
      }
      throw package_error(text);
    }
    run_bytes_ =
        std::max(run_bytes_, aligned(bucket.needs.bytes) + aligned(bucket.needs.tensors * sizeof(torch_tensor)) +
                                 aligned(bucket.needs.blocks * sizeof(torch_block)));
  }

  std::vector<std::size_t> order_;
  const bool is_own_;
  const std::string note_;
  std::vector<std::size_t> input_bytes_;  ///< of a frame of each
  std::vector<std::size_t> output_bytes_;
  std::vector<std::unique_ptr<host_bucket>> buckets_;
  std::optional<bucket_plan> plan_;
  // Where these begin in the scratch.
  std::vector<std::size_t> inputs_at_;
  std::vector<std::size_t> outputs_at_;
  std::size_t elements_at_ = 0;
  std::size_t run_bytes_ = 0;
};

}  // namespace

std::unique_ptr<torch_device> make_host_torch() {
  return std::make_unique<host_torch>();
}

void check_host_libraries(const parameters& settings, std::span<const tensor_spec> inputs) {
  const model_parameters model = parse_model(settings, inputs);
  try {
    if (!choose_provider(*model.package, "cpu", model.runtime, make_own_provider(), /*with_cuda=*/false)->is_own()) {
      return;
    }
    for (const model_part& part : model.package->parts_of("cpu")) {
      for (const std::string& name : part.library->wanted()) {
        if (name.ends_with("mm_out")) {  // of every product
          static_cast<void>(openblas_library::load());
        } else if (name == "aoti_torch_cpu_convolution") {
          static_cast<void>(load_onednn());
        }
      }
    }
  } catch (const std::runtime_error& error) {
    throw parameter_error("file", settings.code("file").path + ": " + error.what());
  }
}

std::unique_ptr<operation> make_model_host(const operation_request& request) {
  const model_parameters settings = parse_model(request.settings, request.inputs);
  const model_package& package = *settings.package;
  std::unique_ptr<operation> made;
  check_model(request.settings, "");
  try {
    made = make_with_provider(package, "cpu", settings.runtime, make_own_provider(), /*with_cuda=*/false,
                              [&](const std::shared_ptr<const torch_provider>& provider) {
                                return std::make_unique<model_host>(settings, request.max_frames, *provider);
                              });
  } catch (const package_error& error) {
    throw parameter_error("file", request.settings.code("file").path + ": " + error.what());
  }
  if (!package.state) {
    return made;
  }
  std::vector<operator_output> outputs;
  for (const model_tensor& each : package.outputs) {
    outputs.push_back({each.name, each.spec});
  }
  return make_waves_host(std::move(made),
                         wave_layout_of(request.inputs, outputs, package.state->spec.bytes(), request.max_frames));
}

}  // namespace penstock
