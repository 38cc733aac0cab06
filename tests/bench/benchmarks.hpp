#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/harness.hpp"

// One function a benchmark; NAME.cpp defines it and describes what it measures. They return what harness.hpp's
// new_result begins. Those that need a GPU throw no_gpu without one, and are missing from a build without CUDA.

namespace penstock::bench {

using run_benchmark = nlohmann::ordered_json(const bench_options&);

run_benchmark run_zmq;
run_benchmark run_micro;
run_benchmark run_throughput;
run_benchmark run_modes;
run_benchmark run_shared;
run_benchmark run_latency;
run_benchmark run_overload;
run_benchmark run_growth;
run_benchmark run_steady;
run_benchmark run_overlap;
run_benchmark run_fairness;
run_benchmark run_devices;
run_benchmark run_timing;
run_benchmark run_live;
run_benchmark run_operators;
run_benchmark run_link;
run_benchmark run_completion;
run_benchmark run_isolation;

}  // namespace penstock::bench
