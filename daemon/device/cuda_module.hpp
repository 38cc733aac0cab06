#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daemon/device/cuda_module_table.hpp"

namespace penstock {

/// Loads penstock-cuda.so, for good: it is never unloaded, since devices and errors made by it have their code there.
/// Throws device_error, which says where it looked and what to do.
[[nodiscard]] const cuda_module_table& load_cuda_module();

/// Of the streams of the CUDA device of that number. Throws device_error.
[[nodiscard]] stream_priority_range cuda_priorities(int id);

/// Where it looks, in this order: PENSTOCK_CUDA_MODULE alone if that is set, else beside the executable, in
/// where `cmake --install` puts it, in ../lib/penstock, in .. and in ../bin from there.
[[nodiscard]] std::vector<std::filesystem::path> cuda_module_places();

/// Throws device_error unless the module at `path` was built for this daemon.
void require_matching_module(const cuda_module_table& module, const std::string& path);

}  // namespace penstock
