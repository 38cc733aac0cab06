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

struct hop_row {
  std::int64_t length;
  std::int64_t hop;
  std::int64_t padding;
  std::int64_t frame;
};

constexpr std::array<hop_row, 10> hops{{{2, 1, 0, 5},
                                        {7, 3, 0, 16},
                                        {16, 8, 8, 33},
                                        {100, 10, 99, 64},
                                        {13, 1, 12, 1},
                                        {5, 17, 0, 30},
                                        {5, 17, 4, 3},
                                        {1, 3, 0, 7},
                                        {64, 64, 32, 50},
                                        {301, 150, 0, 97}}};

/// The rows of numpy's sliding_window_view over the signal behind its padding, every hop-th.
template <class Element>
std::vector<Element> windows(const std::vector<Element>& signal, const hop_row& row, std::int64_t step) {
  std::vector<Element> padded(static_cast<std::size_t>(row.padding * step));
  padded.insert(padded.end(), signal.begin(), signal.end());
  std::vector<Element> rows;
  const auto length = static_cast<std::ptrdiff_t>(row.length * step);
  for (std::ptrdiff_t first = 0; first + length <= static_cast<std::ptrdiff_t>(padded.size());
       first += static_cast<std::ptrdiff_t>(row.hop * step)) {
    rows.insert(rows.end(), padded.begin() + first, padded.begin() + first + length);
  }
  return rows;
}

TEST_P(reframe_operation, GivesOverlappingAndSparseRowsOfTheWholeSession) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const hop_row& row : hops) {
    for (const std::int64_t channels : {1, 3, 64}) {
      for (const std::int64_t age : {std::int64_t{0}, ((std::int64_t{3} << 31U) + 5) / row.hop * row.hop}) {
        const tensor_spec input{.type = element_type::i16, .shape = {row.frame, channels}, .variable = true};
        session_case setup = reframe_of(row.length, input, random.integer(0, 1 << 30));
        setup.settings.set("hop", row.hop);
        setup.settings.set("padding", row.padding);
        setup.least_steps = random.integer(0, 1);
        setup.age = age;
        setup.aged_from = row.length;
        std::vector<std::vector<std::int16_t>> signals;
        for (const std::int64_t steps : {std::int64_t{1}, row.length * 3, random.integer(200, 700)}) {
          signals.push_back(random.integers<std::int16_t>(static_cast<std::size_t>(steps * channels)));
        }
        const auto got = run<std::int16_t>(setup, signals);
        for (std::size_t session = 0; session < signals.size(); ++session) {
          EXPECT_EQ(got[session], windows(signals[session], row, channels))
              << setup.text() << ", length " << row.length << ", hop " << row.hop << ", padding " << row.padding
              << ", session " << session;
        }
      }
    }
  }
}

TEST_P(reframe_operation, CutsFixedFramesIntoOverlappingRowsBehindPadding) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const hop_row row{8, 4, 4, 12};
  session_case setup = reframe_of(row.length, {.type = element_type::f32, .shape = {row.frame, 2}}, 3);
  setup.settings.set("hop", row.hop);
  setup.settings.set("padding", row.padding);
  const std::vector<std::vector<float>> signals{random.normal(12 * 2 * 30), random.normal(12 * 2)};
  EXPECT_EQ(setup.output(), (tensor_spec{.type = element_type::f32, .shape = {3, 8, 2}}));
  const auto got = run<float>(setup, signals);
  EXPECT_EQ(got[0], windows(signals[0], row, 2));
  EXPECT_EQ(got[1], windows(signals[1], row, 2));
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

TEST(Reframe, CountsRowsFromTheFirstThatIsComplete) {
  session_case setup = reframe_of(7, {.type = element_type::u8, .shape = {20}, .variable = true}, 1);
  setup.settings.set("hop", std::int64_t{2});
  const step_rate rate = setup.traits().rate;
  EXPECT_EQ(setup.output(), (tensor_spec{.type = element_type::u8, .shape = {10, 7}, .variable = true}));
  const auto totals = [](const step_rates& each) {
    std::vector<std::int64_t> all;
    for (std::int64_t taken = 0; taken < 12; ++taken) {
      all.push_back(each.total(taken));
    }
    return all;
  };
  EXPECT_EQ(totals(rate), (std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(totals(step_rates{rate}.then({2, 0})), (std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}));
  const step_timing timing = step_timing{}.then(setup.traits());
  EXPECT_EQ(timing.next(0), 0);
  EXPECT_EQ(timing.next(8), 2);
}

}  // namespace
}  // namespace penstock
