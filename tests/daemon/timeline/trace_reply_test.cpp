#include <set>

#include <gtest/gtest.h>

#include "tests/daemon/shard/shard_rig.hpp"

namespace penstock {
namespace {

using testing::guest;
using testing::raw_message;
using testing::shard_rig;
using wire::message_type;

raw_message ask(testing::raw_peer& as, std::uint64_t cursor) {
  wire::message_header header;
  header.type = message_type::get_trace;
  header.request_id = 555;
  header.sequence = cursor;
  as.send({testing::bytes_of(header)});
  return as.receive().value();
}

TEST(TraceReply, TellsOfRequestsThatWereAnsweredAndGoesOnFromItsCursor) {
  shard_rig rig;
  guest client(rig);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    client.submit(id);
    ASSERT_EQ(client.next().header.type, message_type::result);
  }
  const raw_message page = ask(client, 0);
  EXPECT_EQ(page.header.type, message_type::trace_report);
  EXPECT_EQ(page.header.request_id, 555U);
  std::set<std::uint64_t> told;
  const nlohmann::json body = page.json();
  for (const nlohmann::json& batch : body.at("batches")) {
    for (const nlohmann::json& request : batch.at("refs")) {
      told.insert(request.at(2).get<std::uint64_t>());
    }
  }
  EXPECT_TRUE(body.at("batches").at(0).contains("steps"));
  EXPECT_EQ(told, (std::set<std::uint64_t>{1, 2, 3, 4, 5}));
  const raw_message rest = ask(client, page.header.sequence);
  EXPECT_TRUE(rest.json().at("batches").empty());
  EXPECT_EQ(rest.header.sequence, page.header.sequence);
}

TEST(TraceReply, IsForClientsOnly) {
  shard_rig rig;
  testing::raw_peer stranger(rig.endpoint());
  const raw_message got = ask(stranger, 0);
  EXPECT_EQ(got.header.type, message_type::error);
  EXPECT_EQ(got.header.code, wire::status::hello_required);
}

}  // namespace
}  // namespace penstock
