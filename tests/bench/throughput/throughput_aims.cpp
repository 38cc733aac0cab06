#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/lowest_row.hpp"
#include "tests/bench/page_text.hpp"
#include "tests/bench/paired_ratio.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/bench/throughput/throughput_page.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

constexpr const char* two_shards = "poll_two_shards";

constexpr std::initializer_list<const char*> daemons{"callback", "poll", "auto"};
constexpr std::initializer_list<const char*> servers_by_hand{"hand", "hand_callback", "hand_poll"};

double rate(const ordered_json& row, const char* who) {
  return median_of(row.at(who), throughput_figure.key);
}

// The best of the daemons with one shard; every row has some.
const char* daemon_of(const ordered_json& row, const compared_figure& by) {
  return best_of(row, daemons, by);
}

paired_ratio beside_hand(const ordered_json& row, const compared_figure& by) {
  return ratio_between(row, daemon_of(row, by), best_of(row, servers_by_hand, by), by);
}

paired_ratio beside_mapped(const ordered_json& row, const compared_figure& by) {
  return ratio_between(row, daemon_of(row, by), "hand_mapped", by);
}

// "tcp, 256 B, 32 clients": what tells a row from the others.
std::string name_of(const ordered_json& row) {
  const auto clients = row.at("clients").get<std::size_t>();
  return fmt::format("{}, {}, {} {}", row.at("transport").get<std::string>(),
                     bytes_text(row.at("bytes").get<std::size_t>()), clients, clients == 1 ? "client" : "clients");
}

// A ratio with its row: how many times as fast, or by how much a request takes longer.
void take_times(lowest_row& to, const ordered_json& row, const paired_ratio& ratio) {
  to.take(ratio.times.median, ratio.times_text(1) + ", " + name_of(row));
}

void take_longer(lowest_row& to, const ordered_json& row, const paired_ratio& ratio) {
  to.take(ratio.times.median, ratio.longer_text() + ", " + name_of(row));
}

// The share of the raw echo that the daemon has, which each turn has told of by itself. That may differ from the share
// by the medians of the turns: then the aim is reached where both reach it.
struct share_of_echo {
  lowest_row by_turns;
  lowest_row by_medians;

  void take(const ordered_json& row, std::initializer_list<const char*> who) {
    const char* better = nullptr;
    for (const char* const each : who) {
      const auto of_turns = [&](const char* name) { return median_of(row.at(name), "of_limit"); };
      better = row.contains(each) && (better == nullptr || of_turns(each) > of_turns(better)) ? each : better;
    }
    if (better != nullptr) {
      const ordered_json& shares = row.at(better).at("of_limit");
      by_turns.take(spread_from(shares).median, figure_text(shares, "%", 100) + ", " + name_of(row));
      const double share = rate(row, best_of(row, who, throughput_figure)) / rate(row, "echo");
      by_medians.take(share, fmt::format("{:.0f} %, {}", 100 * share, name_of(row)));
    }
  }
  [[nodiscard]] bool reaches(double wanted) const noexcept {
    return by_turns.ratio >= wanted && by_medians.ratio >= wanted;
  }
  [[nodiscard]] std::string text(double wanted) const {
    return by_turns.text + (by_turns.ratio >= wanted && !reaches(wanted) ? "; by the medians " + by_medians.text : "");
  }
};

// Beside the echo that libzmq gives whoever asks for nothing, and one with as many I/O threads as the daemon takes.
struct echo_shares {
  share_of_echo plain;
  lowest_row wide;

  void take(const ordered_json& row, std::initializer_list<const char*> who) {
    plain.take(row, who);
    const char* const better = best_of(row, who, throughput_figure);
    if (row.contains("wide_echo") && better != nullptr) {
      const paired_ratio share = ratio_between(row, better, "wide_echo", throughput_figure);
      wide.take(share.times.median, share.share_text() + ", " + name_of(row));
    }
  }
  [[nodiscard]] std::string text(double wanted) const {
    return plain.text(wanted) + (wide.known() ? "; of one with as many I/O threads " + wide.text : "");
  }
};

// A shard has one thread; what it limits, two may lift.
struct shares_by_shards {
  echo_shares one;
  share_of_echo by_default;  // of one, with stream callbacks
  echo_shares two;

  void take(const ordered_json& row) {
    one.take(row, daemons);
    by_default.take(row, {"callback"});
    two.take(row, {two_shards});
  }
  void add_aims(std::vector<aim>& to, const std::string& what, double wanted, const char* held_back) const {
    const auto add = [&](const std::string& with, const echo_shares& shares, const std::string& beside) {
      to.push_back({what + with, fmt::format("≥ {:.0f} %", 100 * wanted), shares.text(wanted) + beside,
                    shares.plain.reaches(wanted), held_back});
    };
    const bool both = two.plain.by_turns.known();
    add(both ? ", one shard" : "", one, "; with callbacks, the default, " + by_default.by_turns.text);
    if (both) {
      add(", two shards", two, "");
    }
  }
};

