#include "tests/bench/operators/cublas_counterparts.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kernels/correlate.hpp"
#include "kernels/fir.hpp"
#include "kernels/window.hpp"
#include "tests/bench/operators/agreement.hpp"
#include "tests/bench/operators/device_table.hpp"
#include "tests/bench/operators/toeplitz.hpp"

namespace penstock::bench {
namespace {

using numbers = std::vector<float>;
using cublas_function = std::function<cublas::status(cublas&, const operation_arguments&)>;

constexpr float zero = 0;
constexpr float one = 1;

class cublas_operation final : public operation {
 public:
  cublas_operation(std::shared_ptr<cublas> library, cublas_function call)
      : library_(std::move(library)), call_(std::move(call)) {}
  ~cublas_operation() override { static_cast<void>(library_->use(nullptr)); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    if (const fault failed = library_->use(stream)) {
      return failed;
    }
    return cublas_fault(call_(*library_, arguments));
  }

 private:
  std::shared_ptr<cublas> library_;
  cublas_function call_;
};

const float* input_of(const operation_arguments& arguments, std::size_t at = 0) {
  return static_cast<const float*>(arguments.inputs[at]);
}

float* output_of(const operation_arguments& arguments) {
  return static_cast<float*>(arguments.output);
}

/// What is called, and what comes of it, beside one case.
struct offer {
  std::string call;
  cublas_function function;
  std::size_t output_bytes;
  std::function<double(const numbers& made, const numbers& own)> difference = difference_of;
};

/// A batch as one row or as rows of its frames, of so many floats each.
struct batch_shape {
  int length;
  int frames;

