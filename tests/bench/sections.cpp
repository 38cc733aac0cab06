#include "tests/bench/sections.hpp"

#include <algorithm>
#include <stdexcept>

#include "tests/bench/completion/completion_page.hpp"
#include "tests/bench/devices/devices_page.hpp"
#include "tests/bench/fairness/fairness_page.hpp"
#include "tests/bench/growth/growth_page.hpp"
#include "tests/bench/isolation/isolation_page.hpp"
#include "tests/bench/latency/latency_page.hpp"
#include "tests/bench/link/link_page.hpp"
#include "tests/bench/modes/modes_page.hpp"
#include "tests/bench/operators/operators_page.hpp"
#include "tests/bench/overlap/overlap_page.hpp"
#include "tests/bench/overload/overload_page.hpp"
#include "tests/bench/ring/ring_page.hpp"
#include "tests/bench/round_trip/round_trip_page.hpp"
#include "tests/bench/shared/shared_page.hpp"
#include "tests/bench/steady/steady_page.hpp"
#include "tests/bench/submit/submit_page.hpp"
#include "tests/bench/throughput/throughput_page.hpp"
#include "tests/bench/timing/timing_page.hpp"
#include "tests/bench/zmq/zmq_page.hpp"

namespace penstock::bench {

const std::vector<section>& sections() {
  static const std::vector<section> all{
      {"zmq", "ZeroMQ alone", zmq_tables, zmq_charts},
      {"ring", "The ring", ring_tables, ring_charts},
      {"throughput", "Throughput", throughput_tables, throughput_charts, throughput_aims},
      {"modes", "Completion modes", modes_tables, modes_charts, modes_aims},
      {"shared", "Shared memory", shared_tables, shared_charts, shared_aims},
      {"latency", "Latency under load", latency_tables, latency_charts, latency_aims},
      {"round-trip", "Round trip", round_trip_tables, round_trip_charts},
      {"overlap", "Overlap", overlap_tables, overlap_charts, overlap_aims},
      {"devices", "Several devices", devices_tables, devices_charts, devices_aims},
      {"fairness", "Fairness", fairness_tables, fairness_charts},
      {"overload", "Overload", overload_tables, overload_charts, overload_aims},
      {"growth", "Growth", growth_tables, growth_charts},
      {"steady", "Steady", steady_tables, steady_charts, steady_aims},
      {"timing", "The cost of timing", timing_tables, timing_charts, timing_aims},
      {"link", "The link", link_tables, link_charts},
      {"completion", "Completion", completion_tables, completion_charts},
      {"isolation", "Isolation", isolation_tables, isolation_charts},
      {"submit", "Submitting", submit_tables, submit_charts},
      {"operators", "Operators", operators_tables, operators_charts, operators_aims},
  };
  return all;
}

const section& section_of(const nlohmann::ordered_json& result) {
  const auto name = result.at("benchmark").get<std::string>();
  const auto found =
      std::find_if(sections().begin(), sections().end(), [&](const section& each) { return each.name == name; });
  if (found == sections().end()) {
    throw std::runtime_error("there is no benchmark '" + name + "'");
  }
  return *found;
}

}  // namespace penstock::bench
