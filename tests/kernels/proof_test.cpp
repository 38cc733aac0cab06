#include "kernels/proof.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/operator_sample.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

constexpr std::int64_t frame_length = 100;

/// An operation on frames of f32[100], made of a function.
class made_operation final : public operation {
 public:
  using body = std::function<fault(const operation_arguments&)>;
  explicit made_operation(body work, std::size_t state = 0) : work_(std::move(work)), state_(state) {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return 64; }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return state_; }
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override { return work_(arguments); }

 private:
  body work_;
  std::size_t state_;
};

struct frames_of_run {
  explicit frames_of_run(const operation_arguments& arguments)
      : in(static_cast<const float*>(arguments.inputs.front())),
        out(static_cast<float*>(arguments.output)),
        frames(arguments.extent.frames) {}
  const float* in;
  float* out;
  std::int64_t frames;
};

fault doubled(const operation_arguments& arguments) {
  const frames_of_run run(arguments);
  std::memset(arguments.scratch, 1, 64);
  for (std::int64_t at = 0; at < run.frames * frame_length; ++at) {
    run.out[at] = 2.0F * run.in[at];
  }
  return {};
}

const tensor_spec fixed_frame{.type = element_type::f32, .shape = {frame_length}};
const tensor_spec variable_frame{.type = element_type::f32, .shape = {frame_length}, .variable = true};

/// "" if it is proven, else which rule it breaks.
std::string verdict(operation& subject, const tensor_spec& spec = fixed_frame,
                    std::optional<session_traits> session = {}, bool overwrites = false) {
  const std::unique_ptr<proof_device> device = make_host_proof_device();
  try {
    static_cast<void>(prove(*device, {.subject = subject,
                                      .inputs = {spec},
                                      .outputs = {spec},
                                      .session = session,
                                      .max_frames = 9,
                                      .overwrites = overwrites}));
    return "";
  } catch (const proof_error& error) {
    return error.what();
  }
}

std::string verdict(const made_operation::body& work, bool overwrites = false) {
  made_operation subject(work);
  return verdict(subject, fixed_frame, {}, overwrites);
}

TEST(Proof, FindsNothingWrongWithAGoodOperation) {
  EXPECT_EQ(verdict(doubled), "");
  EXPECT_EQ(verdict(doubled, true), "");
}

TEST(Proof, FindsWhatIsWrittenOutOfBounds) {
  EXPECT_THAT(verdict([](const operation_arguments& arguments) {
                static_cast<float*>(arguments.output)[arguments.extent.frames * frame_length] = 1.0F;
                return doubled(arguments);
              }),
              HasSubstr("writes behind the end of its output, 0 bytes in a batch of 1 frame"));
  EXPECT_THAT(verdict([](const operation_arguments& arguments) {
                static_cast<float*>(arguments.output)[-2] = 1.0F;
                return doubled(arguments);
              }),
              HasSubstr("bytes in a batch of 1 frame"));
  EXPECT_THAT(verdict([](const operation_arguments& arguments) {
                static_cast<std::byte*>(arguments.scratch)[64] = std::byte{1};
                return doubled(arguments);
              }),
              HasSubstr("writes behind the end of its scratch, 0 bytes"));
}

TEST(Proof, FindsAnInputThatIsChanged) {
  EXPECT_THAT(verdict([](const operation_arguments& arguments) {
                const fault met = doubled(arguments);
                const_cast<float*>(static_cast<const float*>(arguments.inputs.front()))[3] += 1.0F;
                return met;
              }),
              HasSubstr("changes its input"));
}

TEST(Proof, FindsAnOutputThatIsNotAllWritten) {
  EXPECT_THAT(verdict([](const operation_arguments& arguments) {
                const frames_of_run run(arguments);
                for (std::int64_t at = 0; at < run.frames * frame_length; ++at) {
                  run.out[at] = at % frame_length == 50 ? run.out[at] : run.in[at];
                }
                return fault{};
              }),
              HasSubstr("a second run gives another result"));
}

TEST(Proof, FindsAFrameThatDependsOnItsBatch) {
  EXPECT_THAT(verdict([](const operation_arguments& arguments) {
                const fault met = doubled(arguments);
                const frames_of_run run(arguments);
                run.out[0] += run.in[(run.frames - 1) * frame_length];
                return met;
              }),
              HasSubstr("depends on the other frames of its batch"));
  EXPECT_THAT(verdict([](const operation_arguments& arguments) {
                const fault met = doubled(arguments);
                const frames_of_run run(arguments);
                if (run.frames > 8) {
                  run.out[8 * frame_length] = 0.0F;
                }
                return met;
              }),
              HasSubstr("another in a full batch, of 9 frames"));
}

TEST(Proof, FindsAnOutputThatMayNotBeTheInput) {
  EXPECT_THAT(verdict(
                  [](const operation_arguments& arguments) {
                    const frames_of_run run(arguments);
                    for (std::int64_t at = 0; at < run.frames; ++at) {
                      for (std::int64_t sample = 0; sample < frame_length; ++sample) {
                        run.out[at * frame_length + sample] = run.in[at * frame_length + frame_length - 1 - sample];
                      }
                    }
                    return fault{};
                  },
                  true),
              HasSubstr("where the output is the first input"));
}

TEST(Proof, TellsAFault) {
  EXPECT_EQ(verdict([](const operation_arguments& /*arguments*/) { return fault{"OUT_OF_ORDER"}; }),
            "fails: OUT_OF_ORDER");
}

