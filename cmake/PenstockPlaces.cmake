# Where `cmake --install` puts things. Configure with CMAKE_INSTALL_PREFIX=/usr for a system's own package: then
# libraries go to the folder of the machine's architecture, and the configuration to /etc. Everywhere else all of it is
# below the prefix, which can be given anew when installing.
include(GNUInstallDirs)

set(PENSTOCK_MODULE_DIR "${CMAKE_INSTALL_LIBDIR}/penstock" CACHE STRING "Where penstock-cuda.so is installed")
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(PENSTOCK_CONFIGURATION_DIR "/etc")
else()
  set(PENSTOCK_CONFIGURATION_DIR "${CMAKE_INSTALL_SYSCONFDIR}")
endif()
set(PENSTOCK_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/penstock")
set(PENSTOCK_PYTHON_DIR "lib/python3/dist-packages" CACHE STRING "Where the Python package is installed")

# The daemon looks for the module from where it lies itself, so that an installed tree can be moved.
file(RELATIVE_PATH PENSTOCK_MODULE_FROM_PROGRAMS "/${CMAKE_INSTALL_BINDIR}" "/${PENSTOCK_MODULE_DIR}")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/penstock_install_places.hpp" @ONLY CONTENT
"#pragma once

namespace penstock {
/// Where `cmake --install` puts penstock-cuda.so, from the folder of the programs.
inline constexpr const char* installed_module_folder = \"@PENSTOCK_MODULE_FROM_PROGRAMS@\";
}  // namespace penstock
")

# The number in libpenstock.so's SONAME and in the name of its package. A break of its binary interface raises it.
set(PENSTOCK_LIBRARY_ABI 1)
