#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <utility>

#include "tests/bench/operators/operator_case.hpp"

namespace penstock::bench {
namespace {

using list = std::vector<double>;
using type = element_type;

constexpr std::int64_t few = 1024;
constexpr std::int64_t many = 1 << 20;
constexpr std::int64_t batch = 64;

parameters with(std::initializer_list<std::pair<const char*, parameters::value>> given) {
  parameters made;
  for (const auto& [key, value] : given) {
    made.set(key, value);
  }
  return made;
}

/// A low-pass of so many taps: a sinc under a Hann window, which passes a sixteenth of the band.
list low_pass(std::size_t taps) {
  list made(taps);
  const double middle = (static_cast<double>(taps) - 1.0) / 2.0;
  for (std::size_t k = 0; k < taps; ++k) {
    const double x = std::numbers::pi * (static_cast<double>(k) - middle) / 16.0;
    const double sinc = x == 0.0 ? 1.0 : std::sin(x) / x;
    const double t = 2.0 * std::numbers::pi * (static_cast<double>(k) + 0.5) / static_cast<double>(taps);
    made[k] = sinc * (0.5 - 0.5 * std::cos(t)) / 16.0;
  }
  return made;
}

/// A Butterworth low-pass of the fourth order at a tenth of the band.
list butterworth() {
  return {0.0004165992044065994,
          0.0008331984088131987,
          0.0004165992044065994,
          1.0,
          -1.4796742169311934,
          0.5558215432824889,
          1.0,
          2.0,
          1.0,
          1.0,
          -1.7009643319435257,
          0.7884997398152979};
}

class case_list {
 public:
  /// Both shapes; `element` is what stands behind the samples of a frame.
  void add(const char* name, const char* op, parameters settings, type of, std::size_t inputs = 1,
           const std::vector<std::int64_t>& element = {}) {
    for (const auto& [frames, samples] : {std::pair{batch, few}, std::pair{std::int64_t{1}, many}}) {
      add_one(name, op, settings, {of, with_samples(samples, element)}, frames, inputs);
    }
  }
  void add_one(const char* name, const char* op, parameters settings, const tensor_spec& input, std::int64_t frames,
               std::size_t inputs = 1, bool one_session = false) {
    cases_.push_back({.name = name,
                      .op = op,
                      .settings = std::move(settings),
                      .inputs = std::vector<tensor_spec>(inputs, input),
                      .frames = frames,
                      .one_session = one_session});
  }
  [[nodiscard]] std::vector<operator_case> take() { return std::move(cases_); }

 private:
  static std::vector<std::int64_t> with_samples(std::int64_t samples, const std::vector<std::int64_t>& element) {
    std::vector<std::int64_t> shape{samples};
    shape.insert(shape.end(), element.begin(), element.end());
    return shape;
  }

