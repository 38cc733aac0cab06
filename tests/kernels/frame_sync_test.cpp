#include "kernels/frame_sync.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

using bits = std::vector<int>;

struct sync_design {
  std::string word;  ///< of 0 and 1
  std::int64_t errors = 0;
  bool either = false;
  std::int64_t rows = 1;
  std::int64_t length = 3;
};

/// A frame, as its row about it and its bits.
using sync_frame = std::vector<double>;

/// The frames of a stream that is there as a whole.
std::vector<sync_frame> frames_in(const bits& stream, const sync_design& design) {
  std::vector<sync_frame> frames;
  const std::size_t word = design.word.size();
  const auto size = static_cast<std::size_t>(design.rows * design.length);
  for (std::size_t at = 0; at + word + size <= stream.size();) {
    std::int64_t wrong = 0;
    for (std::size_t each = 0; each < word; ++each) {
      wrong += stream[at + each] != design.word[each] - '0' ? 1 : 0;
    }
    const std::int64_t other = static_cast<std::int64_t>(word) - wrong;
    const bool inverted = wrong > design.errors && design.either && other <= design.errors;
    if (wrong > design.errors && !inverted) {
      ++at;
      continue;
    }
    sync_frame& frame = frames.emplace_back(static_cast<std::size_t>(design.length), 0.0);
    frame[0] = static_cast<double>(at);
    frame[1] = static_cast<double>(inverted ? other : wrong);
    frame[2] = inverted ? 1.0 : 0.0;
    for (std::size_t each = 0; each < size; ++each) {
      frame.push_back(static_cast<double>(stream[at + word + each] ^ (inverted ? 1 : 0)));
    }
    at += word + size;
  }
  return frames;
}

class frame_sync_operation : public session_test {
 protected:
  session_case make(const sync_design& design, std::int64_t room, std::int64_t channels) {
    return {.op = "frame_sync",
            .settings = settings_of({{"word", "0b" + design.word},
                                     {"errors", design.errors},
                                     {"polarity", std::string(design.either ? "either" : "normal")},
                                     {"rows", design.rows},
                                     {"length", design.length}}),
            .input = {.type = element_type::f32, .shape = {channels, 1 + room}},
            .seed = static_cast<std::uint64_t>(random_.integer(0, 1 << 30))};
  }

  /// Noise with words in it, some of them inverted or with wrong bits.
  bits stream_with(const sync_design& design, std::int64_t count) {
    bits stream;
    while (static_cast<std::int64_t>(stream.size()) < count) {
      const std::int64_t noise = random_.integer(0, 2 * design.rows * design.length);
      for (std::int64_t each = 0; each < noise; ++each) {
        stream.push_back(random_.coin() ? 1 : 0);
      }
      const int turned = random_.coin() ? 1 : 0;
      const auto first = stream.size();
      for (const char bit : design.word) {
        stream.push_back((bit - '0') ^ turned);
      }
      for (std::int64_t wrong = random_.integer(0, design.errors + 1); wrong > 0; --wrong) {
        stream[first +
               static_cast<std::size_t>(random_.integer(0, static_cast<std::int64_t>(design.word.size()) - 1))] ^= 1;
      }
    }
    stream.resize(static_cast<std::size_t>(count));
    return stream;
  }

  /// The channels' streams in blocks of random counts from 0 to `room`, until all have ended.
  std::vector<float> blocks_of(const std::vector<bits>& streams, std::int64_t room) {
    std::vector<float> blocks;
    std::vector<std::size_t> at(streams.size());
    bool more = true;
    while (more) {
      more = false;
      for (std::size_t channel = 0; channel < streams.size(); ++channel) {
        const auto left = static_cast<std::int64_t>(streams[channel].size() - at[channel]);
        const std::int64_t count = std::min(left, random_.coin() ? room : random_.integer(0, room));
        blocks.push_back(static_cast<float>(count));
        for (std::int64_t each = 0; each < room; ++each) {
          // What is behind the count does not count.
          blocks.push_back(each < count
                               ? (streams[channel][at[channel] + static_cast<std::size_t>(each)] != 0 ? 0.5F : -0.5F)
                               : 1e20F);
        }
        at[channel] += static_cast<std::size_t>(count);
        more = more || at[channel] < streams[channel].size();
      }
    }
    return blocks;
  }

