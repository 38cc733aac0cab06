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

struct watched {
  const char* name;
  const char* key;
  const char* values;
  const char* unit;
};
constexpr watched all_watched[] = {{"resident memory", "resident", "resident_mib", "MiB"},
                                   {"pinned memory", "pinned", "pinned_mib", "MiB"},
                                   {"device's memory", "device_memory", "device_mib", "MiB"},
                                   {"open files", "files", "open_files", ""}};

std::string row_of(const ordered_json& result, const watched& what) {
  const std::string name = what.name + std::string(*what.unit != '\0' ? ", " : "") + what.unit;
  if (!counted(result, what.values)) {
    return fmt::format("| {} | | | | | | not counted |\n", name);
  }
  const auto all = result.at(what.values).get<std::vector<double>>();
  const ordered_json& of = result.at(what.key);
  const auto [least, most] = std::minmax_element(all.begin(), all.end());
  return fmt::format("| {} | {:.1f} | {:.1f} | {:.1f} | {:+.2f} | {:.2f} | {} |\n", name, *least, *most, all.back(),
                     of.at("gain").get<double>(), of.at("margin").get<double>(),
                     of.at("flat").get<bool>() ? "yes" : "**no**");
}

std::string shared_text(const ordered_json& result) {
  return !result.contains("visits")
             ? ""
             : fmt::format(
                   " A client sends the larger ones in shared memory too ({:.0f} results a second), and after each "
                   "look at the daemon another one comes, attaches shared memory, sends in it and is gone before the "
                   "next look: {} times.",
                   result.at("shared_per_second").get<double>(), result.at("visits").get<int>());
}

}  // namespace

std::string steady_tables(const ordered_json& result) {
  std::string text =
      facts_line(result) +
      fmt::format(
          "{:.1f} minutes at full load, {} and {} frames beside each other ({:.0f} and {:.0f} results a second).{} "
          "After the first fifth a straight line is laid through the samples: what it gains until the end must be "
          "at most {:.0f} % and {:.0f} MiB for resident memory, and a tenth, which is nothing, for the others. "
          "Resident memory and open files are what the kernel counts. What drivers pin it does not, so that pinned "
          "memory and that of the device are what the daemon has allocated and not given back, counted where its "
          "backend does it.\n\n"
          "| | least | most | at the end | gained after warm-up | margin | flat |\n|---|---|---|---|---|---|---|\n",
          result.at("minutes").get<double>(), bytes_text(result.at("small_bytes").get<std::size_t>()),
          bytes_text(result.at("large_bytes").get<std::size_t>()), result.at("small_per_second").get<double>(),
          result.at("large_per_second").get<double>(), shared_text(result),
          100 * result.at("resident_share").get<double>(), result.at("resident_room_mib").get<double>());
  for (const watched& each : all_watched) {
    text += row_of(result, each);
  }
  return text;
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

std::vector<aim> steady_aims(const ordered_json& result) {
  std::string gained;
  bool flat = true;
  for (const watched& each : all_watched) {
    if (counted(result, each.values)) {
      const ordered_json& of = result.at(each.key);
      gained += fmt::format("{}{} {:+.2f}{}{}", gained.empty() ? "" : ", ", each.name, of.at("gain").get<double>(),
                            *each.unit != '\0' ? " " : "", each.unit);
      flat = flat && of.at("flat").get<bool>();
    }
  }
  return {{"memory and open files at full load", "flat for 10 minutes",
           fmt::format("{:.0f} minutes: gained {}", result.at("minutes").get<double>(), gained),
           flat && result.at("minutes").get<double>() >= 10}};
}

}  // namespace penstock::bench
