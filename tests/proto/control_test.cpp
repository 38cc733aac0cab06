#include "proto/control.hpp"

#include <gtest/gtest.h>

#include "proto/message.hpp"

namespace penstock::wire {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span{text});
}

welcome example() {
  welcome body{"penstockd 0.1.0", "i", 1, UINT64_MAX, 2, {}};
  body.pipelines.push_back({4'294'967'295U, "p", 16, {"input", "u8", "cu8", {512, 2}, true, ""}, {}});
  body.pipelines.front().outputs.push_back({"psd", "f32", "f32", {512}, true, "power_spectrum"});
  return body;
}

TEST(Control, WelcomeComesBackWithEveryField) {
  const auto out = decode_welcome(bytes_of(encode(example())));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->server, "penstockd 0.1.0");
  EXPECT_EQ(out->instance, "i");
  EXPECT_EQ(out->credit_requests, 1U);
  EXPECT_EQ(out->credit_bytes, UINT64_MAX);
  EXPECT_EQ(out->max_request_bytes, 2U);
  ASSERT_EQ(out->pipelines.size(), 1U);
  EXPECT_EQ(out->pipelines[0].id, UINT32_MAX);
  EXPECT_EQ(out->pipelines[0].max_frames, 16U);
  EXPECT_EQ(out->pipelines[0].input.element, "cu8");
  EXPECT_EQ(out->pipelines[0].input.shape, (std::vector<std::int64_t>{512, 2}));
  ASSERT_EQ(out->pipelines[0].outputs.size(), 1U);
  EXPECT_EQ(out->pipelines[0].outputs[0].op, "power_spectrum");
  EXPECT_TRUE(out->pipelines[0].outputs[0].variable);
}

TEST(Control, SkipsUnknownKeys) {
  const auto out = decode_hello(bytes_of(R"({"later":[{"x":1}],"client":"c","version":"v"})"));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->client, "c");
}

TEST(Control, RefusesABodyOverTheLimit) {
  const std::string body = R"({"client":"c","version":"v"})";
  EXPECT_TRUE(decode_hello(bytes_of(body + std::string(max_body_bytes - body.size(), ' '))));
  EXPECT_FALSE(decode_hello(bytes_of(body + std::string(max_body_bytes - body.size() + 1, ' '))));
}

TEST(Control, RefusesNothingAtAll) {
  EXPECT_FALSE(decode_hello({}));
  EXPECT_FALSE(decode_welcome({}));
  EXPECT_FALSE(decode_error_body({}));
}

TEST(Control, SurvivesTheDeepestNesting) {
  EXPECT_FALSE(decode_hello(bytes_of(std::string(max_body_bytes, '['))));
}

TEST(Control, RefusesAShapeThatNoFrameCanHave) {
  for (const char* const shape : {"[1,1,1,1,1,1,1,1]", "[-1]", "[1.0]", "[\"1\"]", "[9223372036854775808]", "7"}) {
    std::string body = encode(example());
    body.replace(body.find("[512,2]"), 7, shape);
    EXPECT_FALSE(decode_welcome(bytes_of(body))) << shape;
  }
}

TEST(Control, ClipsALongClientNameBetweenCharacters) {
  const auto out = decode_hello(bytes_of(encode(hello{std::string(63, 'x') + "\u00e9", "v"})));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->client, std::string(63, 'x'));
}

TEST(Control, AnErrorThatQuotesAnythingFitsABody) {
  const std::string worst(100'000, '\x01');
  const std::string body = encode(error_body{worst, worst, worst, worst});
  EXPECT_LE(body.size(), max_body_bytes);
  EXPECT_TRUE(decode_error_body(bytes_of(body)));
}

TEST(Control, ReplacesBytesThatAreNotText) {
  const auto out = decode_error_body(bytes_of(encode(error_body{"no pipeline \xFF", "", "", ""})));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->reason, "no pipeline \uFFFD");
}

}  // namespace
}  // namespace penstock::wire
