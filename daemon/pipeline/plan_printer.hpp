#pragma once

#include <string>
#include <string_view>

#include "daemon/pipeline/plan.hpp"

namespace penstock {

/// A plan as text for a terminal, UTF-8: the batch, its steps in the order in which they are enqueued, its buffers and
/// which of them share memory, and its memory in all. `device` says what it was compiled for.
[[nodiscard]] std::string print_plan(const plan& shown, std::string_view device);

/// The same steps as a graph for Graphviz' dot: a node a step, coloured by its lane; an edge for each buffer that it
/// reads, a dashed one for each event that it waits for, dotted ones for the rest of a lane's order.
[[nodiscard]] std::string print_plan_graph(const plan& shown, std::string_view device);

}  // namespace penstock
