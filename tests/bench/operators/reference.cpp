#include "tests/bench/operators/reference.hpp"

#include <cstring>
#include <utility>

#include "tests/bench/operators/bare_calls.hpp"

namespace penstock::bench {
namespace {

class host_copy_operation final : public operation {
 public:
  explicit host_copy_operation(std::size_t bytes) : bytes_(bytes) {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    std::memcpy(arguments.output, arguments.inputs[0], bytes_);
    return {};
  }

 private:
  std::size_t bytes_;
};

}  // namespace

reference::reference(device& on, std::unique_ptr<operation> what, std::vector<const void*> inputs,
                     std::size_t output_bytes)
    : on_(on),
      what_(std::move(what)),
      output_bytes_(output_bytes),
      memory_(on, 2, output_bytes + what_->scratch_bytes()),
      inputs_(std::move(inputs)),
      output_(memory_.take(output_bytes)) {
  start();
}

reference::reference(device& on, std::unique_ptr<operation> what, std::size_t input_bytes, std::size_t output_bytes)
    : on_(on),
      what_(std::move(what)),
      output_bytes_(output_bytes),
      memory_(on, 3, input_bytes + output_bytes + what_->scratch_bytes()),
      inputs_{memory_.take(input_bytes)},
      output_(memory_.take(output_bytes)) {
  start();
}

void reference::start() {
  const operation_arguments arguments{.inputs = inputs_,
                                      .output = output_,
                                      .scratch = memory_.take(what_->scratch_bytes()),
                                      .extent = {},
                                      .session = {}};
  timed_ = std::make_unique<timed_operation>(on_, *what_, arguments);
}

std::unique_ptr<reference> copy_beside(device& on, const operator_case& what, const bare_calls* bare) {
  const std::size_t bytes = (what.input_bytes() + what.output_bytes()) / 2;
  std::unique_ptr<operation> copy = bare != nullptr ? bare->copy(bytes) : std::make_unique<host_copy_operation>(bytes);
  return std::make_unique<reference>(on, std::move(copy), bytes, bytes);
}

}  // namespace penstock::bench
