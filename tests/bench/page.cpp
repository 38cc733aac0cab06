#include "tests/bench/page.hpp"

#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "tests/bench/round_trip_page.hpp"

namespace penstock::bench {
namespace {

constexpr const char* introduction =
    "# Benchmarks\n\n"
    "Made by `./dev bench`, which runs `penstock-bench` and renders every figure in `docs/benchmarks/` into this "
    "page.\n"
    "Every run measures its own limit, a raw ROUTER/DEALER echo over TCP on the loopback address, interleaved with "
    "the\n"
    "daemon; only the ratios and differences travel from one machine to another. The pipeline is one `affine` stage "
    "on\n"
    "f32, so that as many bytes come back as went in; one client, one frame a request.\n";

}  // namespace

std::string page_of(const std::vector<std::string>& json_files) {
  std::string page = introduction;
  for (const std::string& name : json_files) {
    std::ifstream file(name);
    if (!file) {
      throw std::runtime_error("cannot read " + name);
    }
    const auto result = nlohmann::ordered_json::parse(file);
    page +=
        "\n## Round trip: " + result.at("device").at("name").get<std::string>() + "\n\n" + round_trip_tables(result);
  }
  return page;
}

}  // namespace penstock::bench
