#pragma once

#include <string>
#include <string_view>

#include "daemon/pipeline/plan.hpp"

namespace penstock {

/// A plan for a person in a terminal, UTF-8: what a batch is, its steps in the order in which they are enqueued, where
/// its buffers lie and which share memory, and how much memory it takes. `device` says what it was compiled for.
[[nodiscard]] std::string print_plan(const plan& what, std::string_view device);

/// The same steps as a graph for Graphviz' dot: a node for each, coloured by its lane, with an edge for each buffer
/// that it reads and a dashed one for each event that it waits for; dotted ones say what else stands in order on a
/// lane.
[[nodiscard]] std::string print_plan_graph(const plan& what, std::string_view device);

}  // namespace penstock
