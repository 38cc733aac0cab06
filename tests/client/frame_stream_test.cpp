#include "client/cli/frame_stream.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <mutex>
#include <sstream>

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/utc_time.hpp"
#include "client/cli/gallery.hpp"
#include "client/cli/load.hpp"
#include "client/cli/result_files.hpp"
#include "client/cli/status_table.hpp"
#include "tests/client/cli_input.hpp"
#include "tests/client/scripted_daemon.hpp"

namespace penstock::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::message_type;

/// Bytes through "double", whose frames are four of them.
class FrameStream : public ::testing::Test {
 protected:
  FrameStream() : client_(daemon_.connect(test::quick_options())) {}

  std::future<stream_report> send(std::string samples, frame_stream::settings settings) {
    settings.timeout = std::chrono::seconds{30};
    return std::async(std::launch::async, [this, samples = std::move(samples), settings] {
      input_stream stream{live_ ? test::pipe_of(samples) : test::file_of(samples), "input", stop_};
      const pipeline_info pipeline = client_->pipelines().front();
      sample_source source{stream, input_kind::raw, {}, pipeline.input};
      frame_stream::sink sink;
      sink.next = [this](const result& next) {
        for (const std::int16_t each : next.output("twice").to_vector<std::int16_t>()) {
          firsts_.push_back(each);
        }
      };
      sink.missing = [this](std::uint64_t frames) { firsts_.insert(firsts_.end(), frames, -1); };
      sink.moved = [](const progress&) {};
      return frame_stream{submit_, pipeline, settings, sink, stop_}.run(source);
    });
  }

  test::scripted_daemon daemon_;
  std::unique_ptr<client> client_;
  frame_stream::submitter submit_ = [this](const client::request& request, completion done) {
    client_->submit("double", request, std::move(done));
  };
  stop_event stop_;
  bool live_ = false;
  std::vector<int> firsts_;
};

TEST_F(FrameStream, HandsResultsOnInTheOrderOfTheFrames) {
  auto report = send(std::string("\1\1\1\1\2\2\2\2\3\3\3\3", 12), {1, 3, {}, {}});
  const auto one = daemon_.expect(message_type::submit);
  const auto two = daemon_.expect(message_type::submit);
  const auto three = daemon_.expect(message_type::submit);
  daemon_.result(three);
  daemon_.result(one);
  daemon_.result(two);
  const stream_report got = report.get();
  EXPECT_THAT(firsts_, ElementsAre(2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6));
  EXPECT_EQ(got.result_frames, 3U);
  EXPECT_EQ(got.bytes_in, 12U);
  EXPECT_EQ(got.bytes_out, 3U * 12U);
  EXPECT_EQ(got.latencies.count(), 3U);
}

TEST_F(FrameStream, LeavesOutTheTailAndSaysSo) {
  auto report = send("abcdefghij", {2, 4, {}, {}});
  const auto sent = daemon_.expect(message_type::submit);
  EXPECT_EQ(sent.header.frames, 2U);
  EXPECT_EQ(sent.parts.at(1), "abcdefgh");
  daemon_.result(sent);
  EXPECT_EQ(report.get().dropped_tail_bytes, 2U);
}

TEST_F(FrameStream, LastRequestMayHaveFewerFrames) {
  auto report = send("abcdefghijkl", {2, 4, {}, {}});
  daemon_.result(daemon_.expect(message_type::submit));
  const auto last = daemon_.expect(message_type::submit);
  EXPECT_EQ(last.header.frames, 1U);
  daemon_.result(last);
  const stream_report got = report.get();
  EXPECT_EQ(got.frames, 3U);
  EXPECT_EQ(got.dropped_tail_bytes, 0U);
}

TEST_F(FrameStream, FailedRequestsAreCountedByKindAndLeaveTheirPlace) {
  auto report = send("abcdefgh", {1, 2, {}, {}});
  daemon_.error(daemon_.expect(message_type::submit), wire::status::expired, {"too slow", "queued", "", ""});
  daemon_.result(daemon_.expect(message_type::submit));
  const stream_report got = report.get();
  EXPECT_THAT(firsts_, ElementsAre(-1, 2 * 'e', 2 * 'f', 2 * 'g', 2 * 'h'));
  ASSERT_EQ(got.errors.count("expired"), 1U);
  EXPECT_EQ(got.errors.at("expired").requests, 1U);
  EXPECT_THAT(got.errors.at("expired").first, HasSubstr("too slow"));
}