  [[nodiscard]] int count() const noexcept { return length * frames; }
};

batch_shape shape_of(const operator_case& what) {
  const tensor_spec& input = what.inputs.front();
  const auto length = static_cast<int>(input.elements()) * (is_complex(input.type) ? 2 : 1);
  return {length, static_cast<int>(what.frames)};
}

/// alpha · A + beta · B over the whole batch.
offer sum_of(const operator_case& what, std::string call, float alpha, float beta) {
  constexpr int column = 1024;
  const int columns = shape_of(what).count() / column;
  return {std::move(call),
          [=](cublas& to, const operation_arguments& with) {
            const float* const a = input_of(with);
            const float* const b = input_of(with, with.inputs.size() - 1);
            return to.sgeam(to.handle(), cublas::plain, cublas::plain, column, columns, &alpha, a, column, &beta, b,
                            column, output_of(with), column);
          },
          what.output_bytes()};
}

offer product_of(const operator_case& what) {
  const int count = shape_of(what).count() / 2;
  return {"cublasCdgmm of one column",
          [=](cublas& to, const operation_arguments& with) {
            return to.cdgmm(to.handle(), cublas::left, count, 1, with.inputs[1], count, with.inputs[0], 1, with.output,
                            count);
          },
          what.output_bytes()};
}

/// Of complex rows each part has its weight.
offer window_of(const operator_case& what) {
  const window_settings settings = parse_window(what.settings, what.inputs.front());
  numbers weights;
  for (const float weight : settings.coefficients) {
    weights.insert(weights.end(), is_complex(what.inputs.front().type) ? 2 : 1, weight);
  }
  const batch_shape shape = shape_of(what);
  return {"cublasSdgmm",
          [=, table = device_table(weights)](cublas& to, const operation_arguments& with) {
            return to.sdgmm(to.handle(), cublas::left, shape.length, shape.frames, input_of(with), shape.length,
                            table.get(), 1, output_of(with), shape.length);
          },
          what.output_bytes()};
}

/// Of the five numbers of a row, mean and rms are the first and the last.
constexpr std::size_t moments_of_a_row = 5;

offer means_of(const operator_case& what) {
  const batch_shape shape = shape_of(what);
  const numbers shares(static_cast<std::size_t>(shape.length), 1 / static_cast<float>(shape.length));
  return {"cublasSgemv, for the means alone",
          [=, table = device_table(shares)](cublas& to, const operation_arguments& with) {
            return to.sgemv(to.handle(), cublas::transposed, shape.length, shape.frames, &one, input_of(with),
                            shape.length, table.get(), 1, &zero, output_of(with), 1);
          },
          static_cast<std::size_t>(shape.frames) * sizeof(float),
          [](const numbers& made, const numbers& own) {
            return difference_of(made, taken_from(own, 0, moments_of_a_row));
          }};
}

offer rms_of(const operator_case& what) {
  const int length = shape_of(what).length;
  return {"cublasSnrm2, for the rms alone",
          [=](cublas& to, const operation_arguments& with) {
            if (const cublas::status status = to.set_pointer_mode(to.handle(), cublas::on_device); status != 0) {
              return status;
            }
            const cublas::status status = to.snrm2(to.handle(), length, input_of(with), 1, output_of(with));
            const cublas::status restored = to.set_pointer_mode(to.handle(), cublas::on_host);
            return status != 0 ? status : restored;
          },
          sizeof(float),
          [=](const numbers& made, const numbers& own) {
            const float scale = 1 / std::sqrt(static_cast<float>(length));
            return difference_of(taken_from(made, 0, 1, scale),
                                 taken_from(own, moments_of_a_row - 1, moments_of_a_row));
          }};
}

/// A filter of every row, from rest, as two triangles of a Toeplitz matrix, each times all columns of the rows;
/// `skipped` results at a row's start are not the operator's.
offer filter_of(const operator_case& what, const numbers& taps, std::size_t skipped) {
  const batch_shape shape = shape_of(what);
  const toeplitz matrices = toeplitz_of(taps, toeplitz_size(taps.size()));
  const auto size = static_cast<int>(matrices.size);
  const int columns = shape.length / size;
  const auto length = static_cast<std::size_t>(shape.length);
  return {fmt::format("cublasSgemmStridedBatched twice, the taps as matrices of {} × {}", size, size),
          [=, own = device_table(matrices.own), before = device_table(matrices.before)](
              cublas& to, const operation_arguments& with) {
            const cublas::status status = to.sgemm_batched(
                to.handle(), cublas::plain, cublas::plain, size, columns, size, &one, own.get(), size, 0,
                input_of(with), size, shape.length, &zero, output_of(with), size, shape.length, shape.frames);
            if (status != 0 || columns < 2) {
              return status;
            }
            return to.sgemm_batched(to.handle(), cublas::plain, cublas::plain, size, columns - 1, size, &one,
                                    before.get(), size, 0, input_of(with), size, shape.length, &one,
                                    output_of(with) + size, size, shape.length, shape.frames);
          },
          what.input_bytes(),
          [=](const numbers& made, const numbers& own) {
            numbers results;
            for (std::size_t row = 0; row < made.size(); row += length) {
              const auto begin = made.begin() + static_cast<std::ptrdiff_t>(row);
              results.insert(results.end(), begin + static_cast<std::ptrdiff_t>(skipped),
                             begin + static_cast<std::ptrdiff_t>(length));
            }
            return difference_of(results, own);
          }};
}

bool can_filter(const operator_case& what, std::size_t taps) {
  return shape_of(what).length % toeplitz_size(taps) == 0;
}

std::vector<offer> beside_fir(const operator_case& what) {
  const fir_settings settings = parse_fir(what.settings, what.inputs.front());
  const bool plain =
      !what.one_session && !what.settings.has("taps_imag") && what.settings.integer("decimation", 1) == 1;
  if (!plain || !can_filter(what, settings.taps.size())) {
    return {};
  }
  return {filter_of(what, numbers(settings.taps.begin(), settings.taps.end()), 0)};
}

/// Without samples beyond a row's ends it is a filter by the template's reverse, late by the template's length.
std::vector<offer> beside_correlate(const operator_case& what) {
  const correlate_settings settings = parse_correlate(what.settings, what.inputs);
  const std::size_t taps = settings.coefficients.size();
  if (what.settings.text("mode", "full") != "valid" || settings.complex_template || taps == 0 ||
      !can_filter(what, taps)) {
    return {};
  }
  return {filter_of(what, numbers(settings.coefficients.rbegin(), settings.coefficients.rend()), taps - 1)};
}

std::vector<offer> real_offers(const operator_case& what) {
  if (what.op == "add" && what.inputs.size() == 2) {
    return {sum_of(what, "cublasSgeam", 1, 1)};
  }
  if (what.op == "affine" && what.settings.number("b", 0) == 0) {
    return {sum_of(what, "cublasSgeam without a second matrix", static_cast<float>(what.settings.number("a", 1)), 0)};
  }
  if (what.op == "moments") {
    return {what.frames == 1 ? rms_of(what) : means_of(what)};
  }
  if (what.op == "fir") {
    return beside_fir(what);
  }
  return what.op == "correlate" ? beside_correlate(what) : std::vector<offer>{};
}

std::vector<offer> offers_for(const operator_case& what) {
  const tensor_spec& input = what.inputs.front();
  if (!is_floating(input.type) || input.shape.size() != 1 || input.shape.front() % 1024 != 0) {
    return {};
  }
  if (what.op == "window") {
    return {window_of(what)};
  }
  if (is_complex(input.type)) {
    const bool plain = what.op == "multiply" && what.inputs.size() == 2 && !what.settings.flag("conjugate", false);
    return plain ? std::vector<offer>{product_of(what)} : std::vector<offer>{};
  }
  return real_offers(what);
}

}  // namespace

std::vector<bare_counterpart> cublas_counterparts(const std::shared_ptr<cublas>& library, const operator_case& what) {
  std::vector<bare_counterpart> made;
  for (offer& each : offers_for(what)) {
    made.push_back({.key = "of_cublas",
                    .call = std::move(each.call),
                    .what = std::make_unique<cublas_operation>(library, std::move(each.function)),
                    .output_bytes = each.output_bytes,
                    .difference = std::move(each.difference)});
  }
  return made;
}

bool has_cublas_counterpart(const operator_case& what) {
  return !offers_for(what).empty();
}

}  // namespace penstock::bench
