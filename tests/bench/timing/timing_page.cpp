#include "tests/bench/timing/timing_page.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

constexpr double seconds_between_scrapes = 1;  // Prometheus's own default is 15
constexpr double seconds_between_readings = 60;

// What remains of a whole is lost of it.
spread lost(const ordered_json& ratio) {
  const spread left = spread_from(ratio);
  return {1 - left.median, 1 - left.most, 1 - left.least};
}

spread times(const spread& of, double factor) {
  return {of.median * factor, of.least * factor, of.most * factor};
}

// For how long a throughput would have stood still to lose as much as one question did, in milliseconds.
spread lost_ms(const ordered_json& asked) {
  return times(lost(asked.at("ratio")), asked.at("turn_ms").get<double>());
}

// Of the throughput, where the question is asked at that interval.
spread share_of(const ordered_json& asked, double every_seconds) {
  return times(lost_ms(asked), 1e-3 / every_seconds);
}

std::string percent_text(const spread& share, int decimals) {
  return fmt::format("{:.{}f} % ({:.{}f} to {:.{}f})", 100 * share.median, decimals, 100 * share.least, decimals,
                     100 * share.most, decimals);
}

std::string asked_row(const ordered_json& asked, const char* what, double every_seconds, const char* interval) {
  return fmt::format("| {} | {} | {} | {} | {} | {} | {}, {} |\n", what,
                     bytes_text(asked.at("bytes").get<std::size_t>()), spread_text(asked.at("took_ms"), 1, 1),
                     spread_text(asked.at("requests_per_second"), 1e-3, 1), spread_text(asked.at("ratio"), 1, 3),
                     spread_text(to_json(lost_ms(asked)), 1, 2), percent_text(share_of(asked, every_seconds), 2),
                     interval);
}

std::string questions_text(const ordered_json& result) {
  const ordered_json& metrics = result.at("metrics");
  const ordered_json& read = result.at("timeline_read");
  return fmt::format(
             "\nMetrics and the timeline, with as many batches timed as by default. Who asks seldom costs too little "
             "to be seen, so one scrape falls into each of its turns of {} ms, and one reading of the timeline into "
             "each of {} ms; beside them stand as many turns without. What a turn lost is what one question costs, "
             "and divided by the time between two of them it is the part of the throughput. The one that asks runs on "
             "the same machine, over a connection of its own each time: what it takes of the cores is in it, and "
             "where they are few it takes them from load and daemon alike.\n\n"
             "| asked | answer | took ms | requests a second, thousands | of those without | lost each time, ms | "
             "share |\n"
             "|---|---|---|---|---|---|---|\n",
             metrics.at("turn_ms").get<int>(), read.at("turn_ms").get<int>()) +
         asked_row(metrics, "`/metrics`", seconds_between_scrapes, "once a second") +
         asked_row(read, "`/api/v1/trace?last=5s`", seconds_between_readings, "once a minute");
}

std::string kept_text(const ordered_json& kept) {
  return fmt::format(
      "\nCounters, histograms and the timeline are kept always: no setting turns them off, so that there are no turns "
      "without. The counters are plain integers that the shard adds to, and are not measured. The recorder, which "
      "keeps histograms and timeline, is measured by itself on this machine, with batches as large as the daemon's "
      "were: {} ns for a batch of {} requests, which at the daemon's pace is {} of its shard's thread.\n",
      spread_text(kept.at("ns_a_batch"), 1, 0), spread_text(kept.at("requests_a_batch"), 1, 0),
      percent_text(spread_from(kept.at("share")), 2));
}

bool asked_questions(const ordered_json& result) {
  return result.contains("metrics") && result.contains("timeline_read") && result.contains("timeline_kept");
}

spread sum(const spread& a, const spread& b) {
  return {a.median + b.median, a.least + b.least, a.most + b.most};
}

std::vector<aim> aims_of_questions(const ordered_json& result, const spread& timed) {
  if (!asked_questions(result)) {
    return {not_measured("cost of metrics and of the timeline", "< 1 %")};
  }
  const spread scraped = share_of(result.at("metrics"), seconds_between_scrapes);
  const spread read = share_of(result.at("timeline_read"), seconds_between_readings);
  const spread kept = spread_from(result.at("timeline_kept").at("share"));
  const spread both = sum(kept, read);
  const spread all = sum(timed, sum(scraped, both));
  return {{"cost of metrics, scraped once a second", "< 1 %", percent_text(scraped, 2), scraped.median < 0.01},
          {"cost of the timeline, kept always and read once a minute", "< 1 %",
           fmt::format("{}; {:.2f} % of it to keep it, computed", percent_text(both, 2), 100 * kept.median),
           both.median < 0.01},
          {"cost of event timing, metrics and timeline, added up", "< 1 %", percent_text(all, 2), all.median < 0.01}};
}

}  // namespace

std::string timing_tables(const ordered_json& result) {
  std::string text = facts_line(result);
  text += fmt::format(
      "Throughput of requests of {} with {} in flight, through {}. \"every\" asks for every batch; the daemon reads as "
      "many as a part of its thread "
      "allows. The aim is to cost less than 1 %.\n\n"
      "| timing | batches a second | requests a second, thousands | of off |\n|---|---|---|---|\n",
      bytes_text(result.at("bytes").get<std::size_t>()), result.at("in_flight").get<int>(),
      result.value("one_daemon", false)
          ? "one daemon whose `[timing] batches_per_second` is changed by a reload before each turn"
          : "daemons that differ in `[timing] batches_per_second` alone");
  for (const ordered_json& row : result.at("rows")) {
    text += fmt::format("| {} | {} | {} | {} |\n", row.at("timing").get<std::string>(),
                        row.at("batches_per_second").get<std::uint64_t>(),
                        spread_text(row.at("requests_per_second"), 1e-3, 1), spread_text(row.at("ratio"), 1, 3));
  }
  return asked_questions(result) ? text + questions_text(result) + kept_text(result.at("timeline_kept")) : text;
}

std::vector<chart> timing_charts(const ordered_json& result) {
  ordered_json timed = ordered_json::array();
  for (const ordered_json& row : result.at("rows")) {
    if (row.at("batches_per_second").get<std::uint64_t>() > 0) {
      timed.push_back(row);
    }
  }
  chart made{"Throughput beside that without timing", "batches timed a second", "of off", true, false, {}};
  made.lines.push_back(line_of("daemon", timed, "batches_per_second", "/ratio"));
  return {made};
}

std::vector<aim> timing_aims(const ordered_json& result) {
  for (const ordered_json& row : result.at("rows")) {
    if (row.at("timing") == "default") {
      const spread cost = lost(row.at("ratio"));
      std::vector<aim> all{{"cost of event timing alone, as many batches a second as by default", "< 1 %",
                            percent_text(cost, 1), cost.median < 0.01}};
      for (aim& each : aims_of_questions(result, cost)) {
        all.push_back(std::move(each));
      }
      return all;
    }
  }
  return {};
}

}  // namespace penstock::bench
