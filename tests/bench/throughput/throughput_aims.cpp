#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/page_text.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/bench/throughput/throughput_page.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

constexpr const char* two_shards = "poll_two_shards";

double rate(const ordered_json& row, const char* who) {
  return median_of(row.at(who), "requests_per_second");
}

double speed(const ordered_json& row, const char* who) {
  return 1 / median_of(row.at(who), "latency_p50_us");
}

using figure = double (*)(const ordered_json& row, const char* who);

// The best of those contenders that the row has.
double best(const ordered_json& row, std::initializer_list<const char*> of, figure what) {
  double most = 0;
  for (const char* const each : of) {
    most = row.contains(each) ? std::max(most, what(row, each)) : most;
  }
  return most;
}

double daemon(const ordered_json& row, figure what) {
  return best(row, {"callback", "poll", "auto"}, what);
}

double beside_hand(const ordered_json& row, figure what) {
  return daemon(row, what) / best(row, {"hand", "hand_callback", "hand_poll"}, what);
}

// The lowest of its shares, of those rows that have it.
struct beside_mapped {
  double least = 1e9;

  void take(const ordered_json& row, figure what) {
    if (row.contains("hand_mapped")) {
      least = std::min(least, daemon(row, what) / what(row, "hand_mapped"));
    }
  }
  [[nodiscard]] bool known() const noexcept { return least < 1e9; }
};

// Beside the better of the two that the mode `auto` chooses from.
double beside_better(const ordered_json& row, const char* who, figure what) {
  return what(row, who) / best(row, {"callback", "poll"}, what);
}

// Whether there are so many more of the one kind than of the other that chance does not explain it: two standard
// deviations of their difference, as of counts that know nothing of one another.
bool clearly_more(std::ptrdiff_t these, std::ptrdiff_t those) noexcept {
  const auto difference = static_cast<double>(these - those);
  return difference > 2 * std::sqrt(static_cast<double>(these + those));
}

// Rows whose share is lower than noise of a twentieth explains.
std::ptrdiff_t fall_short(const std::vector<double>& shares) {
  constexpr double noise = 0.05;
  return std::count_if(shares.begin(), shares.end(), [](double share) { return share < 1 - noise; });
}

aim aim_of_auto(const ordered_json& result) {
  std::vector<double> shares;
  std::vector<double> alike;  // of a second polled daemon, whose rows differ from the first one's by noise alone
  const auto take = [&](const ordered_json& row, figure what) {
    shares.push_back(beside_better(row, "auto", what));
    if (row.contains("poll_again")) {
      alike.push_back(beside_better(row, "poll_again", what));
    }
  };
  for (const ordered_json& row : result.at("rows")) {
    take(row, rate);
  }
  for (const ordered_json& row : result.at("one_at_a_time")) {
    take(row, speed);
  }
  const spread all = spread_of(shares);
  std::string reached = fmt::format("{:.2f} times (from {:.2f} to {:.2f}), {} of {} rows less", all.median, all.least,
                                    all.most, fall_short(shares), shares.size());
  if (!alike.empty()) {
    const spread noise = spread_of(alike);
    reached += fmt::format("; another daemon that polls {:.2f} (from {:.2f} to {:.2f}), {} rows", noise.median,
                           noise.least, noise.most, fall_short(alike));
  }
  return {"`completion = \"auto\"` beside the better of the other two",
          alike.empty() ? "never less, but for noise of 5 %"
                        : "in no more rows less by 5 % than another that polls, but for chance",
          reached, alike.empty() ? fall_short(shares) == 0 : !clearly_more(fall_short(shares), fall_short(alike)),
          "0018-completion-by-itself"};
}

// The lowest shares of an echo that the rows of an aim have, with one shard and with two.
struct lowest_shares {
  const char* echo;
  double one = 1e9;
  double two = 1e9;

  void take(const ordered_json& row) {
    if (row.contains(echo)) {
      one = std::min(one, daemon(row, rate) / rate(row, echo));
      two = std::min(two, row.contains(two_shards) ? rate(row, two_shards) / rate(row, echo) : 1e9);
    }
  }
  [[nodiscard]] std::string text() const {
    return two < 1e9 ? fmt::format("{:.0f} % with one shard, {:.0f} % with two", 100 * one, 100 * two)
                     : fmt::format("{:.0f} %", 100 * one);
  }
};

// Of the echo that libzmq gives whoever asks for nothing, and of one with as many I/O threads as the daemon takes.
struct echo_shares {
  lowest_shares plain{"echo"};
  lowest_shares wide{"wide_echo"};