  /// Of the streams of each session's channels; `earlier`: bits of each before them.
  void expect_frames(const session_case& setup, const sync_design& design,
                     const std::vector<std::vector<bits>>& streams, const std::vector<std::vector<float>>& signals,
                     std::int64_t earlier = 0) {
    const auto channels = static_cast<std::ptrdiff_t>(streams[0].size());
    const std::vector<std::vector<double>> got = run<double>(setup, signals);
    const auto numbers = static_cast<std::ptrdiff_t>((1 + design.rows) * design.length);
    const std::ptrdiff_t most = setup.output().shape[1];
    for (std::size_t session = 0; session < streams.size(); ++session) {
      std::vector<std::vector<sync_frame>> frames(static_cast<std::size_t>(channels));
      for (std::ptrdiff_t at = 0; at < static_cast<std::ptrdiff_t>(got[session].size()); at += numbers) {
        const auto first = got[session].begin() + at;
        if (*first >= 0) {
          frames[static_cast<std::size_t>(at / (numbers * most) % channels)].emplace_back(first, first + numbers);
        } else {
          ASSERT_EQ(*first, -1.0);
          ASSERT_TRUE(std::all_of(first + 1, first + numbers, [](double each) { return each == 0.0; }));
        }
      }
      for (std::size_t channel = 0; channel < frames.size(); ++channel) {
        std::vector<sync_frame> expected = frames_in(streams[session][channel], design);
        for (sync_frame& frame : expected) {
          frame[0] += static_cast<double>(earlier);
        }
        ASSERT_EQ(frames[channel], expected)
            << design.word << ", channel " << channel << " of " << channels << ", " << setup.text();
      }
    }
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(frame_sync_operation);

TEST_P(frame_sync_operation, FindsWhatTheWholeStreamHasHoweverItIsCut) {
  SCOPED_TRACE(random_.trace());
  for (const sync_design& design :
       {sync_design{"01111100110100100001010111011000", 2, true, 16, 32}, sync_design{"1011", 0, false, 1, 3},
        sync_design{"1111100110101", 1, true, 2, 7}, sync_design{"1", 0, false, 1, 5},
        sync_design{std::string("0110100110010110100101100110100101101001100101100110100101101001"), 5, true, 1, 64}}) {
    for (const std::int64_t channels : {1, 3, 64}) {
      const std::int64_t room = random_.integer(1, 700);
      const session_case setup = make(design, room, channels);
      std::vector<std::vector<bits>> streams;
      std::vector<std::vector<float>> signals;
      for (const std::int64_t count : {random_.integer(1, 40), random_.integer(2000, 6000)}) {
        std::vector<bits>& of_session = streams.emplace_back();
        for (std::int64_t channel = 0; channel < channels; ++channel) {
          of_session.push_back(stream_with(design, count));
        }
        signals.push_back(blocks_of(of_session, room));
      }
      ASSERT_NO_FATAL_FAILURE(expect_frames(setup, design, streams, signals));
    }
  }
}

TEST_P(frame_sync_operation, CountsBitsBeyondWhatThirtyTwoBitsHold) {
  SCOPED_TRACE(random_.trace());
  const sync_design design{"1111100110101", 1, true, 2, 7};
  const std::int64_t channels = 3;
  const std::int64_t room = 100;
  for (const std::int64_t earlier : {(std::int64_t{1} << 32U) - 100, (std::int64_t{1} << 53U) - 2000}) {
    session_case setup = make(design, room, channels);
    const frame_sync_settings parsed = parse_frame_sync(setup.settings, setup.input);
    setup.age = earlier / 50;  // blocks, of about so many bits: the place of a bit comes from the state alone
    setup.state.resize(parsed.state_bytes());
    const sync_state behind_a_frame{.position = earlier};
    for (std::size_t at = 0; at < setup.state.size(); at += parsed.channel_state_bytes()) {
      std::memcpy(setup.state.data() + at, &behind_a_frame, sizeof behind_a_frame);
    }
    std::vector<bits> streams;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      streams.push_back(stream_with(design, 1900));
    }
    ASSERT_NO_FATAL_FAILURE(expect_frames(setup, design, {streams}, {blocks_of(streams, room)}, earlier));
  }
}

TEST(FrameSync, SaysHowManyFramesABlockCanEnd) {
  const auto of = [](std::int64_t room) {
    return session_case{
        .op = "frame_sync",
        .settings = settings_of(
            {{"word", std::string("0x7CD215D8")}, {"rows", std::int64_t{16}}, {"length", std::int64_t{32}}}),
        .input = {.type = element_type::f32, .shape = {2, 1 + room}}}
        .output();
  };
  EXPECT_EQ(of(544), (tensor_spec{element_type::f64, {2, 1, 17, 32}}));
  EXPECT_EQ(of(545), (tensor_spec{element_type::f64, {2, 2, 17, 32}}));
}

TEST(FrameSync, RefusesWhatItCannotFind) {
  const tensor_spec input{.type = element_type::f32, .shape = {100}};
  const auto with = [](const char* key, parameters::value value) {
    parameters settings = settings_of({{"word", std::string("0xA5")}, {"length", std::int64_t{8}}});
    settings.set(key, std::move(value));
    return settings;
  };
  expect_refused("frame_sync", {}, {input}, "word", "missing");
  for (const char* const word : {"A5", "0x", "0b012", "0xG", "0x00112233445566778"}) {
    expect_refused("frame_sync", with("word", std::string(word)), {input}, "word", "1 to 64 bits");
  }
  expect_refused("frame_sync", with("errors", std::int64_t{4}), {input}, "errors", "less than half");
  expect_refused("frame_sync", with("polarity", std::string("both")), {input}, "polarity", R"("normal" or "either")");
  expect_refused("frame_sync", with("length", std::int64_t{2}), {input}, "length", "3");
  expect_refused("frame_sync", with("rows", std::int64_t{1} << 18), {input}, "length", "1048576");
  expect_refused("frame_sync", with("rows", std::int64_t{1}), {{.type = element_type::f64, .shape = {9}}}, "from",
                 "takes f32");
  expect_refused("frame_sync", with("rows", std::int64_t{1}), {{element_type::f32, {9}, true}}, "from", "max");
}

}  // namespace
}  // namespace penstock
