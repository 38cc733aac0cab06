// What a peer sends is never an invariant: every kind of bad input gets a clear ERROR, and a good client beside it
// is not disturbed.

#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::testing {
namespace {

using ::testing::HasSubstr;
using wire::status;

constexpr const char* bad_input_configuration = R"(config_version = 1
[clients]
credit_requests = 4
credit_bytes = "64 KiB"
max_request_bytes = "64 KiB"
[[pipeline]]
name = "power"
input = { dtype = "cu8", shape = [16] }
batch = { max_frames = 8 }
[[pipeline.stage]]
name = "iq"
op = "convert"
[[pipeline.stage]]
name = "power"
op = "magnitude"
squared = true
)";

// One bad message and what must come back.
struct bad_input {
  const char* name;
  std::vector<std::string> (*parts)();
  status expected;
  const char* reason;  ///< a part of it
};

raw_submit good() {
  return raw_submit::of_iq(7, 0, 1, 16, 'x');
}

std::vector<std::string> with_byte(std::size_t at, unsigned char value) {
  std::vector<std::string> parts = good().parts();
  parts[0][at] = static_cast<char>(value);
  return parts;
}

std::vector<std::string> with_shape(std::int64_t samples) {
  raw_submit submit = good();
  submit.tensor.shape[1] = samples;
  return submit.parts();
}

const bad_input bad_inputs[] = {
    {"WrongMagic", [] { return with_byte(0, 'X'); }, status::malformed, "PNSK"},
    {"AnotherMajorVersion", [] { return with_byte(4, 9); }, status::unsupported_version, "versions 1 to 1"},
    {"TruncatedHeader", [] { return std::vector<std::string>{good().parts()[0].substr(0, 40)}; }, status::malformed,
     "64"},
    {"EmptyMessage", [] { return std::vector<std::string>{""}; }, status::malformed, "64"},
    {"AbsurdHeaderLength", [] { return with_byte(7, 0xFF); }, status::malformed, "header_len"},
    {"HeaderLengthBelowSixtyFour", [] { return with_byte(6, 8); }, status::malformed, "header_len"},
    {"MissingTensorHeader",
     [] {
       std::vector<std::string> parts = good().parts();
       parts[0].resize(100);
       return parts;
     },
     status::malformed, "tensor"},
    {"ShapeTimesSizeIsNotBytes", [] { return with_shape(15); }, status::wrong_shape, ""},
    {"ShapeOverflows", [] { return with_shape(std::numeric_limits<std::int64_t>::max() / 2); }, status::wrong_shape,
     ""},
    {"NegativeExtent", [] { return with_shape(-16); }, status::wrong_shape, ""},
    {"PayloadShorterThanAnnounced",
     [] {
       raw_submit submit = good();
       submit.payload.resize(5);
       return submit.parts();
     },
     status::wrong_shape, "5"},
    {"OnePartShorterThanAnnounced",
     [] {
       raw_submit submit = good();
       submit.payload.pop_back();
       return submit.in_one_part();
     },
     status::wrong_shape, "31"},
    {"OnePartLongerThanAnnounced",
     [] {
       raw_submit submit = good();
       submit.payload += 'x';
       return submit.in_one_part();
     },
     status::wrong_shape, "33"},
    {"OnePartOfHeadersAlone", [] { return std::vector<std::string>{good().parts()[0]}; }, status::wrong_shape, "has 0"},
    {"OnePartOverItsLimit", [] { return raw_submit::of_iq(7, 0, 8, 257, 'x').in_one_part(); }, status::too_large,
     "4112"},
    {"OnePartWithATensorTooMany",
     [] {
       raw_submit submit = good();
       submit.header.tensors = 2;
       submit.payload.resize(wire::tensor_header_bytes + 32);
       return submit.in_one_part();
     },
     status::malformed, "2 tensors"},
    {"UnknownPipeline",
     [] {
       raw_submit submit = good();
       submit.header.pipeline = 99;
       return submit.parts();
     },
     status::unknown_pipeline, "99"},
    {"WrongDtype",
     [] {
       raw_submit submit = good();
       submit.tensor.type = wire::int8_type;
       return submit.parts();
     },
     status::wrong_dtype, "cu8"},
    {"NoFrames",
     [] {
       raw_submit submit = raw_submit::of_iq(7, 0, 0, 16, 'x');
       return submit.parts();
     },
     status::wrong_shape, "frame"},
    {"MoreFramesThanABatch", [] { return raw_submit::of_iq(7, 0, 9, 16, 'x').parts(); }, status::too_large, "8"},
    {"TooManyParts",
     [] {
       std::vector<std::string> parts = good().parts();
       parts.resize(300, "surplus");
       return parts;
     },
     status::malformed, "300 parts"},
    {"OversizePayload",
     [] {
       raw_submit submit = good();
       submit.payload.resize(80 * 1024);
       return submit.parts();
     },
     status::too_large, "81920"},
    {"NoTensor",
     [] {
       raw_submit submit = good();
       submit.header.tensors = 0;
       return std::vector<std::string>{bytes_of(submit.header)};
     },
     status::malformed, "one tensor"},
    {"TypeThatClientsMayNotSend",
     [] {
       raw_submit submit = good();
       submit.header.type = wire::message_type::result;
       return submit.parts();
     },
     status::unsupported_type, "32"},
};

class BadInput : public ::testing::TestWithParam<bad_input> {
 protected:
  static void SetUpTestSuite() {
    daemon =
        new daemon_process({.backend = "host", .completion = "callback", .configuration = bad_input_configuration});
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(daemon->stop(), 0) << daemon->log();
    delete daemon;
  }

  // A good request of a good client goes through.
  static void expect_served(raw_peer& peer, std::uint64_t request_id) {
    raw_submit submit = good();
    submit.header.request_id = request_id;
    peer.send(submit.parts());
    const auto answer = peer.receive();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->header.type, wire::message_type::result);
    EXPECT_EQ(answer->header.request_id, request_id);
  }

  static daemon_process* daemon;
};

daemon_process* BadInput::daemon = nullptr;

TEST_P(BadInput, GetsAClearErrorAndDisturbsNobody) {
  raw_peer beside(daemon->endpoint());
  beside.hello();
  expect_served(beside, 1);

  raw_peer peer(daemon->endpoint());
  peer.hello();
  peer.send(GetParam().parts());
  const auto answer = peer.receive();
  ASSERT_TRUE(answer) << "no answer";
  ASSERT_EQ(answer->header.type, wire::message_type::error);
  EXPECT_EQ(wire::name_of(answer->header.code), wire::name_of(GetParam().expected));
  EXPECT_THAT(answer->json().at("reason").get<std::string>(), HasSubstr(GetParam().reason));

  expect_served(peer, 8);
  expect_served(beside, 2);
  const nlohmann::json counters = beside.status();
  EXPECT_TRUE(counters.at("balanced"));
  EXPECT_GE(counters.at("refused").at(std::string(wire::name_of(GetParam().expected))), 1);
}

INSTANTIATE_TEST_SUITE_P(Each, BadInput, ::testing::ValuesIn(bad_inputs),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace penstock::testing
