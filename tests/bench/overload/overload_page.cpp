#include "tests/bench/overload/overload_page.hpp"

#include <fmt/format.h>

#include "tests/bench/overload/overload_result.hpp"
#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

std::string refusals_text(const ordered_json& refusals) {
  std::string text;
  for (const auto& [code, count] : refusals.items()) {
    text += (text.empty() ? "" : ", ") + fmt::format("{} {}", count.get<std::uint64_t>(), code);
  }
  return text.empty() ? "none" : text;
}

std::string recovery_text(double seconds) {
  return seconds < 0 ? "not seen" : fmt::format("{:.0f}", 1e3 * seconds);
}

std::string drained_text(const ordered_json& row) {
  return row.contains("drained_s") ? fmt::format("{:.0f}", 1e3 * row.at("drained_s").get<double>()) : "";
}

// The most that the growth may be, in runs that say so.
std::string allowed_text(const ordered_json& row) {
  return row.contains("margin_mib")
             ? fmt::format("{:.3f}", 1 + row.at("margin_mib").get<double>() / row.at("first_half_mib").get<double>())
             : "";
}

std::string told_text(const ordered_json& row) {
  return row.contains("told")
             ? fmt::format("{} of {}", row.at("told").get<std::uint64_t>(), row.at("dropped").get<std::uint64_t>())
             : "";
}

// What is scarce, and what becomes of what is too much.
std::string meaning_of(const std::string& name) {
  return name == "compute"    ? "Compute-bound: the device is scarce; beyond its credits a client is refused."
         : name == "messages" ? "Message-bound: an `affine` stage on small requests, so that sockets and shard are "
                                "scarce; beyond its credits a client is refused."
                              : "`overflow = \"drop-oldest\"`: the device is scarce; beyond its credits a client's "
                                "oldest request that waits is ended with OVERFLOW. \"Told of\": how many of those that "
                                "the daemon counts as dropped a client heard of.";
}

std::string case_table(const ordered_json& result, const ordered_json& of) {
  std::string text = "\n" + meaning_of(of.at("name").get<std::string>());
  if (of.contains("bytes")) {
    text += fmt::format(" Requests of {}, {} credits for a client.", bytes_text(of.at("bytes").get<std::size_t>()),
                        of.at("credits").get<std::size_t>());
  }
  text += fmt::format(
      " The daemon can do {:.0f} a second.\n\n"
      "| offered, of that | sent | results | refused or dropped | without an answer | resident memory MiB | growth | "
      "allowed | told of | normal µs | p50 during ms | recovered after ms | last answer after ms |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      of.at("capacity_per_second").get<double>());
  for (const ordered_json& row : of.at("rows")) {
    text += fmt::format("| {:.2f} | {} | {} | {} | {} | {:.0f} | {:.3f} | {} | {} | {:.0f} | {:.1f} | {} | {} |\n",
                        times_capacity_of(result, of, row), row.at("sent").get<std::uint64_t>(),
                        row.at("results").get<std::uint64_t>(), refusals_text(row.at("refusals")),
                        row.at("unanswered").get<std::uint64_t>(), row.at("resident_mib").back().get<double>(),
                        row.at("resident_growth").get<double>(), allowed_text(row), told_text(row),
                        row.at("normal_us").get<double>(), 1e-3 * row.at("overloaded_us").get<double>(),
                        recovery_text(row.at("recovery_s").get<double>()), drained_text(row));
  }
  return text;
}

std::string failures_text(const ordered_json& result) {
  std::string text;
  for (const ordered_json& each : result.value("failures", ordered_json::array())) {
    text += "- " + each.get<std::string>() + "\n";
  }
  return text.empty() ? "" : "\nWhat does not hold:\n\n" + text;
}

}  // namespace

std::string overload_tables(const ordered_json& result) {
  const ordered_json cases = overload_cases_of(result);
  std::string text = facts_line(result);
  text += fmt::format(
      "{} clients send {:.0f} times what the daemon can do for {:.1f} s, at random times and whatever becomes of "
      "earlier requests: far beyond their credits. The load shares the machine's cores with the daemon; where it can't "
      "offer so much, the table says what it did. Every request must get an answer. Beside them a client sends little, "
      "from before until after: normal is its p90 before, and it has recovered with the first of ten requests in a row "
      "that take at most twice that. What the clients' own sockets still hold when they stop must be served first: the "
      "last "
      "answer says when it was. The growth is the most memory in the second half of the overload beside the most "
      "in the first; allowed are 1 % and what is sent in 50 ms, which the sockets read ahead of a shard that has to "
      "wait for a core. A daemon that kept what it can't do would gain several times that.\n",
      cases.front().at("clients").get<int>(), result.at("times_capacity").get<double>(),
      result.at("seconds").get<double>());
  for (const ordered_json& each : cases) {
    text += case_table(result, each);
  }
  return text + failures_text(result);
}

std::vector<chart> overload_charts(const ordered_json& result) {
  std::vector<chart> made;
  for (const ordered_json& each : overload_cases_of(result)) {
    chart memory{"The daemon's memory: " + each.at("name").get<std::string>(), "s", "resident MiB", false, false, {}};
    for (const ordered_json& row : each.at("rows")) {
      memory.lines.push_back({fmt::format("repeat {}", memory.lines.size() + 1),
                              row.at("memory_s").get<std::vector<double>>(),
                              row.at("resident_mib").get<std::vector<double>>(),
                              {},
                              {}});
    }
    made.push_back(memory);
  }
  return made;
}

}  // namespace penstock::bench
