#include "daemon/admin/http/pipeline_metrics.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <string_view>
#include <vector>

#include "daemon/admin/http/rise.hpp"
#include "daemon/timeline/batch_record.hpp"
#include "proto/status.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;

// 1, 2.5 and 5 times each power of ten.
constexpr std::size_t time_bounds = 19;
constexpr std::array<nanoseconds, time_bounds> bounds_from(nanoseconds first) {
  std::array<nanoseconds, time_bounds> bounds{};
  for (std::size_t each = 0; each < time_bounds; ++each) {
    bounds[each] = each % 3 == 0 ? first : each % 3 == 1 ? first * 5 / 2 : first * 5;
    first *= each % 3 == 2 ? 10 : 1;
  }
  return bounds;
}
constexpr auto request_bounds = bounds_from(std::chrono::microseconds{10});  // to 10 s
constexpr auto batch_bounds = bounds_from(std::chrono::microseconds{1});     // to 1 s

// Batches of more frames than the last bound are rare enough to be counted together.
constexpr std::size_t size_bounds = 17;

std::vector<double> in_seconds(const std::array<nanoseconds, time_bounds>& bounds) {
  std::vector<double> made;
  for (const nanoseconds each : bounds) {
    // A decimal as short as it is meant.
    made.push_back(static_cast<double>(each.count()) / 1e9);
  }
  return made;
}

std::vector<double> powers_of_two() {
  std::vector<double> made;
  for (std::size_t each = 0; each < size_bounds; ++each) {
    made.push_back(static_cast<double>(std::uint64_t{1} << each));
  }
  return made;
}

std::string lower(std::string_view name) {
  std::string made(name);
  std::transform(made.begin(), made.end(), made.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return made;
}

void observe(prometheus::Histogram& into, const std::array<nanoseconds, time_bounds>& bounds, const time_histogram& now,
             const time_histogram& before) {
  const bool anew = now.count() < before.count();
  const std::vector<std::uint64_t> counts = now.coarse(bounds);
  const std::vector<std::uint64_t> old = anew ? std::vector<std::uint64_t>(counts.size()) : before.coarse(bounds);
  std::vector<double> rises;
  for (std::size_t each = 0; each < counts.size(); ++each) {
    rises.push_back(rise(counts[each], old[each]));
  }
  into.ObserveMultiple(rises, (now.sum_ns() - (anew ? 0 : before.sum_ns())) / 1e9);
}

}  // namespace

pipeline_metrics::pipeline_metrics(prometheus::Registry& into)
    : requests_(prometheus::BuildCounter()
                    .Name("penstock_requests_total")
                    .Help("Accepted requests that ended, by how: result, or the kind of the error.")
                    .Register(into)),
      in_flight_(prometheus::BuildGauge()
                     .Name("penstock_requests_in_flight")
                     .Help("Accepted requests that have not ended.")
                     .Register(into)),
      frames_(
          prometheus::BuildCounter().Name("penstock_frames_total").Help("Frames of accepted requests.").Register(into)),
      batch_frames_(prometheus::BuildHistogram()
                        .Name("penstock_batch_frames")
                        .Help("Frames of a batch that went to the device.")
                        .Register(into)),
      closed_(prometheus::BuildCounter()
                  .Name("penstock_batches_closed_total")
                  .Help("Batches by why they were closed: the device was idle, full, max_delay, another extent, drain.")
                  .Register(into)),
      refused_(prometheus::BuildCounter()
                   .Name("penstock_batches_refused_total")
                   .Help("Batches that the device refused, and whose requests were answered FAILED.")
                   .Register(into)),
      request_times_(prometheus::BuildHistogram()
                         .Name("penstock_request_duration_seconds")
                         .Help("Of each request: queued until its batch's launch, device from there to completion, "
                               "total until its result.")
                         .Register(into)),
      batch_times_(prometheus::BuildHistogram()
                       .Name("penstock_batch_duration_seconds")
                       .Help("Of each batch that was timed, by the device's clock: copy_in, compute, copy_out.")
                       .Register(into)) {}

