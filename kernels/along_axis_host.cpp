#include "kernels/along_axis.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "kernels/operator_checks.hpp"
#include "kernels/transpose.hpp"

namespace penstock {
namespace {

constexpr std::int64_t cached_bytes = 64 << 10;
constexpr std::int64_t line_bytes = 64;

/// As many as stay in the cache, in whole cache lines where they lie beside each other.
std::int64_t rows_at_once(const axis_rows& rows) noexcept {
  const auto element = static_cast<std::int64_t>(size_of(rows.input.type));
  const std::int64_t line = line_bytes / element;
  const std::int64_t fitting = cached_bytes / (rows.input.shape[rows.axis] * element);
  const std::int64_t inner = rows.inner();
  const std::int64_t wanted = std::max(fitting / line * line, line);
  return inner <= wanted ? std::max<std::int64_t>(wanted / inner, 1) * inner : wanted;
}

class along_axis_host final : public operation {
 public:
  along_axis_host(axis_rows rows, bool keeps_axis, const tensor_spec& result, std::unique_ptr<operation> by_row)
      : rows_{std::move(rows)},
        keeps_axis_{keeps_axis},
        at_once_{rows_at_once(rows_)},
        element_{size_of(rows_.input.type)},
        result_element_{size_of(result.type)},
        result_{result},
        by_row_{std::move(by_row)},
        results_at_{aligned_scratch(static_cast<std::size_t>(at_once_) * rows_.row().bytes())},
        scratch_at_{results_at_ +
                    (keeps_axis ? aligned_scratch(static_cast<std::size_t>(at_once_) * result.bytes()) : 0)} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_at_ + by_row_->scratch_bytes(); }
  [[nodiscard]] std::size_t own_bytes() const noexcept override { return by_row_->own_bytes(); }
  [[nodiscard]] std::string note() const override { return by_row_->note(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t outer = rows_.outer(arguments.extent);
    const std::int64_t inner = rows_.inner();
    const std::int64_t outer_at_once = std::max<std::int64_t>(at_once_ / inner, 1);
    for (std::int64_t first = 0; first < outer; first += outer_at_once) {
      for (std::int64_t beside = 0; beside < inner; beside += at_once_) {
        const piece these{first, std::min(outer_at_once, outer - first), beside, std::min(at_once_, inner - beside)};
        if (const fault failed = run_piece(stream, arguments, these)) {
          return failed;
        }
      }
    }
    return {};
  }

  [[nodiscard]] std::int64_t at_once() const noexcept { return at_once_; }

 private:
  struct piece {
    std::int64_t first;  ///< of the outer ones
    std::int64_t outer;
    std::int64_t beside;  ///< the first of the inner ones
    std::int64_t inner;
  };

  fault run_piece(void* stream, const operation_arguments& arguments, const piece& these) noexcept {
    const std::int64_t length = rows_.length(arguments.extent);
    const std::int64_t inner = rows_.inner();
    const std::int64_t result_length = result_.elements(length);
    auto* const rows = static_cast<std::byte*>(arguments.scratch);
    const auto* const input = static_cast<const std::byte*>(arguments.inputs[0]) +
                              (these.first * length * inner + these.beside) * static_cast<std::int64_t>(element_);
    transpose(input, rows,
              {.count = 3,
               .dimensions = {{these.outer, length * inner, these.inner * length},
                              {these.inner, 1, length},
                              {length, inner, 1}}},
              element_);
    const std::int64_t results =
        these.first * inner * result_length + (keeps_axis_ ? these.beside : these.beside * result_length);
    std::byte* const output =
        static_cast<std::byte*>(arguments.output) + results * static_cast<std::int64_t>(result_element_);
    operation_arguments of_rows = arguments;
    const void* const inputs[] = {rows};
    of_rows.inputs = inputs;
    of_rows.output = keeps_axis_ ? rows + results_at_ : output;
    of_rows.scratch = rows + scratch_at_;
    of_rows.extent = {.frames = these.outer * these.inner, .leading = length};
    if (const fault failed = by_row_->run(stream, of_rows); failed || !keeps_axis_) {
      return failed;
    }
    transpose(rows + results_at_, output,
              {.count = 3,
               .dimensions = {{these.outer, these.inner * result_length, result_length * inner},
                              {result_length, 1, inner},
                              {these.inner, result_length, 1}}},
              result_element_);
    return {};
  }

  const axis_rows rows_;
  const bool keeps_axis_;
  const std::int64_t at_once_;
  const std::size_t element_;  ///< bytes
  const std::size_t result_element_;
  const tensor_spec result_;  ///< of a row
  const std::unique_ptr<operation> by_row_;
  const std::size_t results_at_;  ///< bytes into the scratch, behind the rows
  const std::size_t scratch_at_;  ///< of the operator's own
};

}  // namespace

std::unique_ptr<operation> make_along_axis_host(const row_operator& rows, const operation_request& request) {
  axis_rows along{request.inputs[0], parse_axis(request.settings, request.inputs[0], -1)};
  if (along.is_last()) {
    return rows.make(request);
  }
  const std::array<tensor_spec, 1> row{along.row()};
  std::unique_ptr<operation> by_row =
      rows.make({.settings = request.settings, .inputs = row, .max_frames = rows_at_once(along)});
  return std::make_unique<along_axis_host>(std::move(along), rows.keeps_axis, rows.infer(request.settings, row),
                                           std::move(by_row));
}

std::unique_ptr<operation> make_along_session_host(const step_operator& steps, const operation_request& request) {
  return make_along_session(steps, request,
                            [](void* /*stream*/, const void* from, void* to, const std::array<std::int64_t, 4>& sizes,
                               std::size_t element) -> fault {
                              transpose(from, to, transposition_of(sizes, middle_exchanged), element);
                              return {};
                            });
}

}  // namespace penstock