  void take(const ordered_json& row) {
    plain.take(row);
    wide.take(row);
  }
  [[nodiscard]] std::string text() const {
    return plain.text() + (wide.one < 1e9 ? "; of one with as many I/O threads " + wide.text() : "");
  }
  /// With so many shards, `share` of lowest_shares.
  [[nodiscard]] std::string text(double lowest_shares::*share) const {
    const std::string beside_wide = fmt::format("; of one with as many I/O threads {:.0f} %", 100 * wide.*share);
    return fmt::format("{:.0f} %", 100 * plain.*share) + (wide.*share < 1e9 ? beside_wide : "");
  }
};

// A shard has one thread; what it limits, two lift.
void add_small_aims(std::vector<aim>& to, const echo_shares& small) {
  constexpr double wanted = 0.8;
  const std::string what = "256 B, many clients, of the raw echo";
  const auto add = [&](const std::string& with, double lowest_shares::*share) {
    to.push_back(
        {what + with, "≥ 80 %", small.text(share), small.plain.*share >= wanted, "0028-small-payloads-in-one-part"});
  };
  const bool both = small.plain.two < 1e9;
  add(both ? ", one shard" : "", &lowest_shares::one);
  if (both) {
    add(", two shards", &lowest_shares::two);
  }
}

std::vector<aim> aims_on_a_gpu(const ordered_json& result) {
  echo_shares large;
  echo_shares small;
  double by_hand = 1e9;
  beside_mapped by_mapped;
  beside_mapped single_mapped;
  for (const ordered_json& row : result.at("rows")) {
    const auto bytes = row.at("bytes").get<std::size_t>();
    if (bytes >= 65536 && bytes <= 1U << 20U) {
      large.take(row);
    }
    if (bytes == 256 && row.at("clients") > 1) {
      small.take(row);
      by_hand = std::min(by_hand, beside_hand(row, rate));
      by_mapped.take(row, rate);
    }
  }
  double records = 1e12;
  for (const ordered_json& row : result.at("records")) {
    records = std::min(records, daemon(row, rate) * result.at("records_a_request").get<double>());
  }
  double single = 1e9;
  for (const ordered_json& row : result.at("one_at_a_time")) {
    single = std::min(single, beside_hand(row, speed));
    single_mapped.take(row, speed);
  }
  std::vector<aim> made{{"64 KiB to 1 MiB over ZeroMQ, of the raw echo", "≥ 90 %", large.text(), large.plain.one >= 0.9,
                         "0024-replies-client-by-client"}};
  add_small_aims(made, small);
  made.push_back({"256 B, many clients, of the server by hand (the better of callback and polled)", "≥ 5 times",
                  fmt::format("{:.1f} times", by_hand), by_hand >= 5});
  made.push_back({"256 B records, several to a request, one result each, a shard", "≥ 1 M/s",
                  fmt::format("{:.2f} M/s", 1e-6 * records), records >= 1e6});
  made.push_back({"one request at a time, beside the server by hand (the better of callback and polled)",
                  "≤ 10 % longer", fmt::format("{:+.0f} %", 100 * (1 / single - 1)), single >= 1 / 1.1});
  if (by_mapped.known()) {
    made.push_back({"256 B, many clients, of the server by hand with mapped memory and a flag", "≥ 5 times",
                    fmt::format("{:.1f} times", by_mapped.least), by_mapped.least >= 5,
                    "0024-replies-client-by-client"});
    made.push_back({"one request at a time, beside the server by hand with mapped memory and a flag", "≤ 10 % longer",
                    fmt::format("{:+.0f} %", 100 * (1 / single_mapped.least - 1)), single_mapped.least >= 1 / 1.1});
  }
  if (result.at("rows").at(0).contains("auto")) {
    made.push_back(aim_of_auto(result));
  }
  return made;
}

std::vector<aim> aims_on_the_host(const ordered_json& result) {
  std::vector<double> shares;
  for (const char* const rows : {"rows", "records"}) {
    for (const ordered_json& row : result.at(rows)) {
      shares.push_back(rate(row, "callback") / rate(row, "echo"));
    }
  }
  constexpr double wanted = 0.7;
  const auto good = std::count_if(shares.begin(), shares.end(), [](double share) { return share >= wanted; });
  const spread all = spread_of(shares);
  return {{"host backend, memory-light pipeline, of the raw echo", "≥ 70 %",
           fmt::format("{:.0f} to {:.0f} %, {} of {} rows", 100 * all.least, 100 * all.most, good, shares.size()),
           all.least >= wanted, "0025-brief-batches-inline"}};
}

}  // namespace

std::vector<aim> throughput_aims(const ordered_json& result) {
  return ran_on(result, "cuda") ? aims_on_a_gpu(result) : aims_on_the_host(result);
}

}  // namespace penstock::bench