TEST_F(FrameStream, StopsWhenItIsTold) {
  stop_.request();
  EXPECT_EQ(send("abcdefgh", {1, 2, {}, {}}).get().frames, 0U);
}

TEST_F(FrameStream, EndsWithItsSession) {
  int submitted = 0;
  submit_ = [&](const client::request&, const completion&) {
    ++submitted;
    throw request_error{0x0600, {"it is lost", {}, {}, {}}};
  };
  const stream_report got = send("abcdefghijkl", {1, 2, {}, {}}).get();
  EXPECT_EQ(submitted, 1);
  EXPECT_EQ(got.errors.at("session lost").requests, 1U);
}

TEST_F(FrameStream, ReportNamesTheSession) {
  stream_report report;
  report.session = "a session, because the pipeline keeps state";
  EXPECT_THAT(report_text(report, client_->pipelines().front()), HasSubstr(", in a session, because"));
}

TEST_F(FrameStream, KeepsNoMoreInFlightThanAsked) {
  auto report = send("abcdefgh", {1, 1, {}, {}});
  const auto first = daemon_.expect(message_type::submit);
  client_->cancel(first.header.request_id);  // comes next: the second frame waits for the first
  EXPECT_EQ(daemon_.next().header.type, message_type::cancel);
  daemon_.result(first);
  daemon_.result(daemon_.expect(message_type::submit));
  EXPECT_EQ(report.get().result_frames, 2U);
}

TEST(FrameStreamTail, IsAShorterFrameWhereThePipelineTakesThat) {
  test::scripted_daemon daemon;
  daemon.offer().pipelines[0].input.variable = true;
  const auto connected = daemon.connect(test::quick_options());
  auto report = std::async(std::launch::async, [&] {
    stop_event stop;
    input_stream stream{test::file_of("abcdefg"), "input", stop};
    const pipeline_info pipeline = connected->pipelines().front();
    sample_source source{stream, input_kind::raw, {}, pipeline.input};
    frame_stream::sink sink{[](const result&) {}, [](std::uint64_t) {}, [](const progress&) {}};
    const auto submit = [&](const client::request& request, completion done) {
      connected->submit("double", request, std::move(done));
    };
    return frame_stream{submit, pipeline, {1, 4, std::chrono::seconds{30}, {}}, sink, stop}.run(source);
  });
  daemon.error(daemon.expect(message_type::submit), wire::status::expired);
  const auto tail = daemon.expect(message_type::submit);
  wire::tensor_header tensor;
  EXPECT_EQ(wire::decode_tensor(std::as_bytes(std::span{tail.parts[0]}), tail.header, 0, tensor),
            wire::decode_error::none);
  EXPECT_THAT(tensor.extents(), ElementsAre(1, 3));
  daemon.error(tail, wire::status::expired);
  EXPECT_EQ(report.get().tail_leading, 3);
}

TEST(FrameStreamTail, LiveRowsAreSentBeforeTheyFillAFrame) {
  test::scripted_daemon daemon;
  daemon.offer().pipelines[0].input.variable = true;
  const auto connected = daemon.connect(test::quick_options());
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(::write(ends[1], "abc", 3), 3);
  stop_event stop;
  auto report = std::async(std::launch::async, [&] {
    input_stream stream{ends[0], "input", stop};
    const pipeline_info pipeline = connected->pipelines().front();
    sample_source source{stream, input_kind::raw, {}, pipeline.input};
    frame_stream::sink sink{[](const result&) {}, [](std::uint64_t) {}, [](const progress&) {}};
    const auto submit = [&](const client::request& request, completion done) {
      connected->submit("double", request, std::move(done));
    };
    const frame_stream::settings settings{1, 4, std::chrono::seconds{30}, std::chrono::milliseconds{1}};
    return frame_stream{submit, pipeline, settings, sink, stop}.run(source);
  });
  const auto first = daemon.expect(message_type::submit);
  EXPECT_EQ(first.parts.at(1), "abc");
  daemon.error(first, wire::status::expired);
  EXPECT_TRUE(stop.request(15));
  EXPECT_EQ(report.get().frames, 1U);
  ::close(ends[1]);
}

