# Every library of others that Penstock builds on, found once. The names in parentheses are Debian's packages.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.74 REQUIRED)                    # Asio, header-only (libboost-dev)
find_package(fmt REQUIRED)                           # (libfmt-dev)
find_package(spdlog REQUIRED)                        # (libspdlog-dev)
find_package(nlohmann_json REQUIRED)                 # (nlohmann-json3-dev)
find_package(CLI11 REQUIRED)                         # (libcli11-dev)
pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq)  # (libzmq3-dev, cppzmq-dev)
