#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/convolve.hpp"
#include "tests/bench/operators.hpp"

namespace penstock::bench {
namespace {

using tag = dnnl::memory::format_tag;

/// oneDNN starts no threads for the one that calls this: a worker of the daemon computes alone.
void compute_alone() noexcept {
  static auto* const set = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) {
    set(1);
  }
}

/// dnnl::convolution_forward of a whole batch, with weights in the layout that it prefers. Images stay plain, or go
/// through the layout that it prefers. ReLU is its own, which makes 0 of a NaN.
class onednn_operation final : public operation {
 public:
  onednn_operation(const operator_case& subject, bool plain)
      : shape_(parse_convolve(subject.settings, subject.inputs.front()).shape) {
    compute_alone();
    shape_.frames = subject.frames;
    const convolution_shape::pair output = shape_.output_size();
    const dnnl::memory::dims x{shape_.frames, shape_.channels, shape_.size[0], shape_.size[1]};
    const dnnl::memory::dims y{shape_.frames, shape_.filters, output[0], output[1]};
    const bool grouped = shape_.groups > 1;
    const dnnl::memory::dims w =
        grouped ? dnnl::memory::dims{shape_.groups, shape_.filters / shape_.groups, shape_.channels / shape_.groups,
                                     shape_.filter_size[0], shape_.filter_size[1]}
                : dnnl::memory::dims{shape_.filters, shape_.channels, shape_.filter_size[0], shape_.filter_size[1]};
    const auto layout = [](const dnnl::memory::dims& extents, tag format) {
      return dnnl::memory::desc(extents, dnnl::memory::data_type::f32, format);
    };
    const dnnl::memory::dims strides{shape_.stride[0], shape_.stride[1]};
    const dnnl::memory::dims dilation{shape_.dilation[0] - 1, shape_.dilation[1] - 1};
    const dnnl::memory::dims before{shape_.padding[0], shape_.padding[1]};
    const dnnl::memory::dims after{shape_.padding_after[0], shape_.padding_after[1]};
    // The library's own scratchpad belongs to the thread that makes a primitive.
    dnnl::primitive_attr attributes;
    dnnl::primitive_attr for_reorders;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    for_reorders.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (shape_.activation == convolution_activation::relu) {
      dnnl::post_ops operations;
      operations.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
      attributes.set_post_ops(operations);
    }
    const dnnl::convolution_forward::primitive_desc description(
        {dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
         layout(x, plain ? tag::nchw : tag::any), layout(w, tag::any), layout(y, plain ? tag::nchw : tag::any), strides,
         dilation, before, after},
        attributes, engine_);
    name_ = description.impl_info_str();
    plain_x_ = dnnl::memory(layout(x, tag::nchw), engine_, nullptr);
    plain_y_ = dnnl::memory(layout(y, tag::nchw), engine_, nullptr);
    x_ = description.src_desc() == plain_x_.get_desc() ? plain_x_ : dnnl::memory(description.src_desc(), engine_);
    y_ = description.dst_desc() == plain_y_.get_desc() ? plain_y_ : dnnl::memory(description.dst_desc(), engine_);
    std::vector<float> weights(static_cast<std::size_t>(shape_.weight_elements()));
    subject.settings.npy_file("weights")->read(0, weights);
    dnnl::memory plain_w(layout(w, grouped ? tag::goihw : tag::oihw), engine_, weights.data());
    w_ = dnnl::memory(description.weights_desc(), engine_);
    dnnl::reorder(plain_w, w_).execute(stream_, plain_w, w_);
    scratchpad_ = dnnl::memory(description.scratchpad_desc(), engine_);
    convolution_ = dnnl::convolution_forward(description);
    if (x_ != plain_x_) {
      into_.emplace(dnnl::reorder::primitive_desc(plain_x_, x_, for_reorders));
    }
    if (y_ != plain_y_) {
      out_of_.emplace(dnnl::reorder::primitive_desc(y_, plain_y_, for_reorders));
    }
  }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    try {
      compute_alone();
      plain_x_.set_data_handle(const_cast<void*>(arguments.inputs[0]));
      plain_y_.set_data_handle(arguments.output);
      if (into_) {
        into_->execute(stream_, plain_x_, x_);
      }
      convolution_.execute(
          stream_,
          {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, w_}, {DNNL_ARG_DST, y_}, {DNNL_ARG_SCRATCHPAD, scratchpad_}});
      if (out_of_) {
        out_of_->execute(stream_, y_, plain_y_);
      }
      return {};
    } catch (const dnnl::error&) {
      return fault{"dnnl_runtime_error"};
    }
  }

  /// Seconds of the fastest of a few runs.
  [[nodiscard]] double seconds() {
    using clock = std::chrono::steady_clock;
    const std::vector<float> x(static_cast<std::size_t>(shape_.frames * shape_.input_elements()), 0.5F);
    std::vector<float> y(static_cast<std::size_t>(shape_.frames * shape_.output_elements()));
    const void* const input = x.data();
    double least = std::numeric_limits<double>::infinity();
    for (int each = 0; each < 5; ++each) {
      const auto start = clock::now();
      static_cast<void>(run(nullptr, {.inputs = {&input, 1}, .output = y.data(), .extent = {}, .session = {}}));
      least = std::min(least, std::chrono::duration<double>(clock::now() - start).count());
    }
    return least;
  }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  convolution_shape shape_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::memory plain_x_;
  dnnl::memory plain_y_;
  dnnl::memory x_;
  dnnl::memory y_;
  dnnl::memory w_;
  dnnl::memory scratchpad_;
  dnnl::convolution_forward convolution_;
  std::optional<dnnl::reorder> into_;
  std::optional<dnnl::reorder> out_of_;
  std::string name_;
};

}  // namespace

library_call_list onednn_calls(const operator_case& subject) {
  library_call_list found;
  if (subject.op != "convolve") {
    return found;
  }
  try {
    auto changed = std::make_unique<onednn_operation>(subject, false);
    auto plain = std::make_unique<onednn_operation>(subject, true);
    const bool changes = changed->seconds() < plain->seconds();
    auto& best = changes ? changed : plain;
    const std::string call = fmt::format("{} of oneDNN, {}", best->name(), changes ? "with reorders" : "plain");
    found.calls.push_back({.key = "of_onednn",
                           .call = call,
                           .work = std::move(best),
                           .output_bytes = subject.output_bytes(),
                           .difference = difference_of});
  } catch (const dnnl::error& error) {
    found.missing.push_back(std::string("oneDNN: ") + error.what());
  }
  return found;
}

}  // namespace penstock::bench
