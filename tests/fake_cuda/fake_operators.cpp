// The catalogue of the module that is linked to the fake runtime: each operator is the host's, launched as a kernel.
#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "kernels/kernel.hpp"
#include "kernels/kernel_queue.hpp"
#include "kernels/matmul_massive.hpp"
#include "kernels/model.hpp"
#include "kernels/operation.hpp"
#include "tests/fake_cuda/fake_kernel.hpp"

namespace penstock {
namespace testing {

namespace {

class fake_operation final : public operation {
 public:
  explicit fake_operation(std::unique_ptr<operation> on_host) : on_host_(std::move(on_host)) {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return on_host_->scratch_bytes(); }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return on_host_->state_bytes(); }
  [[nodiscard]] bool single_pass() const noexcept override { return on_host_->single_pass(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    fake_kernel call{on_host_.get(), arguments};
    const std::array<void*, 1> places{&call};
    const std::array<std::size_t, 1> sizes{sizeof call};
    return kernel_queue::of(stream).add(
        {.kernel = &fake_kernel_address, .grid = dim3(1), .block = dim3(1), .arguments = places, .sizes = sizes});
  }

 private:
  std::unique_ptr<operation> on_host_;
};

// One for each operator of the catalogue: make_operation is a plain function.
template <std::size_t Place>
std::unique_ptr<operation> make_fake(const operation_request& request) {
  return std::make_unique<fake_operation>(operator_catalogue()[Place].make_host(request));
}

template <std::size_t... Places>
make_operation maker_of(std::size_t place, std::index_sequence<Places...> /*all*/) noexcept {
  constexpr std::array<make_operation, sizeof...(Places)> makers{&make_fake<Places>...};
  return place < makers.size() ? makers[place] : nullptr;
}

}  // namespace
}  // namespace testing

// Only a product by cuBLAS-Xt is CUDA's own: it takes host memory.
std::unique_ptr<operation> make_fake_matmul(const operation_request& request) {
  const matmul_settings settings = parse_matmul(request.settings, request.inputs[0]);
  return settings.engine == matmul_settings::engine_kind::xt
             ? make_matmul_xt(settings, request.max_frames)
             : std::make_unique<testing::fake_operation>(make_matmul_host(request));
}

// The rows that it copies would have to be a kernel of the fake machine.
std::unique_ptr<operation> make_waves_cuda(std::unique_ptr<operation> /*step*/, wave_layout /*layout*/) {
  throw std::runtime_error("the fake runtime runs no waves");
}

make_operation find_cuda_operation(std::string_view name) noexcept {
  if (name == "kernel") {
    return make_kernel_cuda;
  }
  if (name == "matmul") {
    return make_fake_matmul;
  }
  if (name == "model") {
    return make_model_cuda;
  }
  const operator_definition* const found = find_operator(name);
  return found == nullptr || name == "plugin"
             ? nullptr
             : testing::maker_of(static_cast<std::size_t>(found - operator_catalogue().data()),
                                 std::make_index_sequence<64>{});
}

}  // namespace penstock
