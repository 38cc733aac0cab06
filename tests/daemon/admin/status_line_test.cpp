#include "daemon/admin/status_line.hpp"

#include <gtest/gtest.h>

#include "tests/support/start.hpp"

namespace penstock {
namespace {

using std::chrono::seconds;
using testing::start;

shard_sign said(shard_pulse pulse) {
  return {.ended = false, .pulse = pulse};
}

TEST(StatusLine, SaysTheRateOfTheTimeSinceTheLastLine) {
  status_line line(start);
  EXPECT_EQ(line.write(start + seconds{5}, {said({.results = 50, .clients = 1, .pipelines = 12})}, false),
            "serving 12 pipelines: 10 results/s, 1 client, 1 shard");
  EXPECT_EQ(line.write(start + seconds{7}, {said({.results = 30518, .clients = 3, .pipelines = 12})}, false),
            "serving 12 pipelines: 15 234 results/s, 3 clients, 1 shard");
}

TEST(StatusLine, AddsTheShardsUp) {
  status_line line(start);
  EXPECT_EQ(line.write(start + seconds{1},
                       {said({.results = 999, .clients = 2, .pipelines = 1}),
                        said({.results = 1, .clients = 0, .pipelines = 1})},
                       false),
            "serving 1 pipeline: 1 000 results/s, 2 clients, 2 shards");
}

TEST(StatusLine, GroupsMillions) {
  status_line line(start);
  EXPECT_EQ(line.write(start + seconds{1}, {said({.results = 1234567, .pipelines = 1})}, false),
            "serving 1 pipeline: 1 234 567 results/s, 0 clients, 1 shard");
}

TEST(StatusLine, CountsNothingInNoTime) {
  status_line line(start);
  EXPECT_EQ(line.write(start, {said({.results = 7, .pipelines = 2})}, false),
            "serving 2 pipelines: 0 results/s, 0 clients, 1 shard");
}

TEST(StatusLine, SaysThatAShardIsSilentAndWhatItLastSaid) {
  status_line line(start);
  const shard_sign busy = said({.results = 100, .clients = 4, .pipelines = 2});
  (void)line.write(start + seconds{1}, {busy, busy}, false);
  EXPECT_EQ(line.write(start + seconds{2}, {busy, {}}, false),
            "serving 2 pipelines: 0 results/s, 8 clients, 2 shards (1 of them silent)");
}

TEST(StatusLine, CountsWhatADrainHasLeft) {
  status_line line(start);
  EXPECT_EQ(line.write(start + seconds{1}, {said({.in_flight = 1200}), said({.in_flight = 1})}, true),
            "draining: 1 201 requests in flight, 2 shards");
  EXPECT_EQ(line.write(start + seconds{2}, {{.ended = true, .pulse = {}}, said({.in_flight = 1})}, true),
            "draining: 1 request in flight, 2 shards");
}

}  // namespace
}  // namespace penstock
