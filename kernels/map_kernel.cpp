#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "kernels/kernel.hpp"
#include "kernels/map.hpp"

namespace penstock {
namespace {

constexpr std::int64_t block_threads = 256;
constexpr std::int64_t packs_a_thread = 2;
constexpr std::int64_t access_bytes = 16;

struct text_of_operation {
  map_operation operation;
  std::string_view text;  ///< $1, $2, $3: operands
};

constexpr std::array<text_of_operation, map_operations - 5> texts{{
    {map_operation::add, "$1 + $2"},
    {map_operation::subtract, "$1 - $2"},
    {map_operation::multiply, "$1 * $2"},
    {map_operation::divide, "$1 / $2"},
    {map_operation::negate, "-$1"},
    {map_operation::less, "$1 < $2 ? 1.0f : 0.0f"},
    {map_operation::less_or_equal, "$1 <= $2 ? 1.0f : 0.0f"},
    {map_operation::equal, "$1 == $2 ? 1.0f : 0.0f"},
    {map_operation::unequal, "$1 != $2 ? 1.0f : 0.0f"},
    {map_operation::both, "$1 != 0.0f && $2 != 0.0f ? 1.0f : 0.0f"},
    {map_operation::either, "$1 != 0.0f || $2 != 0.0f ? 1.0f : 0.0f"},
    {map_operation::invert, "$1 != 0.0f ? 0.0f : 1.0f"},
    {map_operation::select, "$1 != 0.0f ? $2 : $3"},
    {map_operation::min, "$1 < $2 || $1 != $1 ? $1 : $2"},
    {map_operation::max, "$1 > $2 || $1 != $1 ? $1 : $2"},
    {map_operation::power, "powf($1, $2)"},
    {map_operation::atan2, "atan2f($1, $2)"},
    {map_operation::hypot, "hypotf($1, $2)"},
    {map_operation::abs, "fabsf($1)"},
    {map_operation::sqrt, "sqrtf($1)"},
    {map_operation::exp, "expf($1)"},
    {map_operation::log, "logf($1)"},
    {map_operation::log2, "log2f($1)"},
    {map_operation::log10, "log10f($1)"},
    {map_operation::sin, "sinf($1)"},
    {map_operation::cos, "cosf($1)"},
    {map_operation::tan, "tanf($1)"},
    {map_operation::asin, "asinf($1)"},
    {map_operation::acos, "acosf($1)"},
    {map_operation::atan, "atanf($1)"},
    {map_operation::sinh, "sinhf($1)"},
    {map_operation::cosh, "coshf($1)"},
    {map_operation::tanh, "tanhf($1)"},
    {map_operation::floor, "floorf($1)"},
    {map_operation::ceil, "ceilf($1)"},
    {map_operation::round, "rintf($1)"},
}};

/// What an element is in CUDA C++, and how a value becomes one.
struct element_text {
  element_type type;
  std::string_view scalar;
  std::string_view stored;  ///< $1: the value
};

constexpr std::array<element_text, 9> elements{{
    {element_type::u8, "unsigned char", "static_cast<unsigned char>(penstock_whole($1, 0.0f, 255.0f))"},
    {element_type::i8, "signed char", "static_cast<signed char>(penstock_whole($1, -128.0f, 127.0f))"},
    {element_type::i16, "short", "static_cast<short>(penstock_whole($1, -32768.0f, 32767.0f))"},
    {element_type::i32, "int", "penstock_whole($1, -2147483648.0f, 2147483648.0f)"},
    {element_type::f32, "float", "$1"},
    {element_type::cf32, "float", "$1"},
    {element_type::cu8, "unsigned char", ""},
    {element_type::ci8, "signed char", ""},
    {element_type::ci16, "short", ""},
}};

constexpr std::string_view prelude = R"(// Made from the expression of a map.
template <class T, int Count>
struct alignas(sizeof(T) * Count) penstock_pack {
  T at[Count];
};

// To the nearest whole number within a range; NaN becomes 0.
__device__ __forceinline__ int penstock_whole(float value, float least, float most) {
  if (value != value) {
    return 0;
  }
  if (value >= 2147483648.0f) {
    return most >= 2147483648.0f ? 2147483647 : static_cast<int>(most);
  }
  return static_cast<int>(rintf(value < least ? least : value > most ? most : value));
}
)";

/// Of a type that parse_map has let pass.
const element_text& text_of(element_type type) noexcept {
  return *std::find_if(elements.begin(), elements.end(),
                       [type](const element_text& each) { return each.type == type; });
}

std::string replaced(std::string_view text, const std::vector<std::string>& by) {
  std::string made;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '$') {
      made += by[static_cast<std::size_t>(text[++at] - '1')];
    } else {
      made += text[at];
    }
  }
  return made;
}

/// Exactly, as a hexadecimal number.
std::string float_text(double number) {
  const auto rounded = static_cast<float>(number);
  std::array<char, 64> digits{};
  const auto [end, error] =
      std::to_chars(digits.data(), digits.data() + digits.size(), std::abs(rounded), std::chars_format::hex);
  return std::string(std::signbit(rounded) ? "-" : "") + "0x" + std::string(digits.data(), end) + "f";
}