// Of the rows of 256 B from many clients, and of one request at a time, beside each of the servers by hand.
struct beside_servers {
  lowest_row many;
  lowest_row many_mapped;
  lowest_row single;
  lowest_row single_callback;  // the daemon by default, and a server that is told of its batches in the same way
  lowest_row single_mapped;

  void take_many(const ordered_json& row) {
    take_times(many, row, beside_hand(row, throughput_figure));
    if (row.contains("hand_mapped")) {
      take_times(many_mapped, row, beside_mapped(row, throughput_figure));
    }
  }
  void take_single(const ordered_json& row) {
    take_longer(single, row, beside_hand(row, latency_figure));
    if (row.contains("hand_callback")) {
      take_longer(single_callback, row, ratio_between(row, "callback", "hand_callback", latency_figure));
    }
    if (row.contains("hand_mapped")) {
      take_longer(single_mapped, row, beside_mapped(row, latency_figure));
    }
  }
};

aim aim_of_records(const ordered_json& result) {
  const auto records = result.at("records_a_request").get<double>();
  lowest_row lowest;
  for (const ordered_json& row : result.at("records")) {
    const char* const better = daemon_of(row, throughput_figure);
    lowest.take(rate(row, better) * records,
                figure_text(row.at(better).at("requests_per_second"), "M/s", 1e-6 * records, 2) + ", " + name_of(row));
  }
  return {"256 B records, several to a request, one result each, a shard", "≥ 1 M/s", lowest.text, lowest.ratio >= 1e6};
}

std::vector<aim> aims_on_a_gpu(const ordered_json& result) {
  shares_by_shards large;
  shares_by_shards small;
  beside_servers by_hand;
  for (const ordered_json& row : result.at("rows")) {
    const auto bytes = row.at("bytes").get<std::size_t>();
    if (bytes >= 65536 && bytes <= 1U << 20U) {
      large.take(row);
    }
    if (bytes == 256 && row.at("clients") > 1) {
      small.take(row);
      by_hand.take_many(row);
    }
  }
  for (const ordered_json& row : result.at("one_at_a_time")) {
    by_hand.take_single(row);
  }
  std::vector<aim> made;
  large.add_aims(made, "64 KiB to 1 MiB over ZeroMQ, of the raw echo", 0.9, "0024-replies-client-by-client");
  small.add_aims(made, "256 B, many clients, of the raw echo", 0.8, "0028-small-payloads-in-one-part");
  made.push_back({"256 B, many clients, of the server by hand (the better of callback and polled)", "≥ 5 times",
                  by_hand.many.text, by_hand.many.ratio >= 5});
  made.push_back(aim_of_records(result));
  made.push_back({"one request at a time, beside the server by hand (the better of callback and polled)",
                  "≤ 10 % longer", by_hand.single.text, by_hand.single.ratio >= 1 / 1.1});
  if (by_hand.single_callback.known()) {
    made.push_back(
        {"one request at a time, stream callbacks (the default), beside the server by hand with stream callbacks",
         "≤ 10 % longer", by_hand.single_callback.text, by_hand.single_callback.ratio >= 1 / 1.1});
  }
  if (by_hand.many_mapped.known()) {
    made.push_back({"256 B, many clients, of the server by hand with mapped memory and a flag", "≥ 5 times",
                    by_hand.many_mapped.text, by_hand.many_mapped.ratio >= 5, "0024-replies-client-by-client"});
    made.push_back({"one request at a time, beside the server by hand with mapped memory and a flag", "≤ 10 % longer",
                    by_hand.single_mapped.text, by_hand.single_mapped.ratio >= 1 / 1.1});
  }
  return made;
}

std::vector<aim> aims_on_the_host(const ordered_json& result) {
  constexpr double wanted = 0.7;
  share_of_echo lowest;
  std::size_t rows = 0;
  std::size_t good = 0;
  for (const char* const kind : {"rows", "records"}) {
    for (const ordered_json& row : result.at(kind)) {
      share_of_echo alone;
      alone.take(row, {"callback"});
      good += alone.reaches(wanted) ? 1U : 0U;
      ++rows;
      lowest.take(row, {"callback"});
    }
  }
  return {{"host backend, memory-light pipeline, of the raw echo", "≥ 70 %",
           fmt::format("{}; {} of {} rows", lowest.text(wanted), good, rows), lowest.reaches(wanted),
           "0025-brief-batches-inline"}};
}

}  // namespace

std::vector<aim> throughput_aims(const ordered_json& result) {
  return ran_on(result, "cuda") ? aims_on_a_gpu(result) : aims_on_the_host(result);
}

}  // namespace penstock::bench