TEST_F(FrameStream, AFailureOfTheSinkEndsAStreamThatWaitsForSamples) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(::write(ends[1], "abcd", 4), 4);
  auto report = std::async(std::launch::async, [&] {
    input_stream stream{ends[0], "input", stop_};
    const pipeline_info pipeline = client_->pipelines().front();
    sample_source source{stream, input_kind::raw, {}, pipeline.input};
    const frame_stream::sink sink{[](const result&) { throw std::runtime_error("the disk is full"); },
                                  [](std::uint64_t) {}, [](const progress&) {}};
    return frame_stream{submit_, pipeline, {1, 4, std::chrono::seconds{30}, {}}, sink, stop_}.run(source);
  });
  daemon_.result(daemon_.expect(message_type::submit));
  EXPECT_THROW((void)report.get(), std::runtime_error);
  ::close(ends[1]);
}

TEST_F(FrameStream, AnswerAfterWhichNothingCanFollowEndsAStreamThatWaitsForSamples) {
  for (const wire::status reason : {wire::status::session_lost, wire::status::unknown_pipeline}) {
    std::array<int, 2> ends{-1, -1};
    ASSERT_EQ(::pipe(ends.data()), 0);
    ASSERT_EQ(::write(ends[1], "abcd", 4), 4);
    stop_event stop;
    auto report = std::async(std::launch::async, [&] {
      input_stream stream{ends[0], "input", stop};
      const pipeline_info pipeline = client_->pipelines().front();
      sample_source source{stream, input_kind::raw, {}, pipeline.input};
      const frame_stream::sink sink{[](const result&) {}, [](std::uint64_t) {}, [](const progress&) {}};
      return frame_stream{submit_, pipeline, {1, 4, std::chrono::seconds{30}, {}}, sink, stop}.run(source);
    });
    daemon_.error(daemon_.expect(message_type::submit), reason, {"it is gone", "ingress", "", ""});
    const stream_report got = report.get();
    EXPECT_EQ(got.requests, 1U);
    ASSERT_EQ(got.errors.size(), 1U);
    EXPECT_THAT(got.errors.begin()->second.first, HasSubstr("it is gone"));
    ::close(ends[1]);
  }
}

TEST(ResultFiles, StandWhereTheyAreUnlessForced) {
  const auto folder = std::filesystem::temp_directory_path() / ("penstock-keep-" + std::to_string(::getpid()));
  pipeline_info pipeline;
  pipeline.outputs = {{"wave", "u8", "u8", {2}, true, ""}};
  const auto make = [&](existing_file existing) {
    result_files files{{folder, result_format::npy, existing, {}, false}, pipeline};
    files.finish();
  };
  make(existing_file::keep);
  EXPECT_THROW(make(existing_file::keep), std::runtime_error);
  EXPECT_NO_THROW(make(existing_file::replace));
  EXPECT_THROW((result_files{{folder, result_format::csv, existing_file::keep, {"other"}, false}, pipeline}),
               std::runtime_error);
  EXPECT_THROW((result_files{{"-", result_format::npy, existing_file::keep, {}, false}, pipeline}), std::runtime_error);
  std::filesystem::remove_all(folder);
}