class kernel_writer {
 public:
  explicit kernel_writer(const map_settings& settings) : settings_(settings), frame_(settings.inputs.front()) {
    std::size_t largest = size_of(settings.output.type);
    for (const tensor_spec& input : settings.inputs) {
      largest = std::max(largest, size_of(input.type));
    }
    width_ = std::max<std::int64_t>(1, access_bytes / static_cast<std::int64_t>(largest));
  }

  /// Elements that a block takes.
  [[nodiscard]] std::int64_t block_elements() const noexcept { return block_threads * packs_a_thread * width_; }

  [[nodiscard]] std::string text() const { return std::string(prelude) + function_text() + kernel_text(); }

 private:
  [[nodiscard]] bool uses(map_operation operation) const noexcept {
    return std::any_of(settings_.steps.begin(), settings_.steps.end(),
                       [operation](const map_step& each) { return each.operation == operation; });
  }

  [[nodiscard]] std::string step_text(const map_step& step) const {
    const auto first = static_cast<std::size_t>(std::max(step.from[0], 0));
    switch (step.operation) {
      case map_operation::number:
        return float_text(step.number);
      case map_operation::load:
        return "a" + std::to_string(first) + (step.from[1] == 0 ? "re" : "im");
      case map_operation::length:
        return "static_cast<float>(n0)";
      case map_operation::tuned:
        return "static_cast<float>(numbers[at / (" + frame_elements() + ") * " + std::to_string(settings_.numbers) +
               " + " + std::to_string(first) + "])";
      case map_operation::index: {
        const std::int64_t inner = inner_elements(first);
        const std::string extent = first == 0 ? first_extent() : std::to_string(frame_.shape[first]) + "LL";
        return "static_cast<float>(at / " + std::to_string(inner) + "LL % " + extent + ")";
      }
      default:
        break;
    }
    std::vector<std::string> operands;
    for (const int each : step.from) {
      operands.push_back("v" + std::to_string(each));
    }
    const auto* const found = std::find_if(
        texts.begin(), texts.end(), [&](const text_of_operation& each) { return each.operation == step.operation; });
    return replaced(found->text, operands);
  }

  /// What divides by a number that is known is faster.
  [[nodiscard]] std::string first_extent() const {
    return frame_.variable ? "n0" : std::to_string(frame_.shape.front()) + "LL";
  }
  [[nodiscard]] std::int64_t inner_elements(std::size_t axis) const noexcept {
    std::int64_t product = 1;
    for (std::size_t each = axis + 1; each < frame_.shape.size(); ++each) {
      product *= frame_.shape[each];
    }
    return product;
  }

  [[nodiscard]] std::string frame_elements() const {
    return first_extent() + " * " + std::to_string(inner_elements(0)) + "LL";
  }

  [[nodiscard]] bool is_complex_input(std::size_t input) const noexcept {
    return penstock::is_complex(settings_.inputs[input].type);
  }

  /// One element: from the inputs' numbers to the result's.
  [[nodiscard]] std::string function_text() const {
    std::string made = "\n__device__ __forceinline__ void penstock_element(";
    for (std::size_t input = 0; input < settings_.inputs.size(); ++input) {
      const std::string name = "a" + std::to_string(input);
      made += "float " + name + "re, " + (is_complex_input(input) ? "float " + name + "im, " : "");
    }
    made += settings_.numbers == 0 ? "" : "const double* numbers, ";
    made += "long long at, long long n0, float& re, float& im) {\n";
    for (std::size_t step = 0; step < settings_.steps.size(); ++step) {
      made += "  const float v" + std::to_string(step) + " = " + step_text(settings_.steps[step]) + ";\n";
    }
    made += "  re = v" + std::to_string(settings_.result.re) + ";\n";
    if (settings_.result.is_complex()) {
      made += "  im = v" + std::to_string(settings_.result.im) + ";\n";
    }
    return made + "}\n";
  }

  /// `at`: the element; `in_pack`: which of the pack it is, or "" for one alone.
  [[nodiscard]] std::string element_text_at(const std::string& at, const std::string& in_pack,
                                            const std::string& indent) const {
    std::string made;
    std::string call = "penstock_element(";
    for (std::size_t input = 0; input < settings_.inputs.size(); ++input) {
      const std::string number = std::to_string(input);
      std::string source = "in" + number;
      std::string place = at;
      if (settings_.repeats(input)) {
        const std::string extent = std::to_string(settings_.inputs[input].elements()) + "LL";
        made += indent + "const long long p" + number + " = " + at + " / (" + frame_elements() + ") * " + extent +
                " + " + at + " % " + extent + ";\n";
        place = "p" + number;
      } else if (!in_pack.empty()) {
        source = "pack" + number + "[k].at";
        place = in_pack;
      }
      const auto part = [&](const std::string& which) {
        return is_complex_input(input) ? "static_cast<float>(" + source + "[2 * " + place + which + "]), "
                                       : "static_cast<float>(" + source + "[" + place + "]), ";
      };
      call += part("") + (is_complex_input(input) ? part(" + 1") : "");
    }
    made += indent + "float re = 0.0f;\n" + indent + "float im = 0.0f;\n";
    call += settings_.numbers == 0 ? "" : "numbers, ";
    made += indent + call + at + ", n0, re, im);\n";
    const std::string to = in_pack.empty() ? "out" : "made.at";
    const std::string place = in_pack.empty() ? at : in_pack;
    const std::string_view stored = text_of(settings_.output.type).stored;
    if (penstock::is_complex(settings_.output.type)) {
      made += indent + to + "[2 * " + place + "] = re;\n" + indent + to + "[2 * " + place + " + 1] = im;\n";
    } else {
      made += indent + to + "[" + place + "] = " + replaced(stored, {"re"}) + ";\n";
    }
    return made;
  }