  std::vector<operator_case> cases_;
};

void add_elementwise(case_list& to) {
  to.add("affine", "affine", with({{"a", 2.5}, {"b", -0.1}}), type::f32);
  to.add("add", "add", {}, type::f32, 2);
  to.add("multiply, cf32", "multiply", {}, type::cf32, 2);
  to.add("multiply, conjugate", "multiply", with({{"conjugate", true}}), type::cf32, 2);
  to.add("magnitude", "magnitude", {}, type::cf32);
  to.add("magnitude, squared", "magnitude", with({{"squared", true}}), type::cf32);
  to.add("window", "window", {}, type::f32);
  to.add("window, cf32", "window", {}, type::cf32);
  to.add("concat", "concat", {}, type::f32, 2);
}

void add_conversions(case_list& to) {
  to.add("convert, cu8", "convert", {}, type::cu8);
  to.add("convert, i16", "convert", {}, type::i16);
  to.add("convert, ci16", "convert", {}, type::ci16);
  to.add("convert, planar i16 of 2 channels", "convert", with({{"planar", true}}), type::i16, 1, {2});
}

void add_rows(case_list& to) {
  to.add("moments", "moments", {}, type::f32);
  to.add("moments, cf32", "moments", {}, type::cf32);
  to.add("histogram, u8", "histogram", {}, type::u8);
  to.add("histogram, f32", "histogram", {}, type::f32);
  to.add("detect", "detect", with({{"high", 0.9}, {"low", 0.3}}), type::f32);
  to.add("power_spectrum, f32", "power_spectrum", {}, type::f32);
  to.add("power_spectrum, cf32", "power_spectrum", {}, type::cf32);
  to.add("power_spectrum, cf32 dB", "power_spectrum", with({{"scale", std::string("db")}}), type::cf32);
  to.add("correlate, 16 taps", "correlate", with({{"template", low_pass(16)}, {"mode", std::string("valid")}}),
         type::f32);
  to.add("correlate, 128 taps", "correlate", with({{"template", low_pass(128)}, {"mode", std::string("valid")}}),
         type::f32);
  to.add("correlate, 128 taps cf32", "correlate", with({{"template", low_pass(128)}, {"mode", std::string("valid")}}),
         type::cf32);
}

void add_sessions(case_list& to) {
  to.add("fir, 64 taps", "fir", with({{"taps", low_pass(64)}}), type::f32);
  to.add("fir, 64 taps cf32 by 8", "fir", with({{"taps", low_pass(64)}, {"decimation", std::int64_t{8}}}), type::cf32);
  to.add("fir, 512 taps", "fir", with({{"taps", low_pass(512)}}), type::f32);
  to.add("iir, 2 sections", "iir", with({{"sections", butterworth()}}), type::f32);
  to.add("iir, 2 sections cf32", "iir", with({{"sections", butterworth()}}), type::cf32);
  to.add("iir, 2 sections, 8 channels", "iir", with({{"sections", butterworth()}}), type::f32, 1, {8});
  to.add("moving_zscore, 256 steps", "moving_zscore", with({{"window", std::int64_t{256}}}), type::f32);
  to.add("reframe to 256", "reframe", with({{"length", std::int64_t{256}}}), type::f32);
  for (const char* const kind : {"mean", "peak"}) {
    const std::string name = std::string("accumulate, ") + kind;
    const parameters frames = with({{"frames", std::int64_t{16}}, {"kind", std::string(kind)}});
    to.add_one((name + " of 16 frames").c_str(), "accumulate", frames, {type::f32, {few}}, batch, 1, true);
    parameters rows = frames;
    rows.set("frames", std::int64_t{256});
    rows.set("along", std::string("rows"));
    to.add_one((name + " of 256 steps").c_str(), "accumulate", rows, {type::f32, {many}}, 1);
  }
}

/// What is not asked of the host: what a library for GPUs does as well, and many sessions with much to keep.
void add_for_gpu(case_list& to) {
  to.add_one("accumulate, mean of 16 frames, a session each", "accumulate", with({{"frames", std::int64_t{16}}}),
             {type::f32, {few}}, batch);
  to.add("affine, a·x alone", "affine", with({{"a", 2.5}}), type::f32);
  const parameters by_transform =
      with({{"template", low_pass(512)}, {"mode", std::string("valid")}, {"method", std::string("fft")}});
  to.add("correlate, 512 taps by FFT", "correlate", by_transform, type::f32);
  to.add("correlate, 512 taps cf32 by FFT", "correlate", by_transform, type::cf32);
}

/// More than any operator keeps.
constexpr std::int64_t enough_frames = 4096;

/// About 256 MiB in and out, in frames of the smaller batch's length.
operator_case beyond_cache(operator_case what) {
  constexpr std::size_t bytes = std::size_t{256} << 20U;
  what.frames = 1;
  const std::size_t frame = what.input_bytes() + what.output_bytes();
  what.frames = static_cast<std::int64_t>(bytes / frame / 1024 * 1024);
  what.beyond_cache = true;
  what.earlier_frames = enough_frames;
  return what;
}

}  // namespace

std::vector<operator_case> operator_cases() {
  case_list all;
  add_elementwise(all);
  add_conversions(all);
  add_rows(all);
  add_sessions(all);
  return all.take();
}

std::vector<operator_case> gpu_operator_cases() {
  case_list more;
  add_for_gpu(more);
  std::vector<operator_case> smaller = operator_cases();
  for (operator_case& each : more.take()) {
    each.earlier_frames = enough_frames;
    smaller.push_back(std::move(each));
  }
  std::vector<operator_case> made;
  for (std::size_t at = 0; at < smaller.size(); ++at) {
    made.push_back(smaller[at]);
    const bool last = at + 1 == smaller.size() || smaller[at + 1].name != smaller[at].name;
    const operator_case& first = at > 0 && smaller[at - 1].name == smaller[at].name ? smaller[at - 1] : smaller[at];
    if (last && first.frames == batch) {
      made.push_back(beyond_cache(first));
    }
  }
  return made;
}

}  // namespace penstock::bench
