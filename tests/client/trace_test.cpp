#include <future>

#include <gmock/gmock.h>

#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using wire::message_type;

TEST(Trace, CarriesTheCursorAndBringsTheNext) {
  scripted_daemon daemon;
  const auto connected = daemon.connect(quick_options());
  auto asked = std::async(std::launch::async, [&] { return connected->trace(41, 20s); });
  const received question = daemon.expect(message_type::get_trace);
  EXPECT_EQ(question.header.sequence, 41U);
  wire::message_header header;
  header.type = message_type::trace_report;
  header.request_id = question.header.request_id;
  header.sequence = 44;
  daemon.send(question.from, {header_part(header), R"({"batches":[{},{},{}]})"});
  const trace_page page = asked.get();
  EXPECT_EQ(page.json, R"({"batches":[{},{},{}]})");
  EXPECT_EQ(page.next_cursor, 44U);
}

TEST(Trace, TakesNoOtherAnswer) {
  scripted_daemon daemon;
  const auto connected = daemon.connect(quick_options());
  auto asked = std::async(std::launch::async, [&] { return connected->trace(0, 20s); });
  const received question = daemon.expect(message_type::get_trace);
  EXPECT_EQ(question.header.sequence, 0U);
  wire::message_header header;
  header.type = message_type::status_report;
  header.request_id = question.header.request_id;
  daemon.send(question.from, {header_part(header), "{}"});
  header.type = message_type::trace_report;
  daemon.send(question.from, {header_part(header), R"({"batches":[]})"});
  EXPECT_EQ(asked.get().json, R"({"batches":[]})");
  EXPECT_EQ(connected->counters().malformed_replies, 1U);
}

}  // namespace
}  // namespace penstock::test
