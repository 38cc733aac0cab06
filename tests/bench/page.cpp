#include "tests/bench/page.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"
#include "tests/bench/overlap/timeline_drawing.hpp"
#include "tests/bench/sections.hpp"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* introduction =
    "# Benchmarks\n\n"
    "Made by `./dev bench`, which runs `penstock-bench` and renders every figure in `docs/benchmarks/` into this "
    "page.\n"
    "Where the daemon stands beside a limit of its machine (a raw echo, copies both ways, bare CUDA), the run took\n"
    "turns between the two. Only the ratios and differences travel from one machine to another.\n";

bool has_timeline(const ordered_json& result) {
  return result.contains("timeline") && !result.at("timeline").empty();
}

// What measured no device is named after the processor.
std::string heading_of(const ordered_json& result) {
  const ordered_json& name =
      ran_on(result, "no") ? result.at("machine").at("processor") : result.at("device").at("name");
  return "\n## " + std::string(section_of(result).title) + ": " + name.get<std::string>() + "\n\n";
}

// Where the page, a folder above, finds the drawings of a file.
std::string drawings_of(const ordered_json& result, const std::string& file) {
  const std::string stem = "benchmarks/" + fs::path(file).stem().string();
  std::string text;
  if (!section_of(result).charts(result).empty()) {
    text += "\n![" + std::string(section_of(result).title) + "](" + stem + ".svg)\n";
  }
  if (has_timeline(result)) {
    text += "\nWhat each stream did, by the device's clock:\n\n![timeline](" + stem + "-timeline.svg)\n";
  }
  return text;
}

std::ptrdiff_t place_of(const ordered_json& result) {
  return &section_of(result) - sections().data();
}

void write(const fs::path& file, const std::string& text) {
  if (!(std::ofstream(file) << text)) {
    throw std::runtime_error("cannot write " + file.string());
  }
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
  std::vector<ordered_json> all;
  for (const auto& [file, result] : results) {
    all.push_back(result);
  }
  std::string page = introduction + std::string("\n## Where it stands\n") + aims_table(all) + missing_runs(all);
  for (const auto& [file, result] : results) {
    page += tables_of(result) + drawings_of(result, file);
  }
  return page;
}

std::string tables_of(const ordered_json& result) {
  return heading_of(result) + section_of(result).tables(result);
}

void write_drawings(const std::string& json_file) {
  const ordered_json result = read_result(json_file);
  const fs::path stem = fs::path(json_file).replace_extension();
  if (const std::vector<chart> charts = section_of(result).charts(result); !charts.empty()) {
    write(stem.string() + ".svg", draw_charts(charts));
  }
  if (has_timeline(result)) {
    write(stem.string() + "-timeline.svg", draw_timeline(result.at("timeline")));
  }
}

}  // namespace penstock::bench
