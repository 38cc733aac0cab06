#include "kernels/fault.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace penstock {
namespace {

struct explained_fault {
  std::string_view name;
  const char* text;
  bool own_functions_lack_it = false;
};

constexpr const char* computes_while_loaded =
    "the model computes while it is loaded, outside of a run: export it again";

constexpr explained_fault explained[] = {
    // of models
    {"MODEL_FAILED", "the model's code returned an error"},
    {"MODEL_INPUT", "an input could not be handed to the model"},
    {"MODEL_OUTPUT", "an output could not be taken from the model"},
    {"MODEL_OUTPUT_IS_NOT_WHAT_THE_PACKAGE_SAYS",
     "an output has another type or shape than the package's penstock.json says: export it again"},
    {"MODEL_STREAM", "PyTorch did not take the stream of the batch"},
    // of the functions that models call
    {"OPENBLAS_IS_MISSING", "there is no OpenBLAS on this machine: install libopenblas0"},
    {"ONEDNN", "oneDNN could not compute a convolution of the model"},
    {"TORCH_CALL_NOT_PREPARED", "the model makes other calls than in its first run, which has prepared them"},
    {"TORCH_CONVOLUTION_EXTENTS", "own functions convolve over one or two axes", true},
    {"TORCH_CONVOLUTION_OF_ANOTHER_TYPE_THAN_F32", "own functions convolve f32 on the host", true},
    {"TORCH_CONVOLUTION_OUTSIDE_OF_A_RUN", computes_while_loaded},
    {"TORCH_CONVOLUTION_SIZES", "the sizes of a convolution do not fit: export the model again"},
    {"TORCH_CONVOLUTION_TYPES", "own functions convolve f32, f16 and bf16, with input, weights and bias of one type",
     true},
    {"TORCH_COPY_BETWEEN_DEVICES", "the model copies between host and GPU", true},
    {"TORCH_COPY_OF_ANOTHER_TYPE", "own functions copy between tensors of one type", true},
    {"TORCH_FILL_OF_ANOTHER_TYPE", "own functions do not fill a tensor of this type", true},
    {"TORCH_NO_ALGORITHM", "neither cuBLASLt nor cuDNN computes a product or convolution of the model"},
    {"TORCH_NO_DEVICE", computes_while_loaded},
    {"TORCH_NO_SUCH_EXTENT", "the model asks for an axis that its tensor lacks: export the model again"},
    {"TORCH_OUT_OF_SCRATCH", "the model needs more memory than in its first run, which has measured it"},
    {"TORCH_PRODUCT_IS_TOO_LARGE", "a matrix is too large for OpenBLAS", true},
    {"TORCH_PRODUCT_OF_ANOTHER_TYPE_THAN_F32_AND_F64", "own functions multiply f32 and f64 on the host", true},
    {"TORCH_PRODUCT_OUTSIDE_OF_A_RUN", computes_while_loaded},
    {"TORCH_PRODUCT_SIZES", "the sizes of a product do not fit: export the model again"},
    {"TORCH_PRODUCT_TYPES", "own functions multiply f32, f64, f16 and bf16, with all factors of one type", true},
    {"TORCH_SIZES_DIFFER", "the sizes of two tensors do not fit: export the model again"},
    {"TORCH_TOO_MANY_EXTENTS", "own functions take tensors of eight axes at most", true},
    {"TORCH_TOO_MANY_TENSORS", "the model holds more tensors than in its first run, which has counted them"},
    {"TORCH_UNKNOWN_LAYOUT", "own functions take no sparse tensors", true},
    {"TORCH_UNKNOWN_TYPE", "own functions do not know the type of a tensor", true},
    // of plug-ins
    {"PLUGIN_FAILED", "the plug-in's run returned an error that has no name"},
    {"PLUGIN_KERNEL_ARGUMENTS", "the plug-in launched a kernel with more bytes of arguments than a launch takes"},
    // of the daemon's streams, which are sized so that these do not happen
    {"BLOCKING_STREAM_FULL", "the queue of a thread for blocking work is full: please report it"},
    {"BLOCKING_STREAM_WAITS_FOR_NONE", "work that blocks was to wait for a stream: please report it"},
    {"COMPLETION_RING_FULL", "the ring of completions is full: please report it"},
    {"HOST_STREAM_FULL", "the queue of a stream of the host is full: please report it"},
};

const explained_fault* find(fault met) noexcept {
  const auto* const found = std::find_if(std::begin(explained), std::end(explained),
                                         [met](const explained_fault& each) { return met && each.name == met.name; });
  return found == std::end(explained) ? nullptr : found;
}

}  // namespace

std::string explanation_of(fault met) {
  const explained_fault* const found = find(met);
  if (found == nullptr) {
    return "";
  }
  return std::string(found->text) + (found->own_functions_lack_it ? ": give the stage runtime = \"libtorch\"" : "");
}

std::string text_of(fault met) {
  const std::string name = met ? met.name : "";
  const std::string text = explanation_of(met);
  return text.empty() ? name : text + " (" + name + ")";
}

bool is_lack_of_own_functions(fault met) noexcept {
  const explained_fault* const found = find(met);
  return found != nullptr && found->own_functions_lack_it;
}

}  // namespace penstock
