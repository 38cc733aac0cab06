"""Makes the files of a new operator, which multiplies by a number until it does something of its own.

new_operator.py NAME, from the top of the tree. docs/first-operator.md goes on from there.
"""
import pathlib
import re
import sys

HEADER = '''#pragma once

#include <memory>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// @NAME@: y = gain·x, in single precision.
///
/// Input: f32, any shape. Output: the input's spec.
/// Parameters:
///   gain  number, finite in f32, default 1
/// NaN and infinities go through the formula.
struct @NAME@_settings {
  float gain = 1.0F;
  tensor_spec input;
  tensor_spec output;
};

/// Throws parameter_error.
[[nodiscard]] inline @NAME@_settings parse_@NAME@(const parameters& settings, const tensor_spec& input) {
  require_element_type("@NAME@", input, {element_type::f32});
  return {.gain = parse_f32("gain", settings.number("gain", 1.0)), .input = input, .output = input};
}

[[nodiscard]] std::unique_ptr<operation> make_@NAME@_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_@NAME@_cuda(const operation_request& request);

}  // namespace penstock
'''

HOST = '''#include "kernels/@NAME@.hpp"

#include <cstddef>
#include <utility>

namespace penstock {
namespace {

class @NAME@_host final : public operation {
 public:
  explicit @NAME@_host(@NAME@_settings settings) : settings_{std::move(settings)} {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const auto count = static_cast<std::size_t>(extent.frames * settings_.input.elements(extent.leading));
    const auto* const in = static_cast<const float*>(arguments.inputs[0]);
    auto* const out = static_cast<float*>(arguments.output);
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = settings_.gain * in[i];
    }
    return {};
  }

 private:
  const @NAME@_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_@NAME@_host(const operation_request& request) {
  return std::make_unique<@NAME@_host>(parse_@NAME@(request.settings, request.inputs[0]));
}

}  // namespace penstock
'''

CUDA = '''#include <utility>

@INCLUDES@

namespace penstock {
namespace {

struct @NAME@_function {
  float gain;

  __device__ float operator()(float x, int /*component*/) const { return gain * x; }
};

class @NAME@_cuda final : public operation {
 public:
  explicit @NAME@_cuda(@NAME@_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    return enqueue_map<4>(stream, multiprocessors_, static_cast<const float*>(arguments.inputs[0]),
                          static_cast<float*>(arguments.output),
                          extent.frames * settings_.input.elements(extent.leading), @NAME@_function{settings_.gain});
  }

 private:
  const @NAME@_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_@NAME@_cuda(const operation_request& request) {
  return std::make_unique<@NAME@_cuda>(parse_@NAME@(request.settings, request.inputs[0]));
}

}  // namespace penstock
'''

TEST = '''#include <cmath>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class @NAME@_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(@NAME@_operation);

TEST_P(@NAME@_operation, MultipliesEachElementOfAnyShape) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 12; ++round) {
    operation_case setup{.op = "@NAME@", .settings = {}, .input = random.spec(element_type::f32, 1, 700)};
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 3);
    const double gain = random.real(-3.0, 3.0);
    setup.settings.set("gain", gain);
    const auto x = random.normal(values_in(setup.input, setup.extent));
    const auto y = run<float>(setup, x);
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(y[i], gain * x[i], 4e-7 * std::abs(gain * x[i])) << setup.text() << " at " << i;
    }
  }
}

}  // namespace
}  // namespace penstock
'''

SECTION = '''## @NAME@

y = gain·x, in single precision.

| parameter | value | default |
|---|---|---|
| `gain` | finite number | 1 |

NaN and infinities go through the formula.

'''

SAMPLE = '''      {"@NAME@", {{}, element_type::f32}},
'''

MANUAL = '''.It Cm @NAME@
.Ic gain
\\(mu x.
'''

FILES = {'kernels/@NAME@.hpp': HEADER, 'kernels/@NAME@_host.cpp': HOST, 'kernels/@NAME@_cuda.cu': CUDA,
         'tests/kernels/@NAME@_test.cpp': TEST}


