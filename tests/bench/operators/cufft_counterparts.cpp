#include "tests/bench/operators/cufft_counterparts.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "kernels/correlate.hpp"
#include "kernels/correlate_blocks.hpp"
#include "kernels/power_spectrum.hpp"
#include "tests/bench/operators/agreement.hpp"
#include "tests/bench/operators/bare_operations.hpp"
#include "tests/bench/operators/windowed_powers.hpp"

namespace penstock::bench {
namespace {

std::string call_text(const char* calls, const transform_rows& rows) {
  return fmt::format("{} of {} × {}", calls, rows.count, rows.length);
}

std::vector<bare_counterpart> beside_power_spectrum(const operator_case& what) {
  const power_spectrum_settings settings = parse_power_spectrum(what.settings, what.inputs.front());
  const transform_rows rows{.length = settings.length,
                            .count = what.frames * settings.rows.count({.frames = 1}),
                            .complex = settings.complex_input};
  const auto powers = [=, decibels = settings.decibels](const std::vector<float>& own) {
    return decibels ? powers_of_decibels(own, rows.length) : own;
  };
  std::vector<bare_counterpart> made;
  made.push_back({.key = "of_cufft",
                  .call = call_text(rows.complex ? "cufftExecC2C" : "cufftExecR2C", rows),
                  .what = make_bare_transform(rows),
                  .output_bytes = rows.spectrum_bytes(),
                  .difference = [=](const std::vector<float>& spectra, const std::vector<float>& own) {
                    return difference_of(hann_powers(spectra, rows.length, rows.complex), powers(own));
                  }});
  made.push_back({.key = "of_cufft_passes",
                  .call = "a pass before and a pass behind it",
                  .what = make_bare_powers(rows, settings.decibels),
                  .output_bytes = what.output_bytes(),
                  .difference = [=](const std::vector<float>& bare, const std::vector<float>& own) {
                    return difference_of(powers(bare), powers(own));
                  }});
  return made;
}

/// The blocks that the operator cuts its rows into, with zeros beyond their ends.
std::vector<float> block_samples(const operator_case& what, const correlate_settings& settings,
                                 const correlate_blocks& blocks) {
  const std::vector<std::byte> batch = input_batch(what, 0);
  const std::size_t sample = settings.complex_signal ? 2 : 1;
  std::vector<float> made(static_cast<std::size_t>(what.frames * blocks.count * blocks.length) * sample);
  for (std::int64_t at = 0; at < what.frames * blocks.count; ++at) {
    const std::int64_t from = settings.start() + at % blocks.count * blocks.step;
    const std::int64_t begin = std::max<std::int64_t>(from, 0);
    const std::int64_t end = std::min(from + blocks.length, settings.length);
    const std::int64_t row = at / blocks.count * settings.length;
    if (begin < end) {
      std::memcpy(made.data() + static_cast<std::size_t>(at * blocks.length + begin - from) * sample,
                  batch.data() + static_cast<std::size_t>(row + begin) * sample * sizeof(float),
                  static_cast<std::size_t>(end - begin) * sample * sizeof(float));
    }
  }
  return made;
}

std::vector<bare_counterpart> beside_correlate(const operator_case& what) {
  const correlate_settings settings = parse_correlate(what.settings, what.inputs);
  if (settings.method != sum_method::fft || settings.complex_template) {
    return {};
  }
  const correlate_blocks blocks = plan_correlate_blocks(settings);
  const transform_rows rows{
      .length = blocks.length, .count = what.frames * blocks.count, .complex = settings.complex_signal};
  std::vector<float> samples = block_samples(what, settings, blocks);
  std::unique_ptr<operation> transforms = make_there_and_back(rows, samples);
  std::vector<bare_counterpart> made;
  made.push_back(
      {.key = "of_cufft",
       .call = call_text(rows.complex ? "cufftExecC2C forward and back" : "cufftExecR2C and cufftExecC2R", rows),
       .what = std::move(transforms),
       .output_bytes = rows.sample_bytes(),
       .difference = [samples = std::move(samples), rows](const std::vector<float>& bare, const auto& /*own*/) {
         return difference_of(taken_from(bare, 0, 1, 1 / static_cast<float>(rows.length)), samples);
       }});
  return made;
}

}  // namespace

std::vector<bare_counterpart> cufft_counterparts(const operator_case& what) {
  if (what.op == "power_spectrum") {
    return beside_power_spectrum(what);
  }
  return what.op == "correlate" ? beside_correlate(what) : std::vector<bare_counterpart>{};
}

}  // namespace penstock::bench
