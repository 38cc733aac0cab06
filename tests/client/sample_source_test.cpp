#include "client/cli/sample_source.hpp"

#include <cstring>
#include <ostream>
#include <sstream>

#include <gmock/gmock.h>

namespace penstock::cli {
namespace {

using ::testing::HasSubstr;

std::string little_endian(std::uint32_t value, int bytes) {
  std::string text;
  for (int each = 0; each < bytes; ++each) {
    text += static_cast<char>(value & 0xFFU);
    value >>= 8U;
  }
  return text;
}

struct wav_facts {
  std::uint32_t tag = 1;
  std::uint32_t channels = 1;
  std::uint32_t bits = 16;
  std::uint32_t data_size = 0xFFFFFFFF;  ///< of the header; the samples may be fewer
  bool extensible = false;
  std::string before_data = {};
};

std::string chunk(const std::string& name, const std::string& body) {
  return name + little_endian(static_cast<std::uint32_t>(body.size()), 4) + body + std::string(body.size() % 2, '\0');
}

/// A WAV file, written field by field.
std::string wav(const wav_facts& facts, const std::string& samples) {
  std::string format = little_endian(facts.extensible ? 0xFFFE : facts.tag, 2) + little_endian(facts.channels, 2) +
                       little_endian(48000, 4) + little_endian(48000 * facts.channels * facts.bits / 8, 4) +
                       little_endian(facts.channels * facts.bits / 8, 2) + little_endian(facts.bits, 2);
  if (facts.extensible) {
    format += little_endian(22, 2) + little_endian(facts.bits, 2) + little_endian(0, 4) + little_endian(facts.tag, 2) +
              std::string(14, '\x11');
  }
  const std::string body =
      "WAVE" + chunk("fmt ", format) + facts.before_data + "data" + little_endian(facts.data_size, 4) + samples;
  return "RIFF" + little_endian(static_cast<std::uint32_t>(body.size()), 4) + body;
}

tensor_info input_of(const std::string& dtype, std::vector<std::int64_t> shape, const std::string& element = "") {
  return {"input", dtype, element.empty() ? dtype : element, std::move(shape), false, ""};
}

std::string read_all(sample_source& from) {
  std::string text(256, '\0');
  text.resize(from.read(std::as_writable_bytes(std::span{text})));
  return text;
}

std::string read_all(const std::string& file, const tensor_info& input, std::optional<int> channel = {},
                     input_format format = input_format::automatic) {
  std::istringstream stream{file};
  sample_source source{stream, format, channel, input};
  return read_all(source);
}

std::string refusal(const std::string& file, const tensor_info& input, std::optional<int> channel = {},
                    input_format format = input_format::automatic) {
  try {
    (void)read_all(file, input, channel, format);
  } catch (const input_error& error) {
    return error.what();
  }
  return "";
}

TEST(SampleSource, RawBytesComeAsTheyAre) {
  EXPECT_EQ(read_all("abcdefg", input_of("i16", {4})), "abcdefg");
  EXPECT_EQ(read_all("ab", input_of("i16", {4})), "ab");
  EXPECT_EQ(read_all("", input_of("i16", {4})), "");
}

TEST(SampleSource, ReadsOnInPieces) {
  std::istringstream stream{"abcdefg"};
  sample_source source{stream, input_format::automatic, {}, input_of("u8", {2})};
  std::string piece(3, '\0');
  const auto bytes = std::as_writable_bytes(std::span{piece});
  EXPECT_EQ(source.read(bytes), 3U);
  EXPECT_EQ(piece, "abc");
  EXPECT_EQ(source.read(bytes), 3U);
  EXPECT_EQ(piece, "def");
  EXPECT_EQ(source.read(bytes), 1U);
  EXPECT_EQ(source.read(bytes), 0U);
}

TEST(SampleSource, RawCanBeginWithRiffWhenThatIsSaid) {
  EXPECT_EQ(read_all("RIFFabc", input_of("u8", {1}), {}, input_format::raw), "RIFFabc");
}

struct wav_case {
  const char* name;
  wav_facts facts;
  tensor_info input;
};

void PrintTo(const wav_case& what, std::ostream* out) {
  *out << what.name;
}

class AcceptedWav : public ::testing::TestWithParam<wav_case> {};

TEST_P(AcceptedWav, GivesItsSamplesAlone) {
  const std::string file = wav(GetParam().facts, "0123456789abcdef");
  EXPECT_EQ(read_all(file, GetParam().input), "0123456789abcdef");
}

INSTANTIATE_TEST_SUITE_P(Formats, AcceptedWav,
                         ::testing::Values(wav_case{"Unsigned8", {1, 1, 8}, input_of("u8", {4})},
                                           wav_case{"Signed16", {1, 1, 16}, input_of("i16", {4})},
                                           wav_case{"Signed32", {1, 1, 32}, input_of("i32", {4})},
                                           wav_case{"Float32", {3, 1, 32}, input_of("f32", {4})},
                                           wav_case{"StereoAsRows", {1, 2, 16}, input_of("i16", {4, 2})},
                                           wav_case{"StereoAsIq", {1, 2, 8}, input_of("u8", {4, 2}, "cu8")},
                                           wav_case{"StereoFloatsAsComplex", {3, 2, 32}, input_of("c64", {4}, "cf32")},
                                           wav_case{"Extensible", {1, 1, 16, 0xFFFFFFFF, true}, input_of("i16", {4})},
                                           wav_case{"SizeOfZero", {1, 1, 16, 0}, input_of("i16", {4})},
                                           wav_case{"SizeLargerThanTheFile", {1, 1, 16, 4096}, input_of("i16", {4})},
                                           wav_case{"OddChunkBeforeData",
                                                    {1, 1, 16, 16, false, chunk("LIST", "odd")},
                                                    input_of("i16", {4})}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(SampleSource, StopsWhereTheDataChunkEnds) {
  EXPECT_EQ(read_all(wav({1, 1, 8, 4}, "0123LIST"), input_of("u8", {4})), "0123");
}

TEST(SampleSource, TakesOneChannelOfSeveral) {
  EXPECT_EQ(read_all(wav({1, 2, 16}, "aaAAbbBBccCC"), input_of("i16", {4}), 2), "AABBCC");
  EXPECT_EQ(read_all(wav({1, 3, 8}, "abcdefgh"), input_of("u8", {4}), 1), "ad");
}

TEST(SampleSource, SaysTheRateOfAWavFile) {
  std::istringstream stream{wav({1, 1, 16}, "")};
  const sample_source source{stream, input_format::automatic, {}, input_of("i16", {4})};
  ASSERT_TRUE(source.wav().has_value());
  EXPECT_EQ(source.wav()->rate, 48000U);
  EXPECT_EQ(source.wav()->text(), "16-bit integers, 1 channel, 48000 Hz");
}

TEST(SampleSource, RefusesSamplesThatThePipelineDoesNotTake) {
  const std::string text = refusal(wav({1, 1, 16}, ""), input_of("f32", {1024}));
  EXPECT_THAT(text, HasSubstr("takes f32[1024]"));
  EXPECT_THAT(text, HasSubstr("holds 16-bit integers, 1 channel"));
}

TEST(SampleSource, RefusesToMixOrPickChannels) {
  EXPECT_THAT(refusal(wav({1, 2, 16}, ""), input_of("i16", {1024})), HasSubstr("--channel"));
  EXPECT_THAT(refusal(wav({1, 1, 16}, ""), input_of("i16", {1024, 2})), HasSubstr("needs 2 channels"));
}

TEST(SampleSource, RefusesAChannelThatIsNotThere) {
  EXPECT_THAT(refusal(wav({1, 2, 16}, ""), input_of("i16", {4}), 3), HasSubstr("no channel 3"));
  EXPECT_THAT(refusal(wav({1, 2, 16}, ""), input_of("i16", {4}), 0), HasSubstr("no channel 0"));
  EXPECT_THAT(refusal("abcd", input_of("i16", {4}), 1), HasSubstr("raw samples"));
}

struct damage_case {
  const char* name;
  std::string file;
  const char* text;
};

void PrintTo(const damage_case& what, std::ostream* out) {
  *out << what.name;
}

class DamagedWav : public ::testing::TestWithParam<damage_case> {};

TEST_P(DamagedWav, IsRefusedWithItsReason) {
  EXPECT_THAT(refusal(GetParam().file, input_of("i16", {4}), {}, input_format::automatic), HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    Files, DamagedWav,
    ::testing::Values(damage_case{"OnlyRiff", "RIFF", "ends inside its header"},
                      damage_case{"NotWave",
                                  "RIFF\x10\x20\x30\x40"
                                  "AVI LIST",
                                  "--format raw"},
                      damage_case{"CutInTheFormat", wav({1, 1, 16}, "").substr(0, 30), "ends inside its header"},
                      damage_case{"DataFirst", "RIFF\x10\x20\x30\x40WAVEdata\x10\x10\x10\x10", "before their format"},
                      damage_case{"Signed24", wav({1, 1, 24}, ""), "24-bit integers"},
                      damage_case{"Float64", wav({3, 1, 64}, ""), "64-bit floats"},
                      damage_case{"Compressed", wav({2, 1, 4}, ""), "format tag 2"},
                      damage_case{"NoChannels", wav({1, 0, 16}, ""), "no channels"},
                      damage_case{"AbsurdFormatSize", "RIFF\x10\x20\x30\x40WAVEfmt \xFF\xFF\xFF\x7F", "is damaged"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(SampleSource, RefusesWhatIsNoWavWhenThatIsSaid) {
  EXPECT_THAT(refusal("abcd", input_of("u8", {1}), {}, input_format::wav), HasSubstr("no WAV file"));
}

}  // namespace
}  // namespace penstock::cli
