#include "client/cli/sample_source.hpp"

#include <array>
#include <cstring>
#include <future>
#include <ostream>

#include <gmock/gmock.h>

#include "client/cli/wav_format.hpp"
#include "tests/client/cli_input.hpp"

namespace penstock::cli {
namespace {

using test::file_of;
using test::given_input;
using test::pipe_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
                       little_endian(48000, 4) + little_endian(48000 * facts.channels * ((facts.bits + 7) / 8), 4) +
                       little_endian(facts.channels * ((facts.bits + 7) / 8), 2) + little_endian(facts.bits, 2);
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

std::string read_all(sample_source& source) {
  std::string text(256, '\0');
  text.resize(source.read(std::as_writable_bytes(std::span{text})));
  return text;
}

/// What comes of it as a file on disk and through a pipe, which must be the same, or `path` alone.
enum class way { file, pipe, both };

std::string read_by(way path, const std::string& file, const tensor_info& input, std::optional<int> channel,
                    input_kind kind, std::vector<std::string>* notes) {
  given_input given{path == way::file ? file_of(file) : pipe_of(file)};
  sample_source source{given.stream, kind, channel, input};
  const std::string all = read_all(source);
  EXPECT_TRUE(source.ended());
  if (notes != nullptr) {
    *notes = source.notes();
  }
  return all;
}

std::string read_all(const std::string& file, const tensor_info& input, std::optional<int> channel = {},
                     way path = way::both, input_kind kind = input_kind::automatic) {
  const std::string first = read_by(path == way::pipe ? way::pipe : way::file, file, input, channel, kind, nullptr);
  if (path == way::both) {
    EXPECT_EQ(read_by(way::pipe, file, input, channel, kind, nullptr), first);
  }
  return first;
}

std::vector<std::string> notes_of(const std::string& file, const tensor_info& input, way path) {
  std::vector<std::string> notes;
  (void)read_by(path, file, input, {}, input_kind::automatic, &notes);
  return notes;
}

std::string refusal(const std::string& file, const tensor_info& input, std::optional<int> channel = {},
                    way path = way::file) {
  try {
    (void)read_all(file, input, channel, path);
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
  given_input given{file_of("abcdefg")};
  sample_source source{given.stream, input_kind::automatic, {}, input_of("u8", {2})};
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
  EXPECT_EQ(read_all("RIFFabc", input_of("u8", {1}), {}, way::both, input_kind::raw), "RIFFabc");
}

TEST(SampleSource, LiveSamplesComeAfterTheFlushAlthoughTheFrameIsNotFull) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe(ends.data()), 0);
  given_input given{ends[0]};
  ASSERT_EQ(::write(ends[1], "abc", 3), 3);
  sample_source source{given.stream, input_kind::automatic, {}, input_of("u8", {256})};
  std::string frame(256, '\0');
  EXPECT_EQ(source.read(std::as_writable_bytes(std::span{frame}), std::chrono::milliseconds{1}), 3U);
  EXPECT_FALSE(source.ended());
  ::close(ends[1]);
  EXPECT_EQ(source.read(std::as_writable_bytes(std::span{frame}), std::chrono::milliseconds{1}), 0U);
  EXPECT_TRUE(source.ended());
}

TEST(SampleSource, AStopEndsAReadThatWaits) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe(ends.data()), 0);
  given_input given{ends[0]};
  ASSERT_EQ(::write(ends[1], "a", 1), 1);
  sample_source source{given.stream, input_kind::automatic, {}, input_of("u8", {256})};
  auto got = std::async(std::launch::async, [&source] { return read_all(source); });
  EXPECT_TRUE(given.stop.request(15));
  EXPECT_LE(got.get().size(), 1U);
  EXPECT_TRUE(source.ended());
  EXPECT_FALSE(given.stop.request(2));
  EXPECT_EQ(given.stop.signal(), 15);
  ::close(ends[1]);
}

