#include "kernels/concat.hpp"

#include <cstddef>
#include <cstring>
#include <utility>

namespace penstock {
namespace {

class concat_host final : public operation {
 public:
  explicit concat_host(concat_settings settings) : settings_{std::move(settings)} {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto runs = static_cast<std::size_t>(settings_.runs(arguments.extent));
    auto* out = static_cast<std::byte*>(arguments.output);
    for (std::size_t run = 0; run < runs; ++run) {
      for (std::size_t input = 0; input < settings_.chunks.size(); ++input) {
        const std::size_t bytes = settings_.chunks[input];
        std::memcpy(out, static_cast<const std::byte*>(arguments.inputs[input]) + run * bytes, bytes);
        out += bytes;
      }
    }
    return {};
  }

 private:
  const concat_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_concat_host(const operation_request& request) {
  return std::make_unique<concat_host>(parse_concat(request.settings, request.inputs));
}

}  // namespace penstock