def filled(template, name):
    """The template with the name in it, its includes sorted."""
    includes = sorted([f'#include "kernels/{name}.hpp"', '#include "kernels/elementwise.cuh"'])
    return template.replace('@NAME@', name).replace('@INCLUDES@', '\n'.join(includes))


def insert(text, pattern, piece, name):
    """The text with a piece among those that the pattern finds: before the first whose name comes later."""
    found = list(re.finditer(pattern, text, re.MULTILINE))
    place = next((each.start() for each in found if each.group(1) > name), found[-1].end())
    return text[:place] + filled(piece, name) + text[place:]


def build_list(text, name):
    """kernels/CMakeLists.txt: a line of PENSTOCK_OPERATORS."""
    start = text.index('set(PENSTOCK_OPERATORS\n')
    end = text.index('  )\n', start)
    return text[:start] + insert(text[start:end], r'^  (\w+).*\n', '  @NAME@\n', name) + text[end:]


def catalogue(text, name):
    """kernels/operators.hpp: an #include, and an entry of the macro, whose backslashes stand below one another."""
    text = insert(text, r'^#include "kernels/(\w+)\.hpp"\n', '#include "kernels/@NAME@.hpp"\n', name)
    start = text.index('#define PENSTOCK_OPERATORS(X)')
    macro = re.match(r'(.*\\\n)*.*\n', text[start:])[0]
    lines = '\n'.join(line.rstrip('\\ ') for line in macro.splitlines()[1:])
    entries = [f'  X({name}, nullptr, false, "gain")', *re.split(r'\n(?=  X\()', lines)]
    entries.sort(key=lambda entry: re.match(r'  X\((\w+)', entry)[1])
    lines = ['#define PENSTOCK_OPERATORS(X)', *'\n'.join(entries).splitlines()]
    width = max(map(len, lines))
    made = ''.join(f'{line:<{width}} \\\n' for line in lines[:-1]) + lines[-1] + '\n'
    return text[:start] + made + text[start + len(macro):]


def document(text, name):
    """docs/operators.md: a row of the table and a section."""
    text = insert(text, r'^\| \[`(\w+)`\]\(#.*\n', '| [`@NAME@`](#@NAME@) | f32 | as the input | gain·x |\n', name)
    if not text.endswith('\n\n'):
        text += '\n'
    return insert(text, r'^## (\w+)\n(?:(?!## ).*\n)*', SECTION, name).rstrip('\n') + '\n'


def manual(text, name):
    """deploy/man/penstock.toml.5: an entry of the operators."""
    start = text.index('.Sh OPERATORS\n')
    end = text.index('.El\n', start)
    return text[:start] + insert(text[start:end], r'^\.It Cm (\w+).*\n(?:(?!\.It ).*\n)*', MANUAL, name) + text[end:]


def sample(text, name):
    """tests/kernels/operator_sample.hpp: the input of the tests over the whole catalogue."""
    return insert(text, r'^      \{"(\w+)", \{.*\n', SAMPLE, name)


LISTS = {'kernels/CMakeLists.txt': build_list, 'kernels/operators.hpp': catalogue, 'docs/operators.md': document,
         'deploy/man/penstock.toml.5': manual, 'tests/kernels/operator_sample.hpp': sample}


def main(name):
    if not re.fullmatch(r'[a-z][a-z0-9_]*', name):
        raise SystemExit(f'dev: "{name}" is no name of an operator: small letters, digits and _, a letter first')
    made = {pathlib.Path(filled(path, name)): filled(text, name) for path, text in FILES.items()}
    taken = [str(path) for path in made if path.exists()]
    if taken or f'  X({name},' in pathlib.Path('kernels/operators.hpp').read_text():
        raise SystemExit(f'dev: there is a {name} already: {", ".join(taken) or "in kernels/operators.hpp"}')
    for path, text in made.items():
        path.write_text(text)
    for path, change in LISTS.items():
        path = pathlib.Path(path)
        path.write_text(change(path.read_text(), name))
    print('new:     ' + '\n         '.join(map(str, made)))
    print('entered: ' + '\n         '.join(LISTS))


if __name__ == '__main__':
    main(sys.argv[1])
