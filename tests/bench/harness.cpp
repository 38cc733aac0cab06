#include "tests/bench/harness.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include <sys/utsname.h>
#include <unistd.h>
#include <zmq.hpp>

#include "base/process_limits.hpp"
#include "daemon/doctor/facts.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::bench {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) {
      return line.substr(line.find(": ") + 2);
    }
  }
  return "unknown";
}

// Rounded to a tenth.
double memory_gib() {
  const double bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return std::round(10 * std::ldexp(bytes, -30)) / 10;
}

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now))};
}

}  // namespace

void interleave(const bench_options& options, const std::string& name, const std::function<void(int repeat)>& turn) {
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    turn(repeat);
    std::fprintf(stderr, "\r%s: repeat %d of %d   ", name.c_str(), repeat + 1, options.repeats);
  }
  std::fputc('\n', stderr);
}

nlohmann::ordered_json new_result(const char* name, const bench_options& options, nlohmann::ordered_json device) {
  return {
      {"benchmark", name}, {"machine", machine_facts()}, {"device", std::move(device)}, {"repeats", options.repeats}};
}

nlohmann::ordered_json machine_facts() {
  utsname system{};
  ::uname(&system);
  const auto [major, minor, patch] = zmq::version();
  nlohmann::ordered_json facts = {
      {"date", today()},
      {"commit", built_from()},
      {"processor", processor()},
      {"cores", read_machine_share().processors},
      {"memory_gib", memory_gib()},
      {"kernel", system.release},
      {"libzmq", std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch)}};
  if (const std::string driver = read_driver().version; !driver.empty()) {
    facts["nvidia_driver"] = driver;
  }
  return facts;
}

nlohmann::ordered_json device_of(const std::string& endpoint) {
  return testing::raw_peer(endpoint).status().at("device");
}

nlohmann::ordered_json no_device() {
  return {{"backend", "no"}, {"name", "this machine"}, {"detail", "no device takes part"}};
}

}  // namespace penstock::bench
