#include "tests/bench/page.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/bench/devices_page.hpp"
#include "tests/bench/fairness_page.hpp"
#include "tests/bench/overlap_page.hpp"
#include "tests/bench/round_trip_page.hpp"
#include "tests/bench/timing_page.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

constexpr const char* introduction =
    "# Benchmarks\n\n"
    "Made by `./dev bench`, which runs `penstock-bench` and renders every figure in `docs/benchmarks/` into this "
    "page.\n"
    "Every run measures its own limit, interleaved with the daemon; only the ratios and differences travel from one\n"
    "machine to another.\n";

constexpr const char* round_trip_introduction =
    "The limit is a raw ROUTER/DEALER echo over TCP on the loopback address. The pipeline is one `affine` stage on "
    "f32,\n"
    "so that as many bytes come back as went in; one client, one frame a request.\n\n";

constexpr const char* kinds[] = {"round_trip", "overlap", "devices", "fairness", "timing"};

std::string section_of(const ordered_json& result, const std::string& file) {
  const auto kind = result.at("benchmark").get<std::string>();
  const auto device = result.at("device").at("name").get<std::string>();
  if (kind == "round_trip") {
    return "\n## Round trip: " + device + "\n\n" + round_trip_introduction + round_trip_tables(result);
  }
  if (kind == "overlap") {
    const bool drawn = !file.empty() && !result.at("timeline").empty();
    const std::string drawing = "benchmarks/" + std::filesystem::path(file).stem().string() + ".svg";
    return "\n## Overlap: " + device + "\n\n" + overlap_tables(result, drawn ? drawing : "");
  }
  if (kind == "devices") {
    return "\n## Several devices: " + device + "\n\n" + devices_tables(result);
  }
  if (kind == "fairness") {
    return "\n## Fairness: " + device + "\n\n" + fairness_tables(result);
  }
  if (kind == "timing") {
    return "\n## The cost of timing: " + device + "\n\n" + timing_tables(result);
  }
  throw std::runtime_error(file + " is of an unknown benchmark, '" + kind + "'");
}

std::ptrdiff_t place_of(const ordered_json& result) {
  return std::find(std::begin(kinds), std::end(kinds), result.at("benchmark").get<std::string>()) - std::begin(kinds);
}

}  // namespace

ordered_json read_result(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) {
    throw std::runtime_error("cannot read " + file);
  }
  return ordered_json::parse(stream);
}

std::string page_of(const std::vector<std::string>& json_files) {
  std::vector<std::pair<std::string, ordered_json>> results;
  for (const std::string& file : json_files) {
    results.emplace_back(file, read_result(file));
  }
  std::stable_sort(results.begin(), results.end(),
                   [](const auto& a, const auto& b) { return place_of(a.second) < place_of(b.second); });
  std::string page = introduction;
  for (const auto& [file, result] : results) {
    page += section_of(result, file);
  }
  return page;
}

std::string tables_of(const ordered_json& result) {
  return section_of(result, "");
}

}  // namespace penstock::bench
