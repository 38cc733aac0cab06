#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/launch.cuh"
#include "kernels/slice.hpp"

namespace penstock {
namespace {

class slice_cuda final : public operation {
 public:
  explicit slice_cuda(slice_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return enqueue_transpose(stream, multiprocessors_,
                             static_cast<const std::byte*>(arguments.inputs[0]) + settings_.offset(), arguments.output,
                             settings_.copy(arguments.extent), size_of(settings_.output.type));
  }

 private:
  const slice_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_slice_cuda(const operation_request& request) {
  return std::make_unique<slice_cuda>(parse_slice(request.settings, request.inputs[0]));
}

}  // namespace penstock
