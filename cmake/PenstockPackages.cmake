# Debian packages by CPack, one for each component: ./dev package makes them. Their scripts and texts are in
# deploy/debian.
set(PENSTOCK_MAINTAINER "Penstock maintainers <maintainers@penstock.invalid>" CACHE STRING "Who answers for the packages")
set(PENSTOCK_PACKAGE_RELEASE 1 CACHE STRING "The packages' number of this version")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME penstock)
set(CPACK_PACKAGE_VENDOR "Penstock")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGE_CONTACT "${PENSTOCK_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE "${PENSTOCK_PACKAGE_RELEASE}")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_COMPONENTS_ALL daemon library development python)
if(TARGET penstock-cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()

set(version "${PROJECT_VERSION}-${PENSTOCK_PACKAGE_RELEASE}")
set(debian "${PROJECT_SOURCE_DIR}/deploy/debian")

# penstock_package(COMPONENT NAME SECTION SUMMARY DESCRIPTION): what every package has. Honours SOURCE_DATE_EPOCH.
function(penstock_package component name section summary description)
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_COMPONENT_${key}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  set(changelog "${PROJECT_BINARY_DIR}/generated/changelog.${name}")
  file(CONFIGURE OUTPUT "${changelog}" @ONLY CONTENT
"penstock (${version}) stable; urgency=medium

  * Penstock ${PROJECT_VERSION}: see changelog.gz beside this file.

 -- ${PENSTOCK_MAINTAINER}  ${date}
")
  set(folder "${CMAKE_INSTALL_DATADIR}/doc/${name}")
  penstock_gzipped("${changelog}" "${name}/changelog.Debian" "${folder}" ${component})
  penstock_gzipped("${PROJECT_SOURCE_DIR}/CHANGELOG.md" "${name}/changelog" "${folder}" ${component})
  install(FILES "${debian}/copyright" DESTINATION "${folder}" COMPONENT ${component})
  install(FILES "${debian}/lintian/${name}" DESTINATION "${CMAKE_INSTALL_DATADIR}/lintian/overrides"
    COMPONENT ${component})
endfunction()

penstock_package(daemon penstock net "daemon that puts live data on a GPU"
"Penstock takes frames of live data (samples of a radio, a microphone, a
patient or a machine) over ZeroMQ, runs them in batches through pipelines that
its configuration declares, and gives each result back to whoever sent the
data. It answers every request exactly once.
.
This package holds the daemon penstockd, which runs on the processor alone or,
with the package penstock-cuda, on NVIDIA GPUs, and the command penstock, which
sends recordings, measures, watches and looks for faults.")
penstock_package(library libpenstock${PENSTOCK_LIBRARY_ABI} libs "C++ client of the Penstock daemon"
"Penstock puts live data on a GPU. This library sends frames to its daemon
penstockd over ZeroMQ and brings the results back: it keeps to the credits that
the daemon grants, and gets over restarts and lost connections.
.
This package holds the shared library.")
penstock_package(development libpenstock-dev libdevel "C++ client of the Penstock daemon (development files)"
"Penstock puts live data on a GPU. This library sends frames to its daemon
penstockd over ZeroMQ and brings the results back.
.
This package holds the headers, the static library, and what CMake and
pkg-config need to find them; and the header and examples for plug-ins, which
are operators of your own that the daemon runs.")
penstock_package(python python3-penstock python "Python client of the Penstock daemon"
"Penstock puts live data on a GPU. This module sends numpy arrays to its daemon
penstockd over ZeroMQ, and brings the results back as arrays. Where PyTorch is
installed, it also compiles models for the daemon.")
penstock_package(cuda penstock-cuda net "daemon that puts live data on a GPU (CUDA module)"
"Penstock takes frames of live data over ZeroMQ, runs them in batches through
pipelines, and gives each result back to whoever sent the data.
.
With the module in this package the daemon runs its pipelines on NVIDIA GPUs.
It needs the NVIDIA driver; pipelines with Fourier transforms also need cuFFT
of the CUDA toolkit, and those with matrix products cuBLAS.")

# A module that comes or goes has the daemon restarted, once, after everything else.
set(PENSTOCK_MODULE_PLACE "${CMAKE_INSTALL_FULL_LIBDIR}/penstock")
configure_file("${debian}/daemon/triggers.in" "${PROJECT_BINARY_DIR}/generated/triggers" @ONLY)

set(CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers | systemd-sysusers")
set(CPACK_DEBIAN_DAEMON_PACKAGE_PREDEPENDS "init-system-helpers (>= 1.54~)")
set(CPACK_DEBIAN_DAEMON_PACKAGE_SUGGESTS "penstock-cuda, libopenblas0, libdnnl2")
set(CPACK_DEBIAN_DAEMON_PACKAGE_CONTROL_EXTRA
  "${debian}/daemon/conffiles;${debian}/daemon/postinst;${debian}/daemon/prerm;${debian}/daemon/postrm"
  "${PROJECT_BINARY_DIR}/generated/triggers")
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "penstock (= ${version})")
set(CPACK_DEBIAN_CUDA_PACKAGE_SUGGESTS "libcuda1, libcufft-13-0 | libcufft-12-9 | libcufft11, \
libcublas-13-0 | libcublas-12-9 | libcublaslt12, \
libcudnn9-cuda-13 | libcudnn9-cuda-12, \
cuda-nvrtc-13-0 | cuda-nvrtc-12-9 | libnvrtc12, libnvjitlink-13-0 | libnvjitlink-12-9 | libnvjitlink12")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/library/shlibs" @ONLY CONTENT
"libpenstock ${PENSTOCK_LIBRARY_ABI} libpenstock${PENSTOCK_LIBRARY_ABI} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
  "${PROJECT_BINARY_DIR}/generated/library/shlibs;${debian}/library/triggers")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libpenstock${PENSTOCK_LIBRARY_ABI} (= ${version}), libzmq3-dev")
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9), python3-numpy, python3-zmq")
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA "${debian}/python/postinst;${debian}/python/prerm")

include(CPack)
