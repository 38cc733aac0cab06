#include "kernels/map.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/function_attributes.hpp"

// glibc has vector versions of these functions (libmvec, from 2.35 on within 4 units in the last place).
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 35)
#define PENSTOCK_VECTOR_VERSIONS __attribute__((simd("notinbranch")))
#endif
#endif
#ifndef PENSTOCK_VECTOR_VERSIONS
#define PENSTOCK_VECTOR_VERSIONS
#endif
// NOLINTBEGIN(readability-redundant-declaration): glibc's headers say so under -ffast-math only.
extern "C" {
PENSTOCK_VECTOR_VERSIONS float powf(float, float) noexcept;
PENSTOCK_VECTOR_VERSIONS float atan2f(float, float) noexcept;
PENSTOCK_VECTOR_VERSIONS float hypotf(float, float) noexcept;
PENSTOCK_VECTOR_VERSIONS float expf(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float logf(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float log2f(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float log10f(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float sinf(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float cosf(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float tanf(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float asinf(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float acosf(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float atanf(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float sinhf(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float coshf(float) noexcept;
PENSTOCK_VECTOR_VERSIONS float tanhf(float) noexcept;
}
// NOLINTEND(readability-redundant-declaration)

namespace penstock {
namespace {

/// A map is computed in blocks of so many elements, step by step, so that the numbers between steps stay in the
/// processor's first cache.
constexpr std::size_t block_elements = 1024;
/// Steps work on whole groups: vector and scalar versions of a function differ in their last bits, and an element's
/// result must not depend on its place.
constexpr std::size_t group_elements = 16;

/// out[i] = operation(a[i], b[i], c[i]) for `groups` groups; `out` overlaps none of the others.
using step_function = void (*)(const float* a, const float* b, const float* c, float* out, std::size_t groups);

#define PENSTOCK_STEP(name, result)                                                            \
  PENSTOCK_VECTOR_CLONES void step_##name(                                                     \
      [[maybe_unused]] const float* __restrict a, [[maybe_unused]] const float* __restrict b,  \
      [[maybe_unused]] const float* __restrict c, float* __restrict out, std::size_t groups) { \
    for (std::size_t i = 0; i < groups * group_elements; ++i) {                                \
      out[i] = (result);                                                                       \
    }                                                                                          \
  }

PENSTOCK_STEP(add, a[i] + b[i])
PENSTOCK_STEP(subtract, a[i] - b[i])
PENSTOCK_STEP(multiply, a[i] * b[i])
PENSTOCK_STEP(divide, a[i] / b[i])
PENSTOCK_STEP(negate, -a[i])
PENSTOCK_STEP(less, a[i] < b[i] ? 1.0F : 0.0F)
PENSTOCK_STEP(less_or_equal, a[i] <= b[i] ? 1.0F : 0.0F)
PENSTOCK_STEP(equal, a[i] == b[i] ? 1.0F : 0.0F)
PENSTOCK_STEP(unequal, a[i] != b[i] ? 1.0F : 0.0F)
PENSTOCK_STEP(both, (a[i] != 0.0F ? 1.0F : 0.0F) * (b[i] != 0.0F ? 1.0F : 0.0F))
PENSTOCK_STEP(either, a[i] != 0.0F ? 1.0F : b[i] != 0.0F ? 1.0F : 0.0F)
PENSTOCK_STEP(invert, a[i] != 0.0F ? 0.0F : 1.0F)
PENSTOCK_STEP(select, a[i] != 0.0F ? b[i] : c[i])
PENSTOCK_STEP(min, a[i] < b[i] ? a[i] : a[i] != a[i] ? a[i] : b[i])
PENSTOCK_STEP(max, a[i] > b[i] ? a[i] : a[i] != a[i] ? a[i] : b[i])
PENSTOCK_STEP(power, ::powf(a[i], b[i]))
PENSTOCK_STEP(atan2, ::atan2f(a[i], b[i]))
PENSTOCK_STEP(hypot, ::hypotf(a[i], b[i]))
PENSTOCK_STEP(abs, std::fabs(a[i]))
PENSTOCK_STEP(sqrt, std::sqrt(a[i]))
PENSTOCK_STEP(exp, ::expf(a[i]))
PENSTOCK_STEP(log, ::logf(a[i]))
PENSTOCK_STEP(log2, ::log2f(a[i]))
PENSTOCK_STEP(log10, ::log10f(a[i]))
PENSTOCK_STEP(sin, ::sinf(a[i]))
PENSTOCK_STEP(cos, ::cosf(a[i]))
PENSTOCK_STEP(tan, ::tanf(a[i]))
PENSTOCK_STEP(asin, ::asinf(a[i]))
PENSTOCK_STEP(acos, ::acosf(a[i]))
PENSTOCK_STEP(atan, ::atanf(a[i]))
PENSTOCK_STEP(sinh, ::sinhf(a[i]))
PENSTOCK_STEP(cosh, ::coshf(a[i]))
PENSTOCK_STEP(tanh, ::tanhf(a[i]))
PENSTOCK_STEP(floor, std::floor(a[i]))
PENSTOCK_STEP(ceil, std::ceil(a[i]))
PENSTOCK_STEP(round, std::rint(a[i]))

/// In the order of map_operation; the first five are no functions of numbers.
constexpr std::array<step_function, map_operations> functions{
    nullptr,       nullptr,       nullptr,     nullptr,     nullptr,     step_add,
    step_subtract, step_multiply, step_divide, step_negate, step_less,   step_less_or_equal,
    step_equal,    step_unequal,  step_both,   step_either, step_invert, step_select,
    step_min,      step_max,      step_power,  step_atan2,  step_hypot,  step_abs,
    step_sqrt,     step_exp,      step_log,    step_log2,   step_log10,  step_sin,
    step_cos,      step_tan,      step_asin,   step_acos,   step_atan,   step_sinh,
    step_cosh,     step_tanh,     step_floor,  step_ceil,   step_round};

/// out[i] = numbers[Stride * i]
template <class Number, std::size_t Stride>
PENSTOCK_VECTOR_CLONES void load(const void* __restrict numbers, float* __restrict out, std::size_t count) {
  const auto* const from = static_cast<const Number*>(numbers);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(from[Stride * i]);
  }
}

/// Both parts of complex numbers.
template <class Number>
PENSTOCK_VECTOR_CLONES void load_both(const void* __restrict numbers, float* __restrict re, float* __restrict im,
                                      std::size_t count) {
  const auto* const from = static_cast<const Number*>(numbers);
  for (std::size_t i = 0; i < count; ++i) {
    re[i] = static_cast<float>(from[2 * i]);
    im[i] = static_cast<float>(from[2 * i + 1]);
  }
}

/// The largest f32 that converts.
template <class Number>
constexpr float largest_of = sizeof(Number) < 4 ? static_cast<float>(std::numeric_limits<Number>::max())
                                                : 2147483520.0F;

template <class Number>
PENSTOCK_VECTOR_CLONES void store_whole(const float* __restrict values, void* __restrict numbers, std::size_t count) {
  auto* const out = static_cast<Number*>(numbers);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values[i];
    const float low = value > static_cast<float>(std::numeric_limits<Number>::min())
                          ? value
                          : static_cast<float>(std::numeric_limits<Number>::min());
    const float held = low < largest_of<Number> ? low : largest_of<Number>;
    const auto whole = static_cast<std::int32_t>(std::rint(value == value ? held : 0.0F));
    out[i] = value >= 2147483648.0F ? std::numeric_limits<Number>::max() : static_cast<Number>(whole);
  }
}

PENSTOCK_VECTOR_CLONES void store_complex(const float* __restrict re, const float* __restrict im, float* __restrict out,
                                          std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = re[i];
    out[2 * i + 1] = im[i];
  }
}

using load_function = void (*)(const void* numbers, float* out, std::size_t count);
using load_both_function = void (*)(const void* numbers, float* re, float* im, std::size_t count);
using store_function = void (*)(const float* values, void* numbers, std::size_t count);

struct input_type {
  element_type type;
  std::size_t number_bytes;
  load_function load_numbers;
  load_both_function load_both_numbers = nullptr;
};

constexpr std::array<input_type, 9> input_types{
    {{element_type::u8, 1, load<std::uint8_t, 1>},
     {element_type::i8, 1, load<std::int8_t, 1>},
     {element_type::i16, 2, load<std::int16_t, 1>},
     {element_type::i32, 4, load<std::int32_t, 1>},
     {element_type::f32, 4, load<float, 1>},
     {element_type::cf32, 4, load<float, 2>, load_both<float>},
     {element_type::cu8, 1, load<std::uint8_t, 2>, load_both<std::uint8_t>},
     {element_type::ci8, 1, load<std::int8_t, 2>, load_both<std::int8_t>},
     {element_type::ci16, 2, load<std::int16_t, 2>, load_both<std::int16_t>}}};

store_function store_of(element_type type) noexcept {
  switch (type) {
    case element_type::u8:
      return store_whole<std::uint8_t>;
    case element_type::i8:
      return store_whole<std::int8_t>;
    case element_type::i16:
      return store_whole<std::int16_t>;
    case element_type::i32:
      return store_whole<std::int32_t>;
    default:
      return nullptr;
  }
}

/// A part of an input: where its numbers lie, and what they become.
struct input_part {
  std::size_t input = 0;
  load_function load_numbers = nullptr;
  load_both_function load_both_numbers = nullptr;  ///< of a step that loads both parts; otherwise nullptr
  std::size_t element_bytes = 0;
  std::size_t offset = 0;    ///< of the part within an element
  std::size_t repeated = 0;  ///< elements of a frame of an input that repeats; otherwise 0
};

/// Where the block of a value lies.
struct value_place {
  const float* number = nullptr;  ///< of a number: a block full of it
  std::size_t slot = 0;           ///< of the others: which block of scratch
  bool is_input = false;          ///< f32 as it came in: in a whole block it is read where it lies
  std::size_t input = 0;
};

/// One step, ready to run.
struct host_step {
  map_operation operation = map_operation::number;
  step_function function = nullptr;
  std::array<value_place, 3> from;
  std::size_t slot = 0;            ///< of the result
  std::size_t imaginary_slot = 0;  ///< of the other one, where both parts are loaded
  input_part part;                 ///< of `load`
  std::size_t axis = 0;            ///< of `index`; of `tuned`, which of the frame's numbers
};

class map_host final : public operation {
 public:
  explicit map_host(map_settings settings) : settings_(std::move(settings)), frame_(settings_.inputs.front()) {
    for (const map_step& each : settings_.steps) {
      if (each.operation == map_operation::number) {
        constants_.insert(constants_.end(), block_elements, static_cast<float>(each.number));
      }
    }
    make_steps();
    store_ = store_of(settings_.output.type);
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return slots_ * block_elements * sizeof(float); }
  [[nodiscard]] bool single_pass() const noexcept override { return settings_.goes_over_once(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const std::int64_t leading = frame_.variable ? arguments.extent.leading : frame_.shape.front();
    const auto count = static_cast<std::size_t>(arguments.extent.frames * frame_.elements(leading));
    auto* const scratch = static_cast<float*>(arguments.scratch);
    for (std::size_t first = 0; first < count; first += block_elements) {
      const block here{arguments, scratch, first, std::min(block_elements, count - first), leading};
      for (const host_step& each : steps_) {
        const bool writes_output = stores_itself_ && here.is_whole() && &each == &steps_.back();
        run_step(each, here, writes_output ? static_cast<float*>(arguments.output) + first : here.slot(each.slot));
      }
      if (!stores_itself_ || !here.is_whole()) {
        store(here);
      }
    }
    return {};
  }

 private:
  struct block {
    const operation_arguments& arguments;
    float* scratch;
    std::size_t first;  ///< element of the batch
    std::size_t count;
    std::int64_t leading;

    [[nodiscard]] std::size_t groups() const noexcept { return (count + group_elements - 1) / group_elements; }
    [[nodiscard]] float* slot(std::size_t number) const noexcept { return scratch + number * block_elements; }
    /// Whether steps can work on the input and the output themselves: they are apart, and no group is cut.
    [[nodiscard]] bool is_whole() const noexcept {
      return count == block_elements && arguments.output != arguments.inputs[0];
    }
    [[nodiscard]] const float* at(const value_place& place) const noexcept {
      return place.number != nullptr        ? place.number
             : place.is_input && is_whole() ? static_cast<const float*>(arguments.inputs[place.input]) + first
                                            : slot(place.slot);
    }
  };

  /// A slot is free again after the last step that reads it.
  void make_steps() {
    const std::vector<map_step>& all = settings_.steps;
    std::vector<std::size_t> last(all.size(), 0);
    for (std::size_t step = 0; step < all.size(); ++step) {
      for (std::size_t operand = 0; operand < operands(all[step]); ++operand) {
        last[static_cast<std::size_t>(all[step].from[operand])] = step;
      }
    }
    for (const int result : {settings_.result.re, settings_.result.im}) {
      if (result >= 0) {
        last[static_cast<std::size_t>(result)] = all.size();
      }
    }
    std::vector<std::size_t> free;
    std::vector<value_place> places(all.size());
    std::size_t constants = 0;
    for (std::size_t step = 0; step < all.size(); ++step) {
      if (all[step].operation == map_operation::number) {
        places[step].number = constants_.data() + block_elements * constants++;
        continue;
      }
      if (step != 0 && is_other_part(all[step], all[step - 1])) {
        steps_.back().part.load_both_numbers = type_of(all[step]).load_both_numbers;
        steps_.back().imaginary_slot = places[step].slot = take_slot(free);
        continue;
      }
      host_step made = prepared(all[step]);
      made.slot = places[step].slot = take_slot(free);
      places[step].is_input = reads_in_place(made);
      places[step].input = made.part.input;
      for (std::size_t operand = 0; operand < operands(all[step]); ++operand) {
        const auto from = static_cast<std::size_t>(all[step].from[operand]);
        made.from[operand] = places[from];
        if (last[from] == step && places[from].number == nullptr) {
          free.push_back(places[from].slot);
          last[from] = all.size() + 1;  // an operand may be given twice
        }
      }
      steps_.push_back(made);
    }
    re_ = places[static_cast<std::size_t>(settings_.result.re)];
    im_ = settings_.result.is_complex() ? places[static_cast<std::size_t>(settings_.result.im)] : value_place{};
    stores_itself_ = settings_.output.type == element_type::f32 && all.back().operation != map_operation::number &&
                     steps_.back().function != nullptr;
  }

  [[nodiscard]] bool reads_in_place(const host_step& step) const noexcept {
    return step.operation == map_operation::load && step.part.repeated == 0 &&
           settings_.inputs[step.part.input].type == element_type::f32;
  }

  std::size_t take_slot(std::vector<std::size_t>& free) {
    if (free.empty()) {
      return slots_++;
    }
    const std::size_t taken = free.back();
    free.pop_back();
    return taken;
  }

  /// Whether `step` loads the imaginary part of what the step before it loads.
  static bool is_other_part(const map_step& step, const map_step& before) noexcept {
    return step.operation == map_operation::load && before.operation == map_operation::load &&
           step.from[0] == before.from[0] && step.from[1] == 1 && before.from[1] == 0;
  }

  /// parse_map has let the type pass.
  [[nodiscard]] const input_type& type_of(const map_step& load) const noexcept {
    const element_type type = settings_.inputs[static_cast<std::size_t>(load.from[0])].type;
    return *std::find_if(input_types.begin(), input_types.end(),
                         [type](const input_type& each) { return each.type == type; });
  }

  static std::size_t operands(const map_step& step) noexcept {
    return static_cast<std::size_t>(operands_of(step.operation));
  }

  [[nodiscard]] host_step prepared(const map_step& step) const {
    host_step made;
    made.operation = step.operation;
    made.function = functions[static_cast<std::size_t>(step.operation)];
    if (step.operation == map_operation::index || step.operation == map_operation::tuned) {
      made.axis = static_cast<std::size_t>(step.from[0]);
    }
    if (step.operation == map_operation::load) {
      made.part.input = static_cast<std::size_t>(step.from[0]);
      const tensor_spec& input = settings_.inputs[made.part.input];
      const input_type& type = type_of(step);
      made.part.load_numbers = type.load_numbers;
      made.part.element_bytes = size_of(input.type);
      made.part.offset = type.number_bytes * static_cast<std::size_t>(step.from[1]);
      made.part.repeated = settings_.repeats(made.part.input) ? static_cast<std::size_t>(input.elements()) : 0;
    }
    return made;
  }

  void run_step(const host_step& step, const block& here, float* out) const noexcept {
    if (step.function != nullptr) {
      step.function(here.at(step.from[0]), here.at(step.from[1]), here.at(step.from[2]), out, here.groups());
      return;
    }
    if (reads_in_place(step) && here.is_whole()) {
      return;
    }
    if (step.operation == map_operation::load) {
      load_part(step, here, out);
      if (step.part.load_both_numbers != nullptr) {
        fill_group(here, here.slot(step.imaginary_slot));
      }
    } else if (step.operation == map_operation::index) {
      write_places(step.axis, here, out);
    } else if (step.operation == map_operation::tuned) {
      write_numbers(step.axis, here, out);
    } else {
      std::fill_n(out, here.count, static_cast<float>(here.leading));
    }
    fill_group(here, out);
  }

  /// The rest of the last group is computed too: with a number that is there.
  static void fill_group(const block& here, float* out) noexcept {
    std::fill(out + here.count, out + here.groups() * group_elements, out[here.count - 1]);
  }

  void load_part(const host_step& step, const block& here, float* out) const noexcept {
    const input_part& part = step.part;
    float* const imaginary = here.slot(step.imaginary_slot);
    const auto load_piece = [&](const std::byte* from, std::size_t done, std::size_t count) {
      if (part.load_both_numbers != nullptr) {
        part.load_both_numbers(from, out + done, imaginary + done, count);
      } else {
        part.load_numbers(from, out + done, count);
      }
    };
    const auto* const numbers = static_cast<const std::byte*>(here.arguments.inputs[part.input]) + part.offset;
    if (part.repeated == 0) {
      load_piece(numbers + here.first * part.element_bytes, 0, here.count);
      return;
    }
    const auto frame_elements = static_cast<std::size_t>(frame_.elements(here.leading));
    for (std::size_t done = 0; done < here.count;) {
      const std::size_t element = here.first + done;
      const std::size_t place = element % part.repeated;
      const std::size_t count = std::min(part.repeated - place, here.count - done);
      const std::size_t source = element / frame_elements * part.repeated + place;
      load_piece(numbers + source * part.element_bytes, done, count);
      done += count;
    }
  }

  void write_places(std::size_t axis, const block& here, float* out) const noexcept {
    std::size_t inner = 1;
    for (std::size_t each = axis + 1; each < frame_.shape.size(); ++each) {
      inner *= static_cast<std::size_t>(frame_.shape[each]);
    }
    const auto extent = static_cast<std::size_t>(axis == 0 ? here.leading : frame_.shape[axis]);
    std::size_t within = here.first % inner;
    std::size_t place = here.first / inner % extent;
    for (std::size_t i = 0; i < here.count; ++i) {
      out[i] = static_cast<float>(place);
      if (++within == inner) {
        within = 0;
        place = place + 1 == extent ? 0 : place + 1;
      }
    }
  }

  /// Number `which` of each element's frame.
  void write_numbers(std::size_t which, const block& here, float* out) const noexcept {
    const auto frame_elements = static_cast<std::size_t>(frame_.elements(here.leading));
    for (std::size_t done = 0; done < here.count;) {
      const std::size_t frame = (here.first + done) / frame_elements;
      const std::size_t count = std::min((frame + 1) * frame_elements - here.first - done, here.count - done);
      std::fill_n(out + done, count, static_cast<float>(here.arguments.numbers[frame * settings_.numbers + which]));
      done += count;
    }
  }

  void store(const block& here) const noexcept {
    auto* const out = static_cast<std::byte*>(here.arguments.output) + here.first * size_of(settings_.output.type);
    if (store_ != nullptr) {
      store_(here.at(re_), out, here.count);
    } else if (settings_.result.is_complex()) {
      store_complex(here.at(re_), here.at(im_), reinterpret_cast<float*>(out), here.count);
    } else {
      std::memcpy(out, here.at(re_), here.count * sizeof(float));
    }
  }

  const map_settings settings_;
  const tensor_spec& frame_;
  std::vector<float> constants_;  ///< a block of each number
  std::vector<host_step> steps_;
  std::size_t slots_ = 0;
  value_place re_;
  value_place im_;
  bool stores_itself_ = false;  ///< the last step makes the output as it is
  store_function store_ = nullptr;
};

}  // namespace

std::unique_ptr<operation> make_map_host(const operation_request& request) {
  return std::make_unique<map_host>(parse_map(request.settings, request.inputs));
}

}  // namespace penstock