  [[nodiscard]] std::string pack_type(const tensor_spec& spec) const {
    const std::int64_t count = width_ * (penstock::is_complex(spec.type) ? 2 : 1);
    return "penstock_pack<" + std::string(text_of(spec.type).scalar) + ", " + std::to_string(count) + ">";
  }

  [[nodiscard]] std::string kernel_text() const {
    const std::string width = std::to_string(width_);
    std::string made =
        "\nextern \"C\" __global__ void __launch_bounds__(" + std::to_string(block_threads) + ") penstock_map(";
    for (std::size_t input = 0; input < settings_.inputs.size(); ++input) {
      made += "const " + std::string(text_of(settings_.inputs[input].type).scalar) + "* __restrict__ in" +
              std::to_string(input) + ", ";
    }
    made += std::string(text_of(settings_.output.type).scalar) + "* __restrict__ out, long long count, long long n0" +
            (settings_.numbers == 0 ? "" : ", const double* __restrict__ numbers") +
            ") {\n"
            "  const long long packs = count / " +
            width +
            ";\n"
            "  const long long first = blockIdx.x * " +
            std::to_string(block_threads * packs_a_thread) + "LL + threadIdx.x;\n";
    std::string loads;
    for (std::size_t input = 0; input < settings_.inputs.size(); ++input) {
      if (settings_.repeats(input)) {
        continue;
      }
      const std::string type = pack_type(settings_.inputs[input]);
      const std::string number = std::to_string(input);
      made += "  " + type + " pack" + number + "[" + std::to_string(packs_a_thread) + "];\n";
      loads += "      pack" + number + "[k] = reinterpret_cast<const " + type + "*>(in" + number + ")[pack];\n";
    }
    const std::string loop = "#pragma unroll\n  for (int k = 0; k < " + std::to_string(packs_a_thread) +
                             "; ++k) {\n    const long long pack = first + k * " + std::to_string(block_threads) +
                             "LL;\n    if (pack < packs) {\n";
    made += loop + loads + "    }\n  }\n";
    const std::string type = pack_type(settings_.output);
    made += loop + "      " + type + " made;\n#pragma unroll\n      for (int i = 0; i < " + width +
            "; ++i) {\n        const long long at = pack * " + width + " + i;\n" +
            element_text_at("at", "i", "        ") + "      }\n      reinterpret_cast<" + type +
            "*>(out)[pack] = made;\n    }\n  }\n";
    if (width_ > 1) {
      made += "  const long long at = packs * " + width + " + first;\n  if (at < count) {\n" +
              element_text_at("at", "", "    ") + "  }\n";
    }
    return made + "}\n";
  }

  const map_settings& settings_;
  const tensor_spec& frame_;
  std::int64_t width_ = 1;
};

}  // namespace

parameters map_kernel(const parameters& settings, std::span<const tensor_spec> inputs) {
  const map_settings parsed = parse_map(settings, inputs);
  const tensor_spec& frame = parsed.inputs.front();
  const kernel_writer writer(parsed);
  parameters made;
  made.set("file", std::make_shared<const code_file>(code_file{"map.cu", "map.cu", writer.text()}));
  auto output = std::make_shared<parameters>();
  output->set("dtype", std::string(name_of(parsed.output.type)));
  made.set("output", std::shared_ptr<const parameters>(std::move(output)));
  std::string count = "frames";
  for (std::size_t axis = 0; axis < frame.shape.size(); ++axis) {
    count += " * n" + std::to_string(axis);
  }
  made.set("grid",
           std::vector<std::string>{"max(1, ceil(" + count + " / " + std::to_string(writer.block_elements()) + "))"});
  made.set("block", std::vector<double>{static_cast<double>(block_threads)});
  std::vector<std::string> arguments{"in"};
  for (std::size_t input = 1; input < inputs.size(); ++input) {
    arguments.push_back("in" + std::to_string(input));
  }
  arguments.insert(arguments.end(), {"out", count, "n0"});
  if (parsed.numbers != 0) {
    arguments.emplace_back(kernel_numbers);
    made.set("tuned", true);
  }
  made.set("args", std::move(arguments));
  // Sums and products are rounded as on the host, and denormal numbers are zero on both.
  made.set("options", std::vector<std::string>{"--fmad=false", "--ftz=true"});
  made.set("single_pass", parsed.goes_over_once());
  return made;
}

}  // namespace penstock
