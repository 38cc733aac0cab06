#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <numbers>
#include <numeric>
#include <optional>
#include <random>
#include <type_traits>
#include <utility>
#include <variant>

#include "kernels/half.hpp"
#include "kernels/number_file.hpp"
#include "tests/bench/operators.hpp"

namespace penstock::bench {
namespace {

/// Drawing takes far longer than copying.
constexpr std::size_t max_drawn = std::size_t{32} << 20U;

template <class Value, class Draw>
void draw_values(std::vector<std::byte>& bytes, Draw draw) {
  const std::size_t drawn = std::min(bytes.size(), max_drawn);
  for (std::size_t at = 0; at < drawn; at += sizeof(Value)) {
    const auto value = static_cast<Value>(draw());
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  for (std::size_t at = drawn; at < bytes.size(); at += drawn) {
    std::memcpy(bytes.data() + at, bytes.data(), std::min(drawn, bytes.size() - at));
  }
}

}  // namespace

tensor_spec operator_case::output() const {
  return find_operator(op)->infer(settings, inputs);
}

std::size_t operator_case::input_bytes() const {
  std::size_t bytes = 0;
  for (const tensor_spec& each : inputs) {
    bytes += static_cast<std::size_t>(frames) * each.bytes();
  }
  return bytes;
}

std::size_t operator_case::output_bytes() const {
  return static_cast<std::size_t>(frames) * output().bytes();
}

std::size_t operator_case::sessions() const noexcept {
  return one_session ? 1 : static_cast<std::size_t>(frames);
}

std::vector<session_frame> operator_case::session_frames() const {
  const operator_definition& definition = *find_operator(op);
  const std::optional<session_traits> kept =
      definition.session == nullptr ? std::nullopt : definition.session(settings, inputs);
  if (!kept) {
    return {};
  }
  const session_traits& traits = *kept;
  const std::int64_t steps = traits.whole_frames ? 1 : inputs.front().shape[traits.axis];
  std::vector<session_frame> frames_;
  for (std::int32_t index = 0; index < frames; ++index) {
    const std::int64_t position = (earlier_frames + (one_session ? index : 0)) * steps;
    const bool last = !one_session || index + 1 == frames;
    frames_.push_back(
        {.position = position,
         .steps = static_cast<std::int32_t>(steps),
         .produced = static_cast<std::int32_t>(traits.rate.total(position + steps) - traits.rate.total(position)),
         .previous = one_session ? index - 1 : -1,
         .next = last ? -1 : index + 1,
         .place = one_session ? 0 : index,
         .half = 0});
  }
  return frames_;
}

std::vector<std::byte> input_batch(const operator_case& subject, std::size_t input) {
  const tensor_spec& spec = subject.inputs[input];
  std::vector<std::byte> batch(static_cast<std::size_t>(subject.frames) * spec.bytes());
  std::mt19937 random(static_cast<unsigned>(input) + 1);
  if (is_floating(spec.type)) {
    std::normal_distribution<float> noise(0.0F, 0.3F);
    if (spec.type == element_type::f16) {
      draw_values<half_bits>(batch, [&] { return to_half(noise(random)); });
    } else if (spec.type == element_type::bf16) {
      draw_values<brain_bits>(batch, [&] { return to_brain(noise(random)); });
    } else {
      draw_values<float>(batch, [&] { return noise(random); });
    }
  } else {
    draw_values<std::uint8_t>(batch, [&] { return static_cast<std::uint8_t>(random() >> 24U); });
  }
  if (subject.op == "frame_sync") {  // each block is full: a count, then as many bits
    const auto count = static_cast<float>(spec.shape.back() - 1);
    for (std::size_t at = 0; at < batch.size(); at += spec.bytes()) {
      std::memcpy(batch.data() + at, &count, sizeof count);
    }
  }
  return batch;
}

nlohmann::ordered_json to_json(const operator_case& subject) {
  nlohmann::ordered_json json = {{"name", subject.name},
                                 {"op", subject.op},
                                 {"frames", subject.frames},
                                 {"one_session", subject.one_session},
                                 {"settings", nlohmann::ordered_json::object()},
                                 {"inputs", nlohmann::ordered_json::array()}};
  for (const auto& [key, value] : subject.settings) {
    std::visit(
        [&, &named = key](const auto& held) {
          // Built-in operators have no tables and no code.
          if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::shared_ptr<const number_file>>) {
            std::vector<float> numbers(static_cast<std::size_t>(held->count()));
            held->read(0, numbers);
            json["settings"][named] = {{"shape", held->shape()}, {"numbers", numbers}};
          } else if constexpr (requires { json["settings"][named] = held; }) {
            json["settings"][named] = held;
          }
        },
        value);
  }
  const auto described = [](const tensor_spec& spec) {
    return nlohmann::ordered_json{{"type", name_of(spec.type)}, {"shape", spec.shape}};
  };
  for (const tensor_spec& each : subject.inputs) {
    json["inputs"].push_back(described(each));
  }
  json["output"] = described(subject.output());
  return json;
}

namespace {

using list = std::vector<double>;
using type = element_type;

constexpr std::int64_t few = 1024;
constexpr std::int64_t many = 1 << 20;
constexpr std::int64_t batch = 64;

parameters with(std::initializer_list<std::pair<const char*, parameters::value>> given) {
  parameters settings;
  for (const auto& [key, value] : given) {
    settings.set(key, value);
  }
  return settings;
}

/// A low-pass of so many taps: a sinc under a Hann window, which passes a sixteenth of the band.
list low_pass(std::size_t taps) {
  list weights(taps);
  const double middle = (static_cast<double>(taps) - 1.0) / 2.0;
  for (std::size_t k = 0; k < taps; ++k) {
    const double x = std::numbers::pi * (static_cast<double>(k) - middle) / 16.0;
    const double sinc = x == 0.0 ? 1.0 : std::sin(x) / x;
    const double t = 2.0 * std::numbers::pi * (static_cast<double>(k) + 0.5) / static_cast<double>(taps);
    weights[k] = sinc * (0.5 - 0.5 * std::cos(t)) / 16.0;
  }
  return weights;
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
  /// Both shapes; `element` is the shape of one sample.
  void add(const std::string& name, const char* op, parameters settings, type element_kind, std::size_t inputs = 1,
           const std::vector<std::int64_t>& element = {}) {
    for (const auto& [frames, samples] : {std::pair{batch, few}, std::pair{std::int64_t{1}, many}}) {
      add_one(name, op, settings, {element_kind, with_samples(samples, element)}, frames, inputs);
    }
  }
  void add_one(const std::string& name, const char* op, parameters settings, const tensor_spec& input,
               std::int64_t frames, std::size_t inputs = 1, bool one_session = false) {
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

void add_elementwise(case_list& cases) {
  cases.add("affine", "affine", with({{"a", 2.5}, {"b", -0.1}}), type::f32);
  cases.add("add", "add", {}, type::f32, 2);
  cases.add("multiply, cf32", "multiply", {}, type::cf32, 2);
  cases.add("multiply, conjugate", "multiply", with({{"conjugate", true}}), type::cf32, 2);
  cases.add_one("multiply by a constant", "multiply", with({{"by", low_pass(few)}}), {type::f32, {few}}, batch);
  cases.add_one("multiply by a gain for each of 64 rows, cf32", "multiply",
                with({{"by", low_pass(64)}, {"by_shape", list{64.0, 1.0}}}), {type::cf32, {64, few}}, batch);
  cases.add("magnitude", "magnitude", {}, type::cf32);
  cases.add("magnitude, squared", "magnitude", with({{"squared", true}}), type::cf32);
  cases.add("window", "window", {}, type::f32);
  cases.add("window, cf32", "window", {}, type::cf32);
  cases.add("concat", "concat", {}, type::f32, 2);
  const std::vector<std::string> input{"input"};
  cases.add("map, abs(x)^2 of cf32", "map", with({{"from", input}, {"expr", std::string("abs(x)^2")}}), type::cf32);
  cases.add("map, sqrt(clamp(x, 0, 1))", "map", with({{"from", input}, {"expr", std::string("sqrt(clamp(x, 0, 1))")}}),
            type::f32);
}

void add_conversions(case_list& cases) {
  cases.add("convert, cu8", "convert", {}, type::cu8);
  cases.add("convert, i16", "convert", {}, type::i16);
  cases.add("convert, ci16", "convert", {}, type::ci16);
  cases.add("convert, planar i16 of 2 channels", "convert", with({{"planar", true}}), type::i16, 1, {2});
}

void add_axes(case_list& cases) {
  for (const type kind : {type::f32, type::cf32}) {
    const std::string of = kind == type::f32 ? " of f32" : " of cf32";
    cases.add("transpose, 8 channels" + of, "transpose", {}, kind, 1, {8});
    cases.add_one("transpose, a square" + of, "transpose", {}, {kind, {few, few}}, 4);
  }
}

void add_reductions(case_list& cases) {
  for (const char* const name : {"mean", "max", "rms"}) {
    const parameters function = with({{"function", std::string(name)}});
    cases.add(std::string("reduce, ") + name, "reduce", function, type::f32);
    parameters first = function;
    first.set("axis", std::int64_t{0});
    cases.add(std::string("reduce, ") + name + " of 8 channels", "reduce", first, type::f32, 1, {8});
    cases.add_one(std::string("reduce, ") + name + " of 64 rows", "reduce", first, {type::f32, {64, few}}, batch);
  }
  cases.add("slice, half", "slice", with({{"start", std::int64_t{100}}, {"stop", std::int64_t{612}}}), type::f32);
  cases.add("slice, every second", "slice", with({{"step", std::int64_t{2}}}), type::f32);
  cases.add("top, 1", "top", {}, type::f32);
  cases.add("top, 8", "top", with({{"count", std::int64_t{8}}}), type::f32);
}

void add_transforms(case_list& cases) {
  cases.add("fft", "fft", {}, type::cf32);
  cases.add("fft of f32", "fft", {}, type::f32);
  cases.add("fft, shifted", "fft", with({{"shift", true}}), type::cf32);
  cases.add_one("fft of 1021", "fft", {}, {type::cf32, {1021}}, batch);
  cases.add_one("fft along the first of 2 axes", "fft", with({{"axis", std::int64_t{0}}}), {type::cf32, {few, 64}}, 4);
  cases.add("ifft", "ifft", {}, type::cf32);
  cases.add_one("ifft to f32", "ifft", with({{"half", true}}), {type::cf32, {513}}, batch);
}

void add_rows(case_list& cases) {
  cases.add("bch (31, 21)", "bch",
            with({{"generator", std::int64_t{0x769}},
                  {"length", std::int64_t{31}},
                  {"errors", std::int64_t{2}},
                  {"parity", std::string("even")}}),
            type::f32);
  cases.add("detrend", "detrend", {}, type::f32);
  cases.add_one("mel, 80 of 513", "mel", with({{"rate", 16000.0}, {"count", std::int64_t{80}}}),
                {type::f32, {100, 513}}, batch);
  cases.add("moments", "moments", {}, type::f32);
  cases.add("moments, cf32", "moments", {}, type::cf32);
  cases.add("moments, order 4", "moments", with({{"order", std::int64_t{4}}}), type::f32);
  cases.add("histogram, u8", "histogram", {}, type::u8);
  cases.add("histogram, f32", "histogram", {}, type::f32);
  cases.add("detect", "detect", with({{"high", 0.9}, {"low", 0.3}}), type::f32);
  cases.add("power_spectrum, f32", "power_spectrum", {}, type::f32);
  cases.add("power_spectrum, cf32", "power_spectrum", {}, type::cf32);
  cases.add("power_spectrum, cf32 dB", "power_spectrum", with({{"scale", std::string("db")}}), type::cf32);
  cases.add("correlate, 16 taps", "correlate", with({{"template", low_pass(16)}, {"mode", std::string("valid")}}),
            type::f32);
  cases.add("correlate, 128 taps", "correlate", with({{"template", low_pass(128)}, {"mode", std::string("valid")}}),
            type::f32);
  cases.add("correlate, 128 taps cf32", "correlate",
            with({{"template", low_pass(128)}, {"mode", std::string("valid")}}), type::cf32);
  list codes;
  for (int code = 0; code < 32; ++code) {
    const list one = low_pass(512);
    codes.insert(codes.end(), one.begin(), one.end());
  }
  cases.add_one("correlate, bank of 32 by 512 taps cf32", "correlate",
                with({{"template", codes}, {"templates", std::int64_t{32}}, {"mode", std::string("valid")}}),
                {type::cf32, {few}}, batch);
}

void add_sessions(case_list& cases) {
  cases.add("fir, 64 taps", "fir", with({{"taps", low_pass(64)}}), type::f32);
  cases.add("fir, 64 taps cf32 by 8", "fir", with({{"taps", low_pass(64)}, {"decimation", std::int64_t{8}}}),
            type::cf32);
  cases.add("fir, 512 taps", "fir", with({{"taps", low_pass(512)}}), type::f32);
  for (const char* const rule : {"reset", "hold"}) {
    const std::pair<const char*, parameters::value> on_nan{"on_nan", std::string(rule)};
    cases.add(std::string("fir, 64 taps, on_nan ") + rule, "fir", with({{"taps", low_pass(64)}, on_nan}), type::f32);
    cases.add(std::string("iir, 2 sections, on_nan ") + rule, "iir", with({{"sections", butterworth()}, on_nan}),
              type::f32);
  }
  cases.add("iir, 2 sections", "iir", with({{"sections", butterworth()}}), type::f32);
  cases.add("iir, 2 sections cf32", "iir", with({{"sections", butterworth()}}), type::cf32);
  cases.add("iir, 2 sections, 8 channels", "iir", with({{"sections", butterworth()}}), type::f32, 1, {8});
  cases.add_one("iir, 2 sections, 8 channels along the last axis", "iir",
                with({{"sections", butterworth()}, {"axis", std::int64_t{-1}}}), {type::f32, {8, few}}, batch);
  cases.add("mix", "mix", with({{"frequency", 0.1}}), type::cf32);
  for (const char* const kind : {"fm", "am", "pm"}) {
    const parameters settings = with({{"kind", std::string(kind)}});
    cases.add((std::string("demodulate, ") + kind).c_str(), "demodulate", settings, type::cf32);
  }
  const parameters three_quarters = with({{"up", std::int64_t{3}}, {"down", std::int64_t{4}}});
  cases.add("resample by 3 / 4", "resample", three_quarters, type::f32);
  cases.add("resample by 3 / 4, cf32", "resample", three_quarters, type::cf32);
  cases.add("channelize to 64", "channelize", with({{"channels", std::int64_t{64}}}), type::cf32);
  cases.add("clock", "clock", with({{"omega", 8.0}}), type::f32);
  cases.add("frame_sync, 16 bits", "frame_sync",
            with({{"word", std::string("0x7CD2")},
                  {"errors", std::int64_t{1}},
                  {"rows", std::int64_t{4}},
                  {"length", std::int64_t{32}}}),
            type::f32);
  cases.add("moving_zscore, 256 steps", "moving_zscore", with({{"window", std::int64_t{256}}}), type::f32);
  cases.add("moving_zscore, 256 steps, hold and gap", "moving_zscore",
            with({{"window", std::int64_t{256}}, {"gap", std::int64_t{16}}, {"hold", 4.0}}), type::f32);
  cases.add("detect along a session", "detect", with({{"high", 0.9}, {"low", 0.3}, {"along", std::string("session")}}),
            type::f32);
  cases.add_one("unpack, 24 bits", "unpack", with({{"format", std::string("i24")}}), {type::u8, {3 * few}}, batch);
  cases.add("reframe to 256", "reframe", with({{"length", std::int64_t{256}}}), type::f32);
  cases.add("reframe to 256, every 64", "reframe",
            with({{"length", std::int64_t{256}}, {"hop", std::int64_t{64}}, {"padding", std::int64_t{192}}}),
            type::f32);
  const parameters rows_of_256 =
      with({{"length", std::int64_t{256}}, {"hop", std::int64_t{64}}, {"padding", std::int64_t{192}}});
  cases.add("stft of 256, every 64", "stft", rows_of_256, type::f32);
  cases.add("stft of 256, every 64, cf32", "stft", rows_of_256, type::cf32);
  const parameters back = with({{"hop", std::int64_t{64}}, {"window", std::string("hamming")}});
  cases.add_one("istft of 256, every 64", "istft", back, {type::cf32, {16, 129}}, batch);
  cases.add_one("istft of 256, every 64", "istft", back, {type::cf32, {16 * few, 129}}, 1);
  for (const char* const kind : {"mean", "peak"}) {
    const std::string name = std::string("accumulate, ") + kind;
    const parameters frames = with({{"frames", std::int64_t{16}}, {"kind", std::string(kind)}});
    cases.add_one(name + " of 16 frames", "accumulate", frames, {type::f32, {few}}, batch, 1, true);
    parameters rows = frames;
    rows.set("frames", std::int64_t{256});
    rows.set("along", std::string("rows"));
    cases.add_one(name + " of 256 steps", "accumulate", rows, {type::f32, {many}}, 1);
    rows.set("every", std::int64_t{256});
    cases.add_one(name + " of each 256 steps", "accumulate", rows, {type::f32, {many}}, 1);
  }
}

/// Weights of a layer, of deviation 1 over the root of the first extent.
parameters::value weights_of(const std::vector<std::int64_t>& shape) {
  std::mt19937 random(5);
  std::normal_distribution<float> noise(0.0F, 1.0F / std::sqrt(static_cast<float>(shape.front())));
  std::vector<float> numbers(
      static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
  std::generate(numbers.begin(), numbers.end(), [&] { return noise(random); });
  return number_file::of(shape, numbers);
}

void add_convolutions(case_list& cases) {
  const parameters bank = with({{"weights", weights_of({32, 16, 9})}, {"padding", std::string("same")}});
  cases.add_one("convolve, 16 to 32 channels of 9 taps", "convolve", bank, {type::f32, {16, few}}, batch);
  cases.add_one("convolve, 16 to 32 channels of 9 taps", "convolve", bank, {type::f32, {16, 64 * few}}, 1);
  const parameters first = with({{"weights", weights_of({32, 2, 9})}, {"activation", std::string("relu")}});
  cases.add_one("convolve, 2 to 32 channels of 9 taps, ReLU", "convolve", first, {type::f32, {2, few}}, batch);
  const parameters apart =
      with({{"weights", weights_of({64, 1, 3})}, {"padding", std::int64_t{1}}, {"groups", std::int64_t{64}}});
  cases.add_one("convolve, 64 channels of 3 taps apart", "convolve", apart, {type::f32, {64, few}}, batch);
  const parameters image = with({{"weights", weights_of({64, 64, 3, 3})}, {"padding", std::int64_t{1}}});
  cases.add_one("convolve, 3 × 3 over 64 channels", "convolve", image, {type::f32, {64, 28, 28}}, batch);
  cases.add_one("convolve, 3 × 3 over 64 channels", "convolve", image, {type::f32, {64, 56, 56}}, 1);
}

/// A layer of `size` by `size` for frames of `rows` rows.
void add_layer(case_list& cases, const std::string& name, std::int64_t size, std::int64_t rows, type kind,
               parameters settings = {}) {
  settings.set("weights", weights_of({size, size}));
  cases.add_one(name, "matmul", settings, {kind, {rows, size}}, batch);
}

void add_products(case_list& cases) {
  add_layer(cases, "matmul, 512 by 512, 64 rows", 512, 1, type::f32);
  add_layer(cases, "matmul, 512 by 512, 1024 rows", 512, 16, type::f32);
}

void add_products_for_gpu(case_list& cases) {
  const auto in = [](const char* compute) { return with({{"compute", std::string(compute)}}); };
  for (const std::int64_t rows : {1, 64}) {
    const std::string shape = "4096 by 4096, " + std::to_string(batch * rows) + " rows";
    add_layer(cases, "matmul, f32, " + shape, 4096, rows, type::f32);
    add_layer(cases, "matmul, tf32, " + shape, 4096, rows, type::f32, in("tf32"));
    add_layer(cases, "matmul, f16, " + shape, 4096, rows, type::f16, in("f16"));
    add_layer(cases, "matmul, bf16, " + shape, 4096, rows, type::bf16, in("bf16"));
    for (const char* const activation : {"relu", "gelu"}) {
      for (const char* const compute : {"f32", "tf32", "bf16"}) {
        parameters settings = in(compute);
        settings.set("bias", weights_of({4096}));
        settings.set("activation", std::string(activation));
        add_layer(cases, std::string("matmul, ") + compute + ", bias, " + activation + ", " + shape, 4096, rows,
                  std::string_view(compute) == "bf16" ? type::bf16 : type::f32, settings);
      }
    }
    parameters repeatable = in("bf16");
    repeatable.set("repeatable", true);
    add_layer(cases, "matmul, bf16, repeatable, " + shape, 4096, rows, type::bf16, repeatable);
  }
}

/// Cases that only a GPU gets: what a library for GPUs does as well, and many sessions with much state.
void add_for_gpu(case_list& cases) {
  cases.add_one("accumulate, mean of 16 frames, a session each", "accumulate", with({{"frames", std::int64_t{16}}}),
                {type::f32, {few}}, batch);
  constexpr std::int64_t long_frame = std::int64_t{1} << 24;
  cases.add_one("resample by 3 / 4, a long frame", "resample",
                with({{"up", std::int64_t{3}}, {"down", std::int64_t{4}}}), {type::f32, {long_frame}}, 1);
  cases.add_one("channelize to 64, a long frame", "channelize", with({{"channels", std::int64_t{64}}}),
                {type::cf32, {long_frame}}, 1);
  cases.add("affine, a·x alone", "affine", with({{"a", 2.5}}), type::f32);
  const parameters by_transform =
      with({{"template", low_pass(512)}, {"mode", std::string("valid")}, {"method", std::string("fft")}});
  cases.add("correlate, 512 taps by FFT", "correlate", by_transform, type::f32);
  cases.add("correlate, 512 taps cf32 by FFT", "correlate", by_transform, type::cf32);
}

/// More than the state of any operator covers.
constexpr std::int64_t enough_frames = 4096;

/// About 256 MiB in and out, in frames of the smaller batch's length.
operator_case beyond_cache(operator_case subject) {
  constexpr std::size_t bytes = std::size_t{256} << 20U;
  subject.frames = 1;
  const std::size_t frame = subject.input_bytes() + subject.output_bytes();
  const auto fitting = static_cast<std::int64_t>(bytes / frame);
  subject.frames = fitting >= 1024 ? fitting / 1024 * 1024 : fitting;
  subject.beyond_cache = true;
  subject.earlier_frames = enough_frames;
  return subject;
}

}  // namespace

std::vector<operator_case> operator_cases() {
  case_list all;
  add_elementwise(all);
  add_conversions(all);
  add_axes(all);
  add_reductions(all);
  add_transforms(all);
  add_rows(all);
  add_convolutions(all);
  add_sessions(all);
  add_products(all);
  return all.take();
}

std::vector<operator_case> gpu_operator_cases() {
  case_list more;
  add_for_gpu(more);
  add_products_for_gpu(more);
  std::vector<operator_case> smaller = operator_cases();
  for (operator_case& each : more.take()) {
    each.earlier_frames = enough_frames;
    smaller.push_back(std::move(each));
  }
  std::vector<operator_case> all;
  for (std::size_t at = 0; at < smaller.size(); ++at) {
    all.push_back(smaller[at]);
    const bool last = at + 1 == smaller.size() || smaller[at + 1].name != smaller[at].name;
    const operator_case& first = at > 0 && smaller[at - 1].name == smaller[at].name ? smaller[at - 1] : smaller[at];
    // Products are bound by their arithmetic, not by memory.
    if (last && first.frames == batch && first.op != "matmul" && first.op != "convolve") {
      all.push_back(beyond_cache(first));
    }
  }
  return all;
}

}  // namespace penstock::bench
