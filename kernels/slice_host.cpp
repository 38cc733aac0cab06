#include "kernels/slice.hpp"

#include <cstddef>
#include <utility>

namespace penstock {
namespace {

class slice_host final : public operation {
 public:
  explicit slice_host(slice_settings settings) : settings_{std::move(settings)} {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    transpose(static_cast<const std::byte*>(arguments.inputs[0]) + settings_.offset(), arguments.output,
              settings_.copy(arguments.extent), size_of(settings_.output.type));
    return {};
  }

 private:
  const slice_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_slice_host(const operation_request& request) {
  return std::make_unique<slice_host>(parse_slice(request.settings, request.inputs[0]));
}

}  // namespace penstock
