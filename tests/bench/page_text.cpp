#include "tests/bench/page_text.hpp"

#include <fmt/format.h>

#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

std::string text_with(const nlohmann::ordered_json& of, const std::string& unit, double scale, int decimals) {
  const spread values = spread_from(of);
  return fmt::format("{:.{}f}{} ({:.{}f}–{:.{}f})", values.median * scale, decimals, unit, values.least * scale,
                     decimals, values.most * scale, decimals);
}

std::string device_text(const nlohmann::ordered_json& device, const nlohmann::ordered_json& machine) {
  const bool has_driver = device.at("backend") == "cuda" && machine.contains("nvidia_driver");
  return fmt::format("{} backend, {} ({}{})", device.at("backend").get<std::string>(),
                     device.at("name").get<std::string>(),
                     has_driver ? "driver " + machine.at("nvidia_driver").get<std::string>() + ", " : "",
                     device.at("detail").get<std::string>());
}

// Older results know neither how much memory there was nor the commit.
std::string machine_text(const nlohmann::ordered_json& machine) {
  return fmt::format(
      "{}, {} cores, {}kernel {}, libzmq {}, {}{}", machine.at("processor").get<std::string>(),
      machine.at("cores").get<int>(),
      machine.contains("memory_gib") ? fmt::format("{} GiB, ", machine.at("memory_gib").get<double>()) : "",
      machine.at("kernel").get<std::string>(), machine.at("libzmq").get<std::string>(),
      machine.contains("commit") ? "commit " + machine.at("commit").get<std::string>() + ", " : "",
      machine.at("date").get<std::string>());
}

}  // namespace

std::string facts_line(const nlohmann::ordered_json& result) {
  return fmt::format(
      "Device: {}. Machine: {}. Median of {} {}interleaved repeats{} (least–most).\n\n",
      device_text(result.at("device"), result.at("machine")), machine_text(result.at("machine")),
      result.at("repeats").get<int>(), result.value("quick", false) ? "short " : "",
      result.contains("turn_ms") ? fmt::format(", in turns of {} ms", result.at("turn_ms").get<int>()) : "");
}

std::string spread_text(const nlohmann::ordered_json& of, double scale, int decimals) {
  return text_with(of, "", scale, decimals);
}

std::string figure_text(const nlohmann::ordered_json& of, const std::string& unit, double scale, int decimals) {
  return text_with(of, " " + unit, scale, decimals);
}

double median_of(const nlohmann::ordered_json& row, const char* key) {
  return spread_from(row.at(key)).median;
}

std::string bytes_text(std::size_t bytes) {
  return bytes < 1024        ? fmt::format("{} B", bytes)
         : bytes < 1U << 20U ? fmt::format("{} KiB", bytes >> 10U)
                             : fmt::format("{} MiB", bytes >> 20U);
}

}  // namespace penstock::bench
