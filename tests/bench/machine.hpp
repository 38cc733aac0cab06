#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// The facts that a figure needs beside it: date, commit (of tests/bench/commit.hpp), processor, cores, memory_gib,
/// kernel, libzmq; nvidia_driver where one is loaded.
[[nodiscard]] nlohmann::ordered_json machine_facts();
/// What the daemon there says of its device: backend, name, detail.
[[nodiscard]] nlohmann::ordered_json device_of(const std::string& endpoint);
/// Stands where a benchmark uses none.
[[nodiscard]] nlohmann::ordered_json no_device();

}  // namespace penstock::bench
