#pragma once

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// The facts of the machine that a figure needs beside it: processor, cores, kernel, libzmq, date.
[[nodiscard]] nlohmann::ordered_json machine_facts();

}  // namespace penstock::bench