TEST(ResultText, IsALineForEachRow) {
  const std::vector<float> numbers{1, 2.5F, std::numeric_limits<float>::quiet_NaN(), -4};
  const std::vector<std::int64_t> pair{2};
  const text_rows rows{"a \"b\"", "f32", std::as_bytes(std::span{numbers}), 2, 7, pair};
  EXPECT_EQ(csv_lines(rows), "1,2.5\nnan,-4\n");
  EXPECT_EQ(json_lines(rows),
            "{\"output\":\"a \\\"b\\\"\",\"index\":7,\"values\":[1,2.5]}\n"
            "{\"output\":\"a \\\"b\\\"\",\"index\":8,\"values\":[null,-4]}\n");
  const text_rows one_complex{"z", "c64", std::as_bytes(std::span{numbers}.first(2)), 1, 0, {}};
  EXPECT_EQ(csv_lines(one_complex), "1,2.5\n");
  EXPECT_EQ(json_lines(one_complex), "{\"output\":\"z\",\"index\":0,\"values\":[1,2.5]}\n");
  const std::vector<std::uint16_t> halves{0x3e00, 0x7c00};
  const text_rows half{"h", "f16", std::as_bytes(std::span{halves}), 1, 0, pair};
  EXPECT_EQ(csv_lines(half), "1.5,inf\n");
  EXPECT_EQ(json_lines(half), "{\"output\":\"h\",\"index\":0,\"values\":[1.5,null]}\n");
  EXPECT_EQ(csv_lines({"b", "bf16", std::as_bytes(std::span{halves}).first(2), 1, 0, {}}), "0.125\n");
  EXPECT_EQ(csv_lines({"u", "u16", std::as_bytes(std::span{halves}), 1, 0, pair}), "15872,31744\n");
  const std::vector<double> doubles{0.1, 1e300};
  EXPECT_EQ(csv_lines({"d", "f64", std::as_bytes(std::span{doubles}), 1, 0, pair}), "0.1,1e+300\n");
  const std::vector<std::int64_t> wide{INT64_MIN, 7};
  EXPECT_EQ(csv_lines({"i", "i64", std::as_bytes(std::span{wide}), 1, 0, pair}), "-9223372036854775808,7\n");
  const std::vector<std::uint8_t> flags{0, 1};
  const text_rows truth{"t", "bool", std::as_bytes(std::span{flags}), 1, 0, pair};
  EXPECT_EQ(csv_lines(truth), "0,1\n");
  EXPECT_EQ(json_lines(truth), "{\"output\":\"t\",\"index\":0,\"values\":[false,true]}\n");
  EXPECT_EQ(json_missing("z", 3), "{\"output\":\"z\",\"index\":3,\"values\":null}\n");
}

TEST(ResultText, BeginsWithTheNumbersOfItsRows) {
  const std::vector<std::int16_t> values{1, 2, 3};
  const std::vector<row_number> numbers{{-4}, {0}, {4}};
  text_rows rows{"y", "i16", std::as_bytes(std::span{values}), 3, 0, {}, numbers};
  EXPECT_EQ(csv_lines(rows), "-4,1\n0,2\n4,3\n");
  const std::vector<row_number> timed{{7, 1'700'000'000'000'000'001}};
  rows = {"y", "i16", std::as_bytes(std::span{values}).first(2), 1, 5, {}, timed};
  EXPECT_EQ(csv_lines(rows), "7,2023-11-14T22:13:20.000000001Z,1\n");
  EXPECT_EQ(json_lines(rows),
            "{\"output\":\"y\",\"index\":5,\"sample\":7,\"time\":\"2023-11-14T22:13:20.000000001Z\",\"values\":1}\n");
  EXPECT_EQ(json_missing("y", 6, numbers), "{\"output\":\"y\",\"index\":6,\"sample\":-4,\"values\":null}\n");
}

TEST(SampleTime, IsReadFromSecondsAndDates) {
  EXPECT_EQ(parse_time("0"), 0);
  EXPECT_EQ(parse_time("1700000000.25"), 1'700'000'000'250'000'000);
  EXPECT_EQ(parse_time("1.0000000019"), 1'000'000'001);
  EXPECT_EQ(parse_time("2023-11-14T22:13:20Z"), 1'700'000'000'000'000'000);
  EXPECT_EQ(parse_time("2024-02-29T00:00:00.000000001Z"), 1'709'164'800'000'000'001);
  EXPECT_EQ(parse_time("1969-12-31T23:59:59.5Z"), -500'000'000);
  EXPECT_GT(parse_time("now"), 1'700'000'000'000'000'000);
  for (const char* const wrong :
       {"", "-1", "1.", "1x", "2023-11-14", "2023-11-14T22:13:20", "2023-11-14T24:00:00Z", "2023-02-29T00:00:00Z",
        "2023-11-14T22:13:20.Z", "2023-1-14T22:13:20Z", "9999-01-01T00:00:00Z", "99999999999", "T", "tomorrow"}) {
    EXPECT_FALSE(parse_time(wrong)) << wrong;
  }
}

TEST(SampleTime, IsWrittenAsItIsRead) {
  for (const std::int64_t time : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1'709'164'800'123'456'789}}) {
    EXPECT_EQ(parse_time(print_utc_time(time)), time) << print_utc_time(time);
  }
}

