#include <cstdint>
#include <future>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/client/client_fixtures.hpp"

namespace penstock::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::message_type;

/// "double" takes frames of 4, at most 8 in a request.
class Recording : public session_fixture {
 protected:
  /// "double" takes frames of at most 4.
  void take_shorter_frames() {
    daemon_.offer().pipelines[0].input.variable = true;
    daemon_.offer().pipelines[0].outputs[0].variable = true;
  }

  /// Runs that many samples, which count up from 1, while the daemon answers so many requests.
  result run(std::size_t samples, int requests, unfilled tail = unfilled::refuse) {
    connect();
    session line = open();
    auto bytes = counting_bytes(samples / 4 + 1);
    bytes.resize(samples);
    auto running = std::async(std::launch::async, [&] { return line.run(bytes, tail); });
    for (int each = 0; each < requests; ++each) {
      const received submit = daemon_.expect(message_type::submit);
      frames_.push_back(submit.header.frames);
      daemon_.result(submit);
    }
    return running.get();
  }

  static std::string refusal_of(session& line, std::size_t samples) {
    try {
      (void)line.run(std::vector<std::byte>(samples));
    } catch (const request_error& error) {
      return error.what();
    }
    return "";
  }

  static std::vector<std::int16_t> twice(std::size_t samples) {
    std::vector<std::int16_t> all(samples);
    for (std::size_t at = 0; at < samples; ++at) {
      all[at] = static_cast<std::int16_t>(2 * (at + 1));
    }
    return all;
  }

  std::vector<std::uint32_t> frames_;  ///< of each request
};

TEST_F(Recording, GivesOneEntryAFrame) {
  const result all = run(44, 2);
  EXPECT_THAT(frames_, ElementsAre(8, 3));
  EXPECT_EQ(all.frames(), 11U);
  EXPECT_THAT(all.output("twice").shape(), ElementsAre(11, 4));
  EXPECT_EQ(all.output("twice").to_vector<std::int16_t>(), twice(44));
  EXPECT_THAT(all.output("sum").shape(), ElementsAre(11, 1));
  EXPECT_EQ(all.output("sum").to_vector<float>().back(), 41 + 42 + 43 + 44);
}

TEST_F(Recording, JoinsOutputsOfVariableLengthAndSendsTheTailAsAShorterFrame) {
  take_shorter_frames();
  const result all = run(43, 3);
  EXPECT_THAT(frames_, ElementsAre(8, 2, 1));
  EXPECT_EQ(all.frames(), 11U);
  EXPECT_THAT(all.output("twice").shape(), ElementsAre(43));
  EXPECT_EQ(all.output("twice").to_vector<std::int16_t>(), twice(43));
  EXPECT_THAT(all.output("sum").shape(), ElementsAre(11, 1));
  EXPECT_EQ(all.output("sum").to_vector<float>().back(), 41 + 42 + 43);
}

TEST_F(Recording, SendsFramesAloneWhoseLengthIsNoMultipleOfThePeriod) {
  take_shorter_frames();
  daemon_.offer().pipelines[0].period = 3;
  EXPECT_EQ(run(12, 3).output("twice").to_vector<std::int16_t>(), twice(12));
  EXPECT_THAT(frames_, ElementsAre(1, 1, 1));
}

TEST_F(Recording, GivesEmptyOutputsForNoSamples) {
  take_shorter_frames();
  const result all = run(0, 0);
  EXPECT_EQ(all.frames(), 0U);
  EXPECT_THAT(all.output("twice").shape(), ElementsAre(0));
  EXPECT_THAT(all.output("sum").shape(), ElementsAre(0, 1));
}

TEST_F(Recording, LeavesTheRestOut) {
  EXPECT_EQ(run(10, 1, unfilled::drop).output("twice").to_vector<std::int16_t>(), twice(8));
}

TEST_F(Recording, FillsTheRestWithZeros) {
  auto filled = twice(10);
  filled.resize(12);
  EXPECT_EQ(run(10, 2, unfilled::pad).output("twice").to_vector<std::int16_t>(), filled);
}

TEST_F(Recording, NumbersItsRequestsOn) {
  connect();
  session line = open();
  const auto bytes = counting_bytes(11);
  auto first = sample_account::at(1000, 2);
  first.time_ns = 77;
  first.quality = time_quality::source;
  auto running = std::async(std::launch::async, [&] { return line.run(bytes, unfilled::refuse, first); });
  std::vector<wire::sample_account> told(2);
  for (wire::sample_account& each : told) {
    const received submit = daemon_.expect(message_type::submit);
    ASSERT_TRUE(wire::decode_account(std::as_bytes(std::span(submit.parts.at(0))), submit.header, each));
    daemon_.result(submit);
  }
  EXPECT_EQ(told[0].index, 1000);
  EXPECT_EQ(told[0].time_ns, 77);
  EXPECT_EQ(told[1], (wire::sample_account{.index = 1032, .epoch = 2, .flags = wire::sample_flag::index_known}));
  const result all = running.get();
  EXPECT_EQ(all.account(), first);
  EXPECT_EQ(all.output("sum").index, 900);
}

TEST_F(Recording, NumbersItsRequestsAlongTheAxisOfTime) {
  daemon_.offer().pipelines[0].input.shape = {2, 4};
  daemon_.offer().pipelines[0].input.axis = 1;
  connect();
  session line = open();
  EXPECT_THAT(refusal_of(line, 7), HasSubstr("no whole number of frames of u8[2, 4], which have 8 each"));
  const auto bytes = counting_bytes(18);  // nine frames
  auto running =
      std::async(std::launch::async, [&] { return line.run(bytes, unfilled::refuse, sample_account::at(1000)); });
  for (const std::int64_t index : {1000, 1032}) {
    const received submit = daemon_.expect(message_type::submit);
    wire::sample_account told;
    ASSERT_TRUE(wire::decode_account(std::as_bytes(std::span(submit.parts.at(0))), submit.header, told));
    EXPECT_EQ(told.index, index) << "of eight frames of four samples";
    daemon_.error(submit, wire::status::expired);
  }
  EXPECT_THROW((void)running.get(), request_error);
}

TEST_F(Recording, RefusesWhatFillsNoFrameBeforeAnythingIsSent) {
  daemon_.offer().pipelines[0].input.shape = {4, 2};
  connect();
  session line = open();
  EXPECT_THAT(refusal_of(line, 6), HasSubstr("3 samples at the end fill no frame"));
  EXPECT_THAT(refusal_of(line, 7), HasSubstr("no whole number of samples"));
  settle();
}

TEST_F(Recording, ThrowsTheFirstErrorAndCancelsTheRest) {
  connect();
  session line = open();
  const auto bytes = counting_bytes(20);
  auto running = std::async(std::launch::async, [&] { return line.run(bytes); });
  const received first = daemon_.expect(message_type::submit);
  (void)daemon_.expect(message_type::submit);
  (void)daemon_.expect(message_type::submit);
  daemon_.error(first, wire::status::expired);
  EXPECT_THROW((void)running.get(), request_error);
  (void)daemon_.await(message_type::cancel);
}

}  // namespace
}  // namespace penstock::test
