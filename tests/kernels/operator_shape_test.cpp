#include <vector>

#include <gtest/gtest.h>

#include "kernels/operation.hpp"

namespace penstock {
namespace {

using enum element_type;

struct shape_row {
  const char* op;
  parameters settings;
  tensor_spec input;
  tensor_spec output;
};

parameters with(std::string key, parameters::value what) {
  parameters settings;
  settings.set(std::move(key), std::move(what));
  return settings;
}

std::vector<shape_row> all_rows() {
  return {
      {"convert", {}, {u8, {7}}, {f32, {7}}},
      {"convert", {}, {cu8, {7}}, {cf32, {7}}},
      {"convert", {}, {i32, {9, 2}, true}, {f32, {9, 2}, true}},
      {"convert", with("to", std::string{"cf32"}), {i16, {7}}, {cf32, {7}}},
      {"convert", with("to", std::string{"cf32"}), {ci16, {7}}, {cf32, {7}}},
      {"convert", with("planar", true), {i16, {100, 2}}, {f32, {2, 100}}},
      {"convert", with("planar", true), {ci8, {100, 3}}, {cf32, {3, 100}}},
      {"magnitude", {}, {cf32, {5, 6}, true}, {f32, {5, 6}, true}},
      {"window", {}, {cf32, {5, 6}, true}, {cf32, {5, 6}, true}},
      {"window", {}, {f32, {6}}, {f32, {6}}},
      {"power_spectrum", {}, {f32, {1024}}, {f32, {513}}},
      {"power_spectrum", {}, {f32, {7}}, {f32, {4}}},
      {"power_spectrum", {}, {cf32, {4, 7}, true}, {f32, {4, 7}, true}},
      {"moments", {}, {f32, {1024}}, {f32, {5}}},
      {"moments", {}, {f32, {1024}, true}, {f32, {5}}},
      {"moments", {}, {f32, {8, 1024}, true}, {f32, {8, 5}, true}},
      {"moments", {}, {cf32, {1024}, true}, {f32, {3, 5}}},
      {"moments", {}, {cf32, {8, 1024}, true}, {f32, {8, 3, 5}, true}},
      {"histogram", {}, {u8, {1024}}, {i32, {256}}},
      {"histogram", {}, {i16, {1024}, true}, {i32, {256}}},
      {"histogram", {}, {cf32, {1024}, true}, {i32, {2, 256}}},
      {"histogram", {}, {ci16, {8, 1024}, true}, {i32, {8, 2, 256}, true}},
      {"histogram", with("range", std::vector<double>{0.0, 1.0}), {f32, {8, 4}}, {i32, {8, 256}}},
      {"affine", with("a", std::int64_t{2}), {cf32, {8, 4}, true}, {cf32, {8, 4}, true}},
      {"fir", with("taps", std::vector<double>{1.0}), {cf32, {8, 4}, true}, {cf32, {8, 4}, true}},
      {"reframe", with("length", std::int64_t{4}), {u8, {8}}, {u8, {2, 4}}},
      {"reframe", with("length", std::int64_t{10}), {ci16, {8, 3}, true}, {ci16, {1, 10, 3}, true}},
  };
}

TEST(OperatorShape, IsWhatTheDocumentSays) {
  for (const shape_row& row : all_rows()) {
    const tensor_spec output = find_operator(row.op)->infer(row.settings, std::span{&row.input, 1});
    EXPECT_EQ(output, row.output) << row.op << " of " << row.input.text() << " gives " << output.text() << ", not "
                                  << row.output.text();
  }
}

}  // namespace
}  // namespace penstock
