#include <array>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

session_case reframe_of(std::int64_t length, tensor_spec input, std::int64_t seed) {
  session_case setup{.op = "reframe", .settings = {}, .input = std::move(input)};
  setup.settings.set("length", length);
  setup.seed = static_cast<std::uint64_t>(seed);
  return setup;
}

/// The session's whole rows, one after the other: its steps without those of the last row that is not whole.
template <class Element>
std::vector<Element> whole_rows(const std::vector<Element>& signal, std::size_t row_elements) {
  return {signal.begin(), signal.begin() + static_cast<std::ptrdiff_t>(signal.size() / row_elements * row_elements)};
}

struct length_row {
  std::int64_t length;
  std::int64_t frame;
};

constexpr std::array<length_row, 7> lengths{{{1, 5}, {2, 1}, {7, 3}, {16, 16}, {100, 33}, {33, 100}, {600, 64}}};

class reframe_operation : public session_test {
 protected:
  template <class Element>
  void expect_rows(element_type type, std::int64_t channels, std::int64_t parts) {
    random_input random;
    SCOPED_TRACE(random.trace());
    for (const length_row& row : lengths) {
      const tensor_spec input{.type = type, .shape = {row.frame, channels}, .variable = true};
      session_case setup = reframe_of(row.length, input, random.integer(0, 1 << 30));
      setup.least_steps = random.integer(0, 1);
      std::vector<std::vector<Element>> signals;
      for (const std::int64_t steps : {std::int64_t{1}, row.length * 3, random.integer(200, 1500)}) {
        signals.push_back(random.integers<Element>(static_cast<std::size_t>(steps * channels * parts)));
      }
      const auto got = run<Element>(setup, signals);
      for (std::size_t session = 0; session < signals.size(); ++session) {
        EXPECT_EQ(got[session], whole_rows(signals[session], static_cast<std::size_t>(row.length * channels * parts)))
            << setup.text() << ", length " << row.length << ", session " << session;
      }
    }
  }
};
PENSTOCK_ON_EACH_BACKEND(reframe_operation);

TEST_P(reframe_operation, KeepsEveryStepInItsOrder) {
  expect_rows<std::uint8_t>(element_type::u8, 1, 1);
  expect_rows<std::uint8_t>(element_type::u8, 3, 1);
  expect_rows<std::int16_t>(element_type::i16, 1, 1);
  expect_rows<std::int32_t>(element_type::i32, 3, 1);
}

TEST_P(reframe_operation, KeepsComplexElementsWhole) {
  expect_rows<std::uint8_t>(element_type::cu8, 1, 2);
  expect_rows<std::int16_t>(element_type::ci16, 3, 2);
  expect_rows<std::int32_t>(element_type::cf32, 1, 2);  // the bits of floats: NaN payloads too
  expect_rows<std::int32_t>(element_type::cf32, 4, 2);
}

TEST_P(reframe_operation, CutsFixedFramesIntoRows) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const tensor_spec input{.type = element_type::f32, .shape = {12, 2}};
  const session_case setup = reframe_of(4, input, random.integer(0, 1 << 30));
  const std::vector<std::vector<float>> signals{random.normal(12 * 2 * 30), random.normal(12 * 2)};
  EXPECT_EQ(setup.output(), (tensor_spec{.type = element_type::f32, .shape = {3, 4, 2}}));
  EXPECT_EQ(run<float>(setup, signals), signals);
}

TEST(Reframe, SaysHowManyRowsAFrameCanGive) {
  const session_case setup = reframe_of(7, {.type = element_type::cu8, .shape = {20, 2, 3}, .variable = true}, 1);
  EXPECT_EQ(setup.output(), (tensor_spec{.type = element_type::cu8, .shape = {3, 7, 2, 3}, .variable = true}));
  EXPECT_EQ(setup.traits().rate, (step_rate{7, 0}));
  EXPECT_FALSE(setup.traits().whole_frames);
}

}  // namespace
}  // namespace penstock