/// The sum of a session's samples so far; `wrong` breaks it.
made_operation sum_of_session(const std::string& wrong = "") {
  return made_operation(
      [wrong](const operation_arguments& arguments) {
        const frames_of_run run(arguments);
        const session_arguments& session = arguments.session;
        const std::int64_t pitch =
            wrong == "takes every batch for a longest one" ? variable_frame.shape[0] : arguments.extent.leading;
        for (std::int32_t first = 0; first < run.frames; ++first) {
          if (session.frames[first].previous >= 0) {
            continue;
          }
          float sum = 0.0F;
          std::int32_t last = first;
          if (session.frames[first].position != 0 || wrong == "starts from what lies in memory") {
            std::memcpy(&sum, session.half(session.frames[first].place, session.frames[first].half), sizeof sum);
          }
          for (std::int32_t at = first; at >= 0; at = session.frames[at].next) {
            last = at;
            sum = wrong == "forgets at each frame" ? 0.0F : sum;
            for (std::int32_t step = 0; step < session.frames[at].steps; ++step) {
              sum += run.in[at * pitch + step];
              run.out[at * pitch + step] = sum;
            }
          }
          const session_frame& end = session.frames[last];
          const std::int32_t half = wrong == "writes the half that it reads" ? end.half : 1 - end.half;
          std::memcpy(session.half(end.place, half), &sum, sizeof sum);
        }
        return fault{};
      },
      sizeof(float));
}

std::string verdict_of_sum(const std::string& wrong) {
  made_operation subject = sum_of_session(wrong);
  return verdict(subject, variable_frame, session_traits{});
}

TEST(Proof, TakesSessionsThroughAnOperationWithState) {
  EXPECT_EQ(verdict_of_sum(""), "");
  EXPECT_THAT(verdict_of_sum("starts from what lies in memory"), HasSubstr("a second run gives another result"));
  EXPECT_THAT(verdict_of_sum("forgets at each frame"), HasSubstr("how it is cut into frames"));
  EXPECT_NE(verdict_of_sum("writes the half that it reads"), "");
  EXPECT_NE(verdict_of_sum("takes every batch for a longest one"), "");
}

TEST(Proof, FindsNothingWrongWithTheBuiltInOperators) {
  for (const operator_definition& known : operator_catalogue()) {
    const operator_sample sample = sample_of(known.name, 11);
    for (const bool variable : {false, true}) {
      const std::vector<tensor_spec> inputs(sample.inputs,
                                            {.type = sample.type, .shape = {6, 11}, .variable = variable});
      SCOPED_TRACE(std::string(known.name) + " of " + inputs.front().text());
      tensor_spec output;
      std::optional<session_traits> session;
      try {
        output = known.infer(sample.settings, inputs);
        session = known.session == nullptr ? std::nullopt : known.session(sample.settings, inputs);
      } catch (const parameter_error&) {
        continue;  // it takes frames of one frame_length
      }
      const auto made = known.make_host({sample.settings, inputs, 9});
      const proof_subject subject{.subject = *made,
                                  .inputs = inputs,
                                  .outputs = {output},
                                  .session = session,
                                  .max_frames = 9,
                                  .overwrites = known.overwrites};
      const std::unique_ptr<proof_device> device = make_host_proof_device();
      EXPECT_NO_THROW(static_cast<void>(prove(*device, subject)));
      EXPECT_NO_THROW(prove_threads(make_host_proof_device, subject, 2));
    }
  }
}

TEST(Proof, ComparesWithinRounding) {
  const std::vector<tensor_spec> specs{fixed_frame};
  const auto results = [](float number) {
    std::vector<float> numbers(frame_length, 1000.0F);
    numbers[7] = number;
    const auto bytes = std::as_bytes(std::span(numbers));
    return proof_results{{bytes.begin(), bytes.end()}};
  };
  EXPECT_EQ(compare_results(specs, results(1.0F), results(1.005F)), "");
  EXPECT_EQ(compare_results(specs, results(1.0F), results(1.5F)), "number 7 is 1 and 1.5");
  EXPECT_EQ(compare_results(specs, results(1.0F), results(1.005F), 0.0), "number 7 is 1 and 1.005");
}

TEST(Proof, ComparesHalvesAsNumbers) {
  const auto half = [](std::uint16_t bits) {
    const auto bytes = std::as_bytes(std::span(&bits, 1));
    return proof_results{{bytes.begin(), bytes.end()}};
  };
  const std::vector<tensor_spec> specs{{.type = element_type::f16, .shape = {1}}};
  EXPECT_EQ(compare_results(specs, half(0x3c00), half(0x3c01)), "");
  EXPECT_EQ(compare_results(specs, half(0x3c00), half(0xc000)), "number 0 is 1 and -2");
  EXPECT_EQ(compare_results(specs, half(0x0200), half(0x7c00)), "number 0 is 3.05175781e-05 and inf");
  EXPECT_EQ(compare_results(specs, half(0x7e00), half(0xfe01)), "");
}

TEST(Proof, ComparesIntegersBeyondThoseOfDouble) {
  const auto results = [](std::int64_t number) {
    const auto bytes = std::as_bytes(std::span(&number, 1));
    return proof_results{{bytes.begin(), bytes.end()}};
  };
  const std::vector<tensor_spec> specs{{.type = element_type::i64, .shape = {1}}};
  constexpr std::int64_t number = std::int64_t{1} << 53;
  EXPECT_EQ(compare_results(specs, results(number), results(number)), "");
  EXPECT_EQ(compare_results(specs, results(number), results(number + 1)),
            "number 0 is 9007199254740992 and 9007199254740993");
  EXPECT_EQ(compare_results(specs, results(number), results(number + 1), std::nullopt, 1.0), "");
  EXPECT_NE(compare_results(specs, results(number - 1), results(number + 1), std::nullopt, 1.0), "");
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(compare_results(specs, results(-largest - 1), results(largest), std::nullopt, 1.0), "");
}

}  // namespace
}  // namespace penstock