struct wav_case {
  const char* name;
  wav_facts facts;
  tensor_info input;
};

void PrintTo(const wav_case& tested, std::ostream* out) {
  *out << tested.name;
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
                                           wav_case{"Signed12", {1, 1, 12}, input_of("i16", {4})},
                                           wav_case{"SizeOfSox", {1, 1, 16, 0x7FFFF000}, input_of("i16", {4})},
                                           wav_case{"SizeOfArecord", {1, 1, 16, 0x80000000}, input_of("i16", {4})},
                                           wav_case{"SizeOfZero", {1, 1, 16, 0}, input_of("i16", {4})},
                                           wav_case{"SizeLargerThanTheFile", {1, 1, 16, 4096}, input_of("i16", {4})},
                                           wav_case{"OddChunkBeforeData",
                                                    {1, 1, 16, 16, false, chunk("LIST", "odd")},
                                                    input_of("i16", {4})}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(SampleSource, StopsWhereTheDataChunkEnds) {
  EXPECT_EQ(read_all(wav({1, 1, 8, 4}, "0123LIST\4"), input_of("u8", {4})), "0123");
}

TEST(SampleSource, TakesOneChannelOfSeveral) {
  EXPECT_EQ(read_all(wav({1, 2, 16}, "aaAAbbBBccCC"), input_of("i16", {4}), 2), "AABBCC");
  EXPECT_EQ(read_all(wav({1, 3, 8}, "abcdefgh"), input_of("u8", {4}), 1, way::pipe), "ad");
}

TEST(SampleSource, SaysTheRateOfAWavFile) {
  for (const int descriptor : {file_of(wav({1, 1, 16}, "ab")), pipe_of(wav({1, 1, 16}, "ab"))}) {
    given_input given{descriptor};
    const sample_source source{given.stream, input_kind::automatic, {}, input_of("i16", {4})};
    ASSERT_TRUE(source.sound().has_value());
    EXPECT_EQ(source.sound()->rate, 48000U);
    EXPECT_EQ(source.sound()->text(), "16-bit integers, 1 channel, 48000 Hz");
  }
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

void PrintTo(const damage_case& tested, std::ostream* out) {
  *out << tested.name;
}

class DamagedWav : public ::testing::TestWithParam<damage_case> {};

TEST_P(DamagedWav, IsRefusedWithItsReason) {
  EXPECT_THAT(refusal(GetParam().file, input_of("i16", {4}), {}, way::pipe), HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    Files, DamagedWav,
    ::testing::Values(damage_case{"OnlyRiff", "RIFF", "ends inside its header"},
                      damage_case{"NotWave",
                                  "RIFF\x10\x20\x30\x40"
                                  "AVI LIST",
                                  "--raw"},
                      damage_case{"CutInTheFormat", wav({1, 1, 16}, "").substr(0, 30), "ends inside its header"},
                      damage_case{"DataFirst", "RIFF\x10\x20\x30\x40WAVEdata\x10\x10\x10\x10", "before their format"},
                      damage_case{"Signed64", wav({1, 1, 64}, ""), "64-bit integers"},
                      damage_case{"Float16", wav({3, 1, 16}, ""), "16-bit floats"},
                      damage_case{"Compressed", wav({2, 1, 4}, ""), "format tag 2"},
                      damage_case{"NoChannels", wav({1, 0, 16}, ""), "no channels"},
                      damage_case{"AbsurdFormatSize", "RIFF\x10\x20\x30\x40WAVEfmt \xFF\xFF\xFF\x7F", "is damaged"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(SampleSource, IntegersOf24BitsAreTheUpperBitsOf32) {
  const std::string samples("\x01\x02\x03\xff\xff\xff", 6);
  EXPECT_EQ(read_all(wav({1, 1, 24}, samples), input_of("i32", {4})), std::string("\0\x01\x02\x03\0\xff\xff\xff", 8));
}

TEST(SampleSource, FloatsOf64BitsAreRounded) {
  const double wide = 0.5;
  const float narrow = 0.5F;
  const std::string samples(reinterpret_cast<const char*>(&wide), sizeof wide);
  EXPECT_EQ(read_all(wav({3, 1, 64}, samples), input_of("f32", {4})),
            std::string(reinterpret_cast<const char*>(&narrow), sizeof narrow));
}

TEST(SampleSource, ADataChunkOfSizeZeroBeforeAnotherChunkIsEmpty) {
  const std::string file = wav({1, 1, 16, 0}, chunk("LIST", "some words for people"));
  EXPECT_EQ(read_all(file, input_of("i16", {4})), "");
}

TEST(SampleSource, SaysWhereHeaderAndDataDisagree) {
  const tensor_info input = input_of("i16", {4});
  EXPECT_THAT(notes_of(wav({1, 1, 16, 4}, "abcd"), input, way::file), IsEmpty());
  EXPECT_THAT(notes_of(wav({1, 1, 16, 4}, "abcd"), input, way::pipe), IsEmpty());
  EXPECT_THAT(notes_of(wav({1, 1, 16}, "abcd"), input, way::pipe), IsEmpty());
  EXPECT_THAT(notes_of(wav({1, 1, 8, 3}, "abc" + std::string(1, '\0') + chunk("afsp", "words")), input_of("u8", {4}),
                       way::pipe),
              IsEmpty());
  EXPECT_THAT(notes_of(wav({1, 1, 16, 8}, "abcd"), input, way::file), ElementsAre(HasSubstr("the file has 4")));
  EXPECT_THAT(notes_of(wav({1, 1, 16, 8}, "abcd"), input, way::pipe), ElementsAre(HasSubstr("ends 4 bytes before")));
  EXPECT_THAT(notes_of(wav({1, 1, 16, 4}, "abcd\1\2\3\4\5\6\7\7"), input, way::pipe),
              ElementsAre(HasSubstr("goes on")));
  EXPECT_THAT(notes_of(wav({1, 1, 16}, "abc"), input, way::pipe), ElementsAre(HasSubstr("part of a sample")));
}

/// What libsndfile writes in a format for these samples.
std::string written(int format, const std::vector<short>& samples) {
  const int file = file_of("");
  SF_INFO info{};
  info.format = format;
  info.channels = 1;
  info.samplerate = 8000;
  SNDFILE* const to = sf_open_fd(file, SFM_WRITE, &info, SF_FALSE);
  EXPECT_NE(to, nullptr) << sf_strerror(nullptr);
  sf_write_short(to, samples.data(), static_cast<sf_count_t>(samples.size()));
  sf_close(to);
  std::string bytes(static_cast<std::size_t>(::lseek(file, 0, SEEK_END)), '\0');
  EXPECT_EQ(::pread(file, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ::close(file);
  return bytes;
}

struct sound_case {
  const char* name;
  int format;
  const char* dtype;
};

void PrintTo(const sound_case& tested, std::ostream* out) {
  *out << tested.name;
}

class SoundFile : public ::testing::TestWithParam<sound_case> {};

TEST_P(SoundFile, GivesItsSamples) {
  const std::string dtype = GetParam().dtype;
  std::vector<short> samples(100);
  for (std::size_t at = 0; at < samples.size(); ++at) {
    samples[at] = static_cast<short>(static_cast<int>(at) * 256 - 12800);
  }
  std::string expected;
  for (const short each : samples) {
    if (dtype == "i16") {
      expected.append(reinterpret_cast<const char*>(&each), 2);
    } else if (dtype == "i32") {
      const int wide = each * 65536;
      expected.append(reinterpret_cast<const char*>(&wide), 4);
    } else {
      expected += static_cast<char>(each >> 8);
    }
  }
  const std::string file = written(GetParam().format, samples);
  given_input given{file_of(file)};
  sample_source source{given.stream, input_kind::automatic, {}, input_of(dtype, {4})};
  std::string got(1024, '\0');
  got.resize(source.read(std::as_writable_bytes(std::span{got})));
  EXPECT_EQ(got, expected);
  EXPECT_THAT(source.notes(), IsEmpty());
  EXPECT_THAT(refusal(file, input_of("u8", {4, 7})), HasSubstr("the file holds"));
}

INSTANTIATE_TEST_SUITE_P(Formats, SoundFile,
                         ::testing::Values(sound_case{"Flac16", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "i16"},
                                           sound_case{"Flac24", SF_FORMAT_FLAC | SF_FORMAT_PCM_24, "i32"},
                                           sound_case{"Flac8", SF_FORMAT_FLAC | SF_FORMAT_PCM_S8, "i8"},
                                           sound_case{"Rf64", SF_FORMAT_RF64 | SF_FORMAT_PCM_16, "i16"},
                                           sound_case{"W64", SF_FORMAT_W64 | SF_FORMAT_PCM_16, "i16"},
                                           sound_case{"Au", SF_FORMAT_AU | SF_FORMAT_PCM_16, "i16"},
                                           sound_case{"Aiff24", SF_FORMAT_AIFF | SF_FORMAT_PCM_24, "i32"},
                                           sound_case{"Rifx", SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG, "i16"}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(SampleSource, ASoundFileThatIsCutIsSaidToBe) {
  const std::string whole = written(SF_FORMAT_AU | SF_FORMAT_PCM_16, std::vector<short>(100, 7));
  EXPECT_THAT(notes_of(whole.substr(0, whole.size() - 50), input_of("i16", {4}), way::file),
              testing::SizeIs(testing::Ge(1U)));
}

TEST(SampleSource, AContainerThatCannotBeReadIsRefusedAndNotTakenForSamples) {
  const tensor_info input = input_of("u8", {4});
  EXPECT_THAT(refusal("PK\x03\x04 and so on", input), HasSubstr("--raw"));
  EXPECT_THAT(refusal("\x89HDF\r\n\x1a\n and so on", input, {}, way::pipe), HasSubstr("HDF5"));
  EXPECT_THAT(refusal("fLaC and so on", input), HasSubstr("--raw"));
  EXPECT_THAT(refusal("fLaC and so on", input, {}, way::pipe), HasSubstr("can't be read from a pipe"));
  given_input given{file_of("no sound at all"), "speech.WAV"};
  EXPECT_THROW((sample_source{given.stream, input_kind::automatic, {}, input}), input_error);
}

std::string npy(const std::string& descriptor, const std::string& fortran, const std::string& shape,
                const std::string& data) {
  std::string header = "{'descr': '" + descriptor + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
  header.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00", 8) + little_endian(118, 2) + header + "\n" + data;
}

TEST(SampleSource, AnArrayIsASignalOrItsFrames) {
  EXPECT_EQ(read_all(npy("<i2", "False", "(3,)", "aabbcc"), input_of("i16", {2})), "aabbcc");
  EXPECT_EQ(read_all(npy("<i2", "False", "(2, 2)", "aabbccdd"), input_of("i16", {2})), "aabbccdd");
  EXPECT_EQ(read_all(npy("|u1", "False", "(3, 2)", "abcdef"), input_of("u8", {8, 2})), "abcdef");
  EXPECT_EQ(read_all(npy("<c8", "False", "(1,)", "abcdefgh"), input_of("c64", {4})), "abcdefgh");
  EXPECT_EQ(read_all(npy("<i8", "False", "(1,)", "abcdefgh"), input_of("i64", {4})), "abcdefgh");
  EXPECT_EQ(read_all(npy("|b1", "False", "(3,)", "\1\1\1"), input_of("bool", {4})), "\1\1\1");
}

TEST(SampleSource, AnArrayOfBf16IsTwoBytesWithoutATypeOrUint16) {
  for (const char* const descriptor : {"<V2", "|V2", "<u2"}) {
    EXPECT_EQ(read_all(npy(descriptor, "False", "(2,)", "abcd"), input_of("bf16", {2})), "abcd");
  }
  EXPECT_EQ(read_all(npy(">u2", "False", "(2,)", "abcd"), input_of("bf16", {2})), "badc");
  EXPECT_THAT(refusal(npy("<V2", "False", "(2,)", "abcd"), input_of("u16", {2})), HasSubstr("holds bf16[2]"));
  EXPECT_THAT(refusal(npy("|V4", "False", "(1,)", "abcd"), input_of("f32", {2})), HasSubstr("holds |V4"));
}

TEST(SampleSource, AnArraysBytesAreTurnedAroundAndItsOrderToo) {
  EXPECT_EQ(read_all(npy(">i2", "False", "(2,)", "abcd"), input_of("i16", {2})), "badc");
  EXPECT_EQ(read_all(npy(">c8", "False", "(1,)", "abcdefgh"), input_of("c64", {2})), "dcbahgfe");
  EXPECT_EQ(read_all(npy(">f8", "False", "(1,)", "abcdefgh"), input_of("f64", {2})), "hgfedcba");
  EXPECT_EQ(read_all(npy(">f2", "False", "(2,)", "abcd"), input_of("f16", {2})), "badc");
  EXPECT_EQ(read_all(npy("|u1", "True", "(3, 2)", "abcdef"), input_of("u8", {8, 2})), "adbecf");
  EXPECT_EQ(read_all(npy(">i2", "True", "(2, 2)", "aAbBcCdD"), input_of("i16", {8, 2})), "AaCcBbDd");
}

TEST(SampleSource, AnArrayThatThePipelineDoesNotTakeIsRefused) {
  EXPECT_THAT(refusal(npy("<u4", "False", "(2,)", "aabbccdd"), input_of("f32", {2})), HasSubstr("astype"));
  EXPECT_THAT(refusal(npy("<f8", "False", "(2,)", std::string(16, 'a')), input_of("f32", {2})),
              HasSubstr("holds f64[2]: save it as f32 with numpy's astype"));
  EXPECT_THAT(refusal(npy("<i2", "False", "(2,)", "aabb"), input_of("f32", {2})), HasSubstr("holds i16[2]"));
  EXPECT_THAT(refusal(npy("<i2", "False", "(2, 3)", "aabbccddeeff"), input_of("i16", {2})),
              HasSubstr("the .npy file holds i16[2, 3]: save it as i16[samples] in numpy, one channel at a time"));
  EXPECT_THAT(refusal(npy("", "False", "(2,)", ""), input_of("i16", {2})), HasSubstr("damaged"));
  EXPECT_THAT(refusal(npy("<i2", "False", "(99999999999999999999,)", ""), input_of("i16", {2})), HasSubstr("damaged"));
  EXPECT_THAT(refusal("\x93NUMPY", input_of("i16", {2})), HasSubstr("ends within its header"));
  EXPECT_THAT(refusal(npy("|u1", "True", "(3, 2)", "abcde"), input_of("u8", {8, 2})), HasSubstr("ends before"));
  EXPECT_THAT(refusal(npy("|u1", "True", "(70000000000, 2)", "abcde"), input_of("u8", {8, 2}), {}, way::pipe),
              HasSubstr("ends before"));
}

TEST(SampleSource, AnArrayThatIsCutIsSaidToBe) {
  const tensor_info input = input_of("u8", {2});
  EXPECT_THAT(notes_of(npy("|u1", "False", "(4,)", "ab"), input, way::file), ElementsAre(HasSubstr("2 bytes before")));
  EXPECT_THAT(notes_of(npy("|u1", "False", "(2,)", "abc"), input, way::pipe), ElementsAre(HasSubstr("goes on")));
}

}  // namespace
}  // namespace penstock::cli
