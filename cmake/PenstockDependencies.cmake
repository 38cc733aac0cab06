# The libraries of others that Penstock builds on. Found elsewhere: FFTW (kernels/), toml++ (daemon/config/), GoogleTest
# (tests/) and CUDA (PenstockCuda.cmake); nlohmann_json once more in proto/ and tests/proto/. The names in parentheses are
# Debian's packages.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.74 REQUIRED)                    # Asio and Beast, header-only (libboost-dev)
find_package(fmt REQUIRED)                           # (libfmt-dev)
find_package(spdlog REQUIRED)                        # (libspdlog-dev)
find_package(nlohmann_json REQUIRED)                 # (nlohmann-json3-dev)
find_package(CLI11 REQUIRED)                         # (libcli11-dev)
pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq)  # (libzmq3-dev, cppzmq-dev)
pkg_check_modules(minizip REQUIRED IMPORTED_TARGET minizip)  # packages of models are zip files (libminizip-dev)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)    # (libhwloc-dev)
pkg_check_modules(systemd REQUIRED IMPORTED_TARGET libsystemd)  # sd_notify and the journal (libsystemd-dev)
pkg_check_modules(ncursesw REQUIRED IMPORTED_TARGET ncursesw)  # `penstock top` alone (libncurses-dev)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)  # SHA-256 (libsodium-dev, which libzmq3-dev needs)
pkg_check_modules(sndfile REQUIRED IMPORTED_TARGET sndfile)  # `penstock send` and sources of the daemon (libsndfile1-dev)
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)  # (prometheus-cpp-dev)