TEST_F(FrameStream, NumbersAndTimesItsSamples) {
  frame_stream::settings settings{2, 4, {}, {}};
  settings.numbers = sample_numbers{-100, 1'000'000'000, 8};
  auto report = send("abcdefghijkl", settings);
  std::vector<wire::sample_account> told(2);
  for (wire::sample_account& each : told) {
    const auto sent = daemon_.expect(message_type::submit);
    ASSERT_TRUE(wire::decode_account(std::as_bytes(std::span(sent.parts.at(0))), sent.header, each));
    daemon_.result(sent);
  }
  EXPECT_EQ(told[0].index, -100);
  EXPECT_EQ(told[0].time_ns, 1'000'000'000);
  EXPECT_EQ(told[0].quality, wire::time_quality::source);
  EXPECT_EQ(told[1].index, -92);
  EXPECT_EQ(told[1].time_ns, 2'000'000'000);
  EXPECT_EQ(told[1].quality, wire::time_quality::estimated);
  EXPECT_EQ(report.get().result_frames, 3U);
}

TEST(ResultFiles, EachOutputIsAnArrayOfItsFrames) {
  const auto folder = std::filesystem::temp_directory_path() / ("penstock-out-" + std::to_string(::getpid()));
  pipeline_info pipeline;
  pipeline.outputs = {{"wave", "u8", "u8", {2}, true, ""}};
  {
    result_files files{{folder, result_format::npy, existing_file::keep, {}, false}, pipeline};
    const auto frames = [](std::string_view bytes, std::int64_t count, std::int64_t extent) {
      tensor_view tensor{"wave", "u8", std::as_bytes(std::span{bytes}), {count, extent}, 2};
      return result{1, static_cast<std::uint32_t>(count), {tensor}, nullptr};
    };
    files.append(frames("abcd", 2, 2));
    files.append_missing(1);
    files.append(frames("z", 1, 1));
    files.finish();
    EXPECT_THAT(files.summary(), ElementsAre(HasSubstr("wave.npy  u8 [3, 2]"), HasSubstr("wave.tail.npy  u8 [1, 1]")));
  }
  std::ifstream file{folder / "wave.npy", std::ios::binary};
  const std::string content{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_EQ(content.substr(128), std::string("abcd\0\0", 6));
  std::filesystem::remove_all(folder);
}

TEST(ResultFiles, VariableOutputOfASessionIsOneStreamOfRows) {
  const auto folder = std::filesystem::temp_directory_path() / ("penstock-stream-" + std::to_string(::getpid()));
  pipeline_info pipeline;
  pipeline.outputs = {{"slow", "u8", "u8", {4, 2}, true, "fir"}, {"level", "u8", "u8", {1}, false, "moments"}};
  result_files files{{folder, result_format::npy, existing_file::keep, {}, true}, pipeline};
  const auto append = [&files](std::string_view rows) {
    const auto count = static_cast<std::int64_t>(rows.size() / 2);
    const tensor_view slow{"slow", "u8", std::as_bytes(std::span{rows}), {1, count, 2}, 3};
    const tensor_view level{"level", "u8", std::as_bytes(std::span{"L", 1}), {1, 1}, 2};
    files.append(result{1, 1, {slow, level}, nullptr});
  };
  append("");
  append("aabbcc");
  files.append_missing(1);
  append("dd");
  files.finish();
  EXPECT_THAT(files.summary(), ElementsAre(HasSubstr("slow.npy  u8 [4, 2]"), HasSubstr("level.npy  u8 [4, 1]")));
  std::ifstream file{folder / "slow.npy", std::ios::binary};
  const std::string content{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_EQ(content.substr(128), "aabbccdd");
  std::filesystem::remove_all(folder);
}

TEST(Gallery, DrawsEachChannelOfAHistogram) {
  pipeline_info pipeline;
  pipeline.outputs = {{"levels", "i32", "i32", {2, 3}, false, "histogram"}};
  gallery drawn{pipeline, {}};
  const std::vector<std::int32_t> counts{1, 2, 3, 10, 20, 30, 1, 2, 3, 10, 20, 30};  // two frames of two channels
  const tensor_view tensor{"levels", "i32", std::as_bytes(std::span{counts}), {2, 2, 3}, 3};
  drawn.add(result{1, 2, {tensor}, nullptr});
  const std::string text = drawn.draw({}, 8);
  EXPECT_THAT(text, HasSubstr("levels[0] (histogram)  2 frames, 12 counts in 3 bins"));
  EXPECT_THAT(text, HasSubstr("levels[1] (histogram)  2 frames, 120 counts in 3 bins"));
}

TEST(Gallery, DrawsEachChannelOfAStreamOfSpectraAndOtherRowsTogether) {
  const std::vector<float> numbers(std::size_t{4} * 2 * 16, 1.0F);
  const auto drawn = [&](const tensor_info& output) {
    pipeline_info pipeline;
    pipeline.outputs = {output};
    gallery made{pipeline, {}};
    made.add(result{1, 1, {{"y", "f32", std::as_bytes(std::span{numbers}), {1, 4, 2, 16}, 4}}, nullptr});
    return made.draw({}, 12);
  };
  const std::string stream = drawn({"y", "f32", "f32", {4, 2, 16}, true, "stft", 256});
  EXPECT_THAT(stream, HasSubstr("y[0] (stft)  4 rows of 16 numbers"));
  EXPECT_THAT(stream, HasSubstr("y[1] (stft)  4 rows of 16 numbers"));
  EXPECT_THAT(drawn({"y", "f32", "f32", {4, 2, 16}, false, "stft"}), testing::Not(HasSubstr("y[0]")))
      << "time lies elsewhere";
}

/// So many spectra of one bin, as one frame of a stream of rows.
std::string drawn_rows(std::size_t rows, std::int64_t most) {
  pipeline_info pipeline;
  pipeline.outputs = {{"psd", "f32", "f32", {most, 1}, true, "power_spectrum", 256}};
  gallery drawn{pipeline, {256.0, 1280, false}};
  const std::vector<float> powers(rows, 1.0F);
  const auto extent = static_cast<std::int64_t>(rows);
  drawn.add(result{1, 1, {{"psd", "f32", std::as_bytes(std::span{powers}), {1, extent, 1}, 3}}, nullptr});
  return drawn.draw({}, 8);
}

TEST(Gallery, PutsEachRowOfAStreamAtItsPlaceInTime) {
  const std::string text = drawn_rows(20, 20);
  EXPECT_THAT(text, HasSubstr("20 rows of 1 bins"));
  EXPECT_THAT(text, HasSubstr("15 s"));
  EXPECT_THAT(text, Not(HasSubstr("channels")));
  // Less than the most, as in a stream of whatever length has come.
  EXPECT_THAT(drawn_rows(3, 20), HasSubstr("3 rows of 1 bins"));
}

TEST(Gallery, SaysSecondsOnlyWhereFramesHaveOneLength) {
  pipeline_info pipeline;
  pipeline.input = {"input", "f32", "f32", {1280}, true, ""};
  pipeline.outputs = {{"level", "f32", "f32", {1}, false, "affine"}};
  for (const bool even : {true, false}) {
    gallery drawn{pipeline, {256.0, 1280, false, "frame", even}};
    const std::vector<float> levels{1, 2, 3};
    drawn.add(result{1, 3, {{"level", "f32", std::as_bytes(std::span{levels}), {3, 1}, 2}}, nullptr});
    EXPECT_EQ(drawn.draw({}, 8).find(" s") != std::string::npos, even);
  }
}

/// A stream that says how much has been written to it, to another thread.
class watched_text : public std::stringbuf {
 public:
  void wait_for(const std::string& text) {
    std::unique_lock lock{mutex_};
    ASSERT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds{60}, [&] { return shown_.find(text) != std::string::npos; }));
  }
  [[nodiscard]] std::string all() {
    const std::lock_guard lock{mutex_};
    return shown_;
  }

 private:
  int sync() override {
    const std::lock_guard lock{mutex_};
    shown_ = str();
    changed_.notify_all();
    return 0;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string shown_;
};

TEST(LiveView, DrawsInItsPlaceWhileResultsComeAndTakesThatAwayAtTheEnd) {
  pipeline_info pipeline;
  pipeline.outputs = {{"level", "f32", "f32", {1}, false, "affine"}};
  gallery pictures{pipeline, {}};
  watched_text text;
  std::ostream out{&text};
  live_view drawn{pictures, [] { return terminal{true, 60, 12, color_depth::none}; }, out};
  const std::vector<float> levels{1, 2, 3};
  const result next{1, 3, {{"level", "f32", std::as_bytes(std::span{levels}), {3, 1}, 2}}, nullptr};
  drawn.add(next);
  text.wait_for("3 frames, from 1 to 3");
  drawn.add(next);
  text.wait_for("6 frames, from 1 to 3");
  const std::string shown = text.all();
  const auto lines = std::count(shown.begin(), shown.begin() + static_cast<std::ptrdiff_t>(shown.find('\x1b')), '\n');
  EXPECT_LT(lines, 12);
  EXPECT_THAT(shown, HasSubstr("\x1b[" + std::to_string(lines) + "A\r\x1b[J"));
  drawn.end();
  EXPECT_TRUE(text.all().ends_with("A\r\x1b[J"));
}

TEST(Payloads, AreRandomAndNeverZero) {
  const payloads all{4096};
  const auto first = all.of(0);
  EXPECT_EQ(std::count(first.begin(), first.end(), std::byte{0}), 0);
  EXPECT_FALSE(std::ranges::equal(first, all.of(1)));
}

TEST(StatusTable, ShowsObjectsTablesAndNumbers) {
  const std::string text = status_table(
      R"({"uptime_s":12.5,"requests":{"accepted":12345,"errors":{"expired":2}},"pipelines":[{"name":"a","frames":1},{"name":"bb","frames":20}]})");
  EXPECT_THAT(text, HasSubstr("  uptime_s   12.5\n"));
  EXPECT_THAT(text, HasSubstr("    accepted  12,345\n"));
  EXPECT_THAT(text, HasSubstr("      expired  2\n"));
  EXPECT_THAT(text, HasSubstr("    name  frames\n    a     1\n    bb    20\n"));
  EXPECT_THAT(status_table(R"({"rows":[{"name":"a","requests":{"accepted":3,"errors":{"expired":1,"failed":0}}}]})"),
              HasSubstr("    a     accepted 3, errors (expired 1)\n"));
  EXPECT_EQ(status_table(R"({"refused":{}})"), "  refused  -\n");
  EXPECT_EQ(status_table("oops"), "oops\n");
}

TEST(StatusTable, LeavesOutWhatIsZeroThroughout) {
  EXPECT_EQ(status_table(R"({"frames":0,"memory":{"used":0,"most":{"bytes":0}},"uptime_s":3,)"
                         R"("rows":[{"name":"a","lost":0},{"name":"b","lost":0}]})"),
            "  uptime_s  3\n"
            "  rows\n"
            "    name\n"
            "    a\n"
            "    b\n");
}

TEST(StatusTable, HasAColumnForWhatAnyRowHas) {
  EXPECT_EQ(status_table(R"({"rows":[{"name":"a"},{"name":"bb","lost":2}]})"),
            "  rows\n"
            "    name  lost\n"
            "    a     \n"
            "    bb    2\n");
}

TEST(StatusTable, ShowsTimesInATableOfTheirOwnAlthoughTheFirstRowHasNone) {
  EXPECT_EQ(status_table(R"({"pipelines":[{"name":"idle","frames":0},{"name":"busy","frames":2,"timing_us":
              {"queued":{"count":2,"p50":22.527,"p90":1234.5,"p99":0.055,"max":9},"total":{"p50":8,"p99":9}}}]})"),
            "  pipelines\n"
            "    name  frames\n"
            "    idle  0\n"
            "    busy  2\n"
            "  timing_us\n"
            "    name  of      p50   p90    p99\n"
            "    busy  queued  22.5  1,234  0.05500\n"
            "    busy  total   8            9\n");
}

}  // namespace
}  // namespace penstock::cli
