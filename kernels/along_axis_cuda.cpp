#include "kernels/along_axis.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "kernels/launch.cuh"
#include "kernels/operator_checks.hpp"
#include "kernels/transpose.hpp"

namespace penstock {
namespace {

class along_axis_cuda final : public operation {
 public:
  along_axis_cuda(axis_rows rows, bool keeps_axis, const tensor_spec& result, std::int64_t max_rows,
                  std::unique_ptr<operation> by_row)
      : rows_{std::move(rows)},
        keeps_axis_{keeps_axis},
        element_{size_of(rows_.input.type)},
        result_element_{size_of(result.type)},
        result_{result},
        by_row_{std::move(by_row)},
        multiprocessors_{multiprocessor_count()},
        results_at_{aligned_scratch(static_cast<std::size_t>(max_rows) * rows_.row().bytes())},
        scratch_at_{results_at_ +
                    (keeps_axis ? aligned_scratch(static_cast<std::size_t>(max_rows) * result.bytes()) : 0)} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_at_ + by_row_->scratch_bytes(); }
  [[nodiscard]] std::size_t own_bytes() const noexcept override { return by_row_->own_bytes(); }
  [[nodiscard]] std::string note() const override { return by_row_->note(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t outer = rows_.outer(arguments.extent);
    const std::int64_t length = rows_.length(arguments.extent);
    const std::int64_t inner = rows_.inner();
    const std::int64_t result_length = result_.elements(length);
    auto* const rows = static_cast<std::byte*>(arguments.scratch);
    if (const fault failed = turn(stream, arguments.inputs[0], rows, {outer, length, inner}, element_)) {
      return failed;
    }
    operation_arguments of_rows = arguments;
    const void* const inputs[] = {rows};
    of_rows.inputs = inputs;
    of_rows.output = keeps_axis_ ? rows + results_at_ : arguments.output;
    of_rows.scratch = rows + scratch_at_;
    of_rows.extent = {.frames = outer * inner, .leading = length};
    if (const fault failed = by_row_->run(stream, of_rows); failed || !keeps_axis_) {
      return failed;
    }
    return turn(stream, rows + results_at_, arguments.output, {outer, inner, result_length}, result_element_);
  }

 private:
  /// Exchanges the last two axes.
  fault turn(void* stream, const void* from, void* to, const std::array<std::int64_t, 3>& sizes,
             std::size_t element) const noexcept {
    constexpr std::array<std::size_t, 3> order{0, 2, 1};
    return enqueue_transpose(stream, multiprocessors_, from, to, transposition_of(sizes, order), element);
  }

  const axis_rows rows_;
  const bool keeps_axis_;
  const std::size_t element_;  ///< bytes
  const std::size_t result_element_;
  const tensor_spec result_;  ///< of a row
  const std::unique_ptr<operation> by_row_;
  const std::int64_t multiprocessors_;
  const std::size_t results_at_;  ///< bytes into the scratch, behind the rows
  const std::size_t scratch_at_;  ///< of the operator's own
};

}  // namespace

std::unique_ptr<operation> make_along_axis_cuda(const row_operator& rows, const operation_request& request) {
  axis_rows along{request.inputs[0], parse_axis(request.settings, request.inputs[0], -1)};
  if (along.is_last()) {
    return rows.make(request);
  }
  const std::array<tensor_spec, 1> row{along.row()};
  const std::int64_t max_rows = along.inner() * along.outer({request.max_frames, along.input.shape.front()});
  std::unique_ptr<operation> by_row = rows.make({.settings = request.settings, .inputs = row, .max_frames = max_rows});
  return std::make_unique<along_axis_cuda>(std::move(along), rows.keeps_axis, rows.infer(request.settings, row),
                                           max_rows, std::move(by_row));
}

std::unique_ptr<operation> make_along_session_cuda(const step_operator& steps, const operation_request& request) {
  return make_along_session(
      steps, request,
      [multiprocessors = multiprocessor_count()](void* stream, const void* from, void* to,
                                                 const std::array<std::int64_t, 4>& sizes, std::size_t element) {
        return enqueue_transpose(stream, multiprocessors, from, to, transposition_of(sizes, middle_exchanged), element);
      });
}

}  // namespace penstock