void pipeline_metrics::take(const shard_answers& shards) {
  for (std::size_t number = 0; number < shards.size(); ++number) {
    if (!shards[number]) {
      continue;
    }
    // Those that it does not serve any more have nothing in flight.
    for (auto at = seen_.lower_bound({number, ""}); at != seen_.end() && at->first.first == number; ++at) {
      at->second.counters.requests.in_flight = 0;
    }
    for (const pipeline_report& now : shards[number]->pipelines) {
      pipeline_report& before = seen_[{number, now.name}];
      take(now, before);
      before = now;
    }
  }
  set_in_flight();
}

void pipeline_metrics::take(const pipeline_report& now, const pipeline_report& before) {
  take_requests(now.name, now.counters.requests, before.counters.requests);
  take_batches(now.name, now.counters, before.counters);
  take_times(now.name, now.timing, before.timing);
}

void pipeline_metrics::take_requests(const std::string& name, const outcome_account& now,
                                     const outcome_account& before) {
  requests_.Add({{"pipeline", name}, {"outcome", "result"}}).Increment(rise(now.results, before.results));
  for (std::size_t kind = 1; kind < wire::status_kinds; ++kind) {
    requests_.Add({{"pipeline", name}, {"outcome", lower(wire::name_of(static_cast<wire::status_kind>(kind)))}})
        .Increment(rise(now.errors[kind], before.errors[kind]));
  }
}

void pipeline_metrics::take_batches(const std::string& name, const pipeline_account& now,
                                    const pipeline_account& before) {
  frames_.Add({{"pipeline", name}}).Increment(rise(now.frames, before.frames));
  for (std::size_t reason = 0; reason < close_reasons; ++reason) {
    closed_.Add({{"pipeline", name}, {"reason", std::string(name_of(static_cast<close_reason>(reason)))}})
        .Increment(rise(now.closed[reason], before.closed[reason]));
  }
  refused_.Add({{"pipeline", name}}).Increment(rise(now.refused, before.refused));
  std::vector<double> rises(size_bounds + 1);
  for (std::size_t each = 0; each < now.batch_sizes.size(); ++each) {
    rises[std::min(each, size_bounds)] += rise(now.batch_sizes[each], before.batch_sizes[each]);
  }
  batch_frames_.Add({{"pipeline", name}}, powers_of_two())
      .ObserveMultiple(rises, rise(now.batched_frames, before.batched_frames));
}

void pipeline_metrics::take_times(const std::string& name, const pipeline_timing& now, const pipeline_timing& before) {
  const auto take_one = [&](auto& family, const auto& bounds, const char* step,
                            time_histogram pipeline_timing::*which) {
    observe(family.Add({{"pipeline", name}, {"step", step}}, in_seconds(bounds)), bounds, now.*which, before.*which);
  };
  take_one(request_times_, request_bounds, "queued", &pipeline_timing::queued);
  take_one(request_times_, request_bounds, "device", &pipeline_timing::device);
  take_one(request_times_, request_bounds, "total", &pipeline_timing::total);
  take_one(batch_times_, batch_bounds, "copy_in", &pipeline_timing::copy_in);
  take_one(batch_times_, batch_bounds, "compute", &pipeline_timing::compute);
  take_one(batch_times_, batch_bounds, "copy_out", &pipeline_timing::copy_out);
}

void pipeline_metrics::set_in_flight() {
  std::map<std::string, std::uint64_t> sums;
  for (const auto& [where, what] : seen_) {
    sums[where.second] += what.counters.requests.in_flight;
  }
  for (const auto& [name, sum] : sums) {
    in_flight_.Add({{"pipeline", name}}).Set(static_cast<double>(sum));
  }
}

}  // namespace penstock
