#include <functional>
#include <future>
#include <ostream>

#include <gmock/gmock.h>

#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using wire::message_type;

struct malformed_case {
  const char* name;
  /// Spoils the right reply.
  std::function<void(std::vector<std::string>&)> spoil;
};

void PrintTo(const malformed_case& what, std::ostream* out) {
  *out << what.name;
}

/// Field offsets of the wire, written out: the test does not trust the encoder to spoil a message.
constexpr std::size_t type_at = 5;
constexpr std::size_t tensors_at = 40;
constexpr std::size_t frames_at = 44;
constexpr std::size_t first_tensor_at = 64;

class MalformedReply : public ::testing::TestWithParam<malformed_case> {};

TEST_P(MalformedReply, IsIgnoredAndCounted) {
  scripted_daemon daemon;
  const auto connected = daemon.connect(quick_options());
  const auto bytes = counting_bytes(2);
  client::request request;
  request.bytes = bytes;
  request.frames = 2;
  auto future = connected->submit("double", request);
  const received submit = daemon.expect(message_type::submit);
  std::vector<std::string> parts = result_parts(submit);
  GetParam().spoil(parts);
  daemon.send(submit.from, parts);
  daemon.result(submit);
  EXPECT_EQ(future.get().frames(), 2U);
  EXPECT_EQ(connected->counters().malformed_replies, 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Results, MalformedReply,
    ::testing::Values(malformed_case{"EmptyPart", [](auto& parts) { parts[0].clear(); }},
                      malformed_case{"ShortHeader", [](auto& parts) { parts[0].resize(63); }},
                      malformed_case{"WrongMagic", [](auto& parts) { parts[0][0] = 'X'; }},
                      malformed_case{"UnknownType", [](auto& parts) { parts[0][type_at] = 99; }},
                      malformed_case{"ClientsOwnType", [](auto& parts) { parts[0][type_at] = 16; }},
                      malformed_case{"TooFewTensors", [](auto& parts) { parts[0][tensors_at] = 1; }},
                      malformed_case{"MissingTensorHeader", [](auto& parts) { parts[0].resize(parts[0].size() - 1); }},
                      malformed_case{"OtherFrames", [](auto& parts) { parts[0][frames_at] = 1; }},
                      malformed_case{"UnknownDtype", [](auto& parts) { parts[0][first_tensor_at] = 9; }},
                      malformed_case{"MissingPart", [](auto& parts) { parts.pop_back(); }},
                      malformed_case{"SurplusPart", [](auto& parts) { parts.emplace_back("more"); }},
                      malformed_case{"ShortPart", [](auto& parts) { parts[1].pop_back(); }},
                      malformed_case{"LongPart", [](auto& parts) { parts[2] += '\0'; }},
                      malformed_case{"NoPart", [](auto& parts) { parts.resize(1); }},
                      malformed_case{"TooLittleInOnePart",
                                     [](auto& parts) {
                                       parts = in_one_part(parts);
                                       parts[0].pop_back();
                                     }},
                      malformed_case{"TooMuchInOnePart",
                                     [](auto& parts) {
                                       parts = in_one_part(parts);
                                       parts[0] += '\0';
                                     }},
                      malformed_case{"OneOfTwoInTheFirstPart",
                                     [](auto& parts) {
                                       parts[0] += parts[1];
                                       parts.erase(parts.begin() + 1);
                                     }},
                      malformed_case{"ErrorWithoutBody",
                                     [](auto& parts) {
                                       parts.resize(1);
                                       parts[0][type_at] = 33;
                                       parts[0][43] = 2;
                                     }},
                      malformed_case{"ErrorOfNoKind",
                                     [](auto& parts) {
                                       parts[0][type_at] = 33;
                                       parts.resize(2);
                                       parts[1] = "{}";
                                     }},
                      malformed_case{"WelcomeThatIsNoJson",
                                     [](auto& parts) {
                                       parts[0][type_at] = 2;
                                       parts.resize(2);
                                       parts[1] = "{";
                                     }},
                      malformed_case{"WelcomeThatIsNestedDeep",
                                     [](auto& parts) {
                                       parts[0][type_at] = 2;
                                       parts.resize(2);
                                       parts[1] = std::string(30'000, '[') + std::string(30'000, ']');
                                     }},
                      malformed_case{"WelcomeThatIsTooLong",
                                     [](auto& parts) {
                                       parts[0][type_at] = 2;
                                       parts.resize(2);
                                       parts[1] = "{" + std::string(wire::max_body_bytes, ' ') + "}";
                                     }}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(MalformedStatus, IsIgnoredAndCounted) {
  scripted_daemon daemon;
  const auto connected = daemon.connect(quick_options());
  auto status = std::async(std::launch::async, [&] { return connected->status_json(20s); });
  const received question = daemon.await(message_type::get_status);
  wire::message_header header;
  header.type = message_type::status_report;
  header.request_id = question.header.request_id;
  const std::vector<std::string> bodies{"", "[]", "{",
                                        R"({"a":)" + std::string(20'000, '[') + std::string(20'000, ']') + "}",
                                        "{" + std::string(wire::max_body_bytes, ' ') + "}"};
  for (const std::string& body : bodies) {
    daemon.send(question.from, {test::header_part(header), body});
  }
  daemon.send(question.from, {test::header_part(header), R"({"good":1})"});
  EXPECT_EQ(status.get(), R"({"good":1})");
  EXPECT_EQ(connected->counters().malformed_replies, bodies.size());
}

}  // namespace
}  // namespace penstock::test
