#include "tests/bench/steady/steady_page.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

// Where every sample is 0 nothing was counted, whether or not there was any; runs of before did not look at all.
bool counted(const ordered_json& result, const char* values) {
  if (!result.contains(values)) {
    return false;
  }
  const auto all = result.at(values).get<std::vector<double>>();
  return std::any_of(all.begin(), all.end(), [](double sample) { return sample != 0; });
}

std::string row_of(const ordered_json& result, const char* name, const char* key, const char* values) {
  if (!counted(result, values)) {
    return fmt::format("| {} | | | | | | not counted |\n", name);
  }
  const auto all = result.at(values).get<std::vector<double>>();
  const ordered_json& of = result.at(key);
  const auto [least, most] = std::minmax_element(all.begin(), all.end());
  return fmt::format("| {} | {:.1f} | {:.1f} | {:.1f} | {:+.2f} | {:.2f} | {} |\n", name, *least, *most, all.back(),
                     of.at("gain").get<double>(), of.at("margin").get<double>(),
                     of.at("flat").get<bool>() ? "yes" : "**no**");
}

}  // namespace

std::string steady_tables(const ordered_json& result) {
  return facts_line(result) +
         fmt::format(
             "{:.1f} minutes at full load, {} and {} frames beside each other ({:.0f} and {:.0f} results a second). "
             "After the first fifth a straight line is laid through the samples: what it gains until the end must be "
             "at most {:.0f} % and {:.0f} MiB for resident memory, and a tenth, which is nothing, for the others. "
             "Resident memory and open files are what the kernel counts. What drivers pin it does not, so that pinned "
             "memory and that of the device are what the daemon has allocated and not given back, counted where its "
             "backend does it.\n\n"
             "| | least | most | at the end | gained after warm-up | margin | flat |\n|---|---|---|---|---|---|---|\n",
             result.at("minutes").get<double>(), bytes_text(result.at("small_bytes").get<std::size_t>()),
             bytes_text(result.at("large_bytes").get<std::size_t>()), result.at("small_per_second").get<double>(),
             result.at("large_per_second").get<double>(), 100 * result.at("resident_share").get<double>(),
             result.at("resident_room_mib").get<double>()) +
         row_of(result, "resident memory, MiB", "resident", "resident_mib") +
         row_of(result, "pinned memory, MiB", "pinned", "pinned_mib") +
         row_of(result, "device's memory, MiB", "device_memory", "device_mib") +
         row_of(result, "open files", "files", "open_files");
}

std::vector<chart> steady_charts(const ordered_json& result) {
  const auto seconds = result.at("seconds").get<std::vector<double>>();
  const auto line = [&](const char* name, const char* key) {
    return chart_line{name, seconds, result.at(key).get<std::vector<double>>(), {}, {}};
  };
  chart memory{"Memory under full load", "s", "MiB", false, false, {line("resident", "resident_mib")}};
  if (counted(result, "pinned_mib")) {
    memory.lines.push_back(line("pinned", "pinned_mib"));
  }
  if (counted(result, "device_mib")) {
    memory.lines.push_back(line("device's", "device_mib"));
  }
  return {memory, {"Open files under full load", "s", "files", false, false, {line("open files", "open_files")}}};
}

}  // namespace penstock::bench
