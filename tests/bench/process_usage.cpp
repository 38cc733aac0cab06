#include "tests/bench/process_usage.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace penstock::bench {
namespace {

std::size_t bytes_in(const std::string& line) {
  return std::stoul(line.substr(line.find(':') + 1)) * 1024;
}

}  // namespace

process_usage usage_of(pid_t process) {
  const std::filesystem::path folder = "/proc/" + std::to_string(process);
  process_usage made;
  std::ifstream status(folder / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) {
      made.resident_bytes = bytes_in(line);
    }
  }
  std::error_code gone;
  for (std::filesystem::directory_iterator each(folder / "fd", gone), end; each != end; each.increment(gone)) {
    ++made.open_files;
  }
  return made;
}

}  // namespace penstock::bench
