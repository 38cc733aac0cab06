# What `cmake --install` puts where, but for the C++ library (client/cpp). The components are the packages: daemon,
# cuda, library, development, python.
find_program(PENSTOCK_GZIP gzip)

# penstock_gzipped(SOURCE NAME FOLDER COMPONENT): installs SOURCE as FOLDER/NAME.gz; the same bytes whenever it is made.
function(penstock_gzipped source name folder component)
  set(made "${PROJECT_BINARY_DIR}/documents/${name}.gz")
  add_custom_command(OUTPUT "${made}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/documents"
    COMMAND "${PENSTOCK_GZIP}" -9 -n -c "${source}" > "${made}" DEPENDS "${source}" VERBATIM)
  set_property(GLOBAL APPEND PROPERTY penstock_documents "${made}")
  install(FILES "${made}" DESTINATION "${folder}" COMPONENT ${component})
endfunction()

# penstock_unit(SOURCE NAME FOLDER): a file of the service manager, with the daemon where this build installs it.
function(penstock_unit source name folder)
  set(from "${PROJECT_SOURCE_DIR}/deploy/systemd/${source}")
  file(READ "${from}" text)
  string(REPLACE "/usr/bin/penstock" "${CMAKE_INSTALL_FULL_BINDIR}/penstock" text "${text}")
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/generated/${name}" CONTENT "${text}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${from}")
  install(FILES "${PROJECT_BINARY_DIR}/generated/${name}" DESTINATION "${folder}" COMPONENT daemon)
endfunction()

# penstock_pages(PAGE...): pages of the tree, each installed where it stands in the tree, so that their links to one
# another hold. A link to what is not installed would lead nowhere: its words stay.
function(penstock_pages)
  set(elsewhere "(docs/)?benchmarks.md|deploy/[^)]*|CONTRIBUTING.md|CHANGELOG.md")
  foreach(page IN LISTS ARGN)
    set(made "${PROJECT_BINARY_DIR}/documents/${page}")
    file(READ "${PROJECT_SOURCE_DIR}/${page}" text)
    string(REGEX REPLACE "\\[([^]]+)\\]\\((\\.\\./)*(${elsewhere})(#[^)]*)?\\)" "\\1" text "${text}")
    file(WRITE "${made}" "${text}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${page}")
    cmake_path(GET page PARENT_PATH folder)
    install(FILES "${made}" DESTINATION "${CMAKE_INSTALL_DOCDIR}/${folder}" COMPONENT daemon)
  endforeach()
endfunction()

set(deploy "${PROJECT_SOURCE_DIR}/deploy")

install(TARGETS penstockd penstock RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT daemon)
if(TARGET penstock-cuda)
  install(TARGETS penstock-cuda LIBRARY DESTINATION "${PENSTOCK_MODULE_DIR}" COMPONENT cuda)
endif()
install(FILES "${deploy}/config/penstock.toml" DESTINATION "${PENSTOCK_CONFIGURATION_DIR}/penstock" COMPONENT daemon)
install(FILES "${deploy}/config/minimal.toml" DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples" COMPONENT daemon)

install(DIRECTORY "${deploy}/examples/live" "${deploy}/examples/gallery"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples" COMPONENT daemon)

penstock_unit(penstockd.service penstockd.service lib/systemd/system)
penstock_unit(penstockd@.service penstockd@.service lib/systemd/system)
penstock_unit(penstock.sysusers penstock.conf lib/sysusers.d)
install(FILES "${deploy}/systemd/penstock.default" DESTINATION "${PENSTOCK_CONFIGURATION_DIR}/default"
  RENAME penstock COMPONENT daemon)

penstock_gzipped("${deploy}/man/penstockd.8" penstockd.8 "${CMAKE_INSTALL_MANDIR}/man8" daemon)
penstock_gzipped("${deploy}/man/penstock.1" penstock.1 "${CMAKE_INSTALL_MANDIR}/man1" daemon)
penstock_gzipped("${deploy}/man/penstock.toml.5" penstock.toml.5 "${CMAKE_INSTALL_MANDIR}/man5" daemon)

set(shells "${deploy}/completions")
install(FILES "${shells}/penstock.bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
  RENAME penstock COMPONENT daemon)
install(FILES "${shells}/penstockd.bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
  RENAME penstockd COMPONENT daemon)
install(FILES "${shells}/_penstock" "${shells}/_penstockd"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions" COMPONENT daemon)
install(FILES "${shells}/penstock.fish" "${shells}/penstockd.fish"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" COMPONENT daemon)

file(GLOB documents RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/docs/*.md" "${PROJECT_SOURCE_DIR}/docs/decisions/*.md")
list(FILTER documents EXCLUDE REGEX "(benchmarks|0000-template)\\.md$")  # for those who work on the tree
penstock_pages(README.md SECURITY.md proto/PROTOCOL.md ${documents})
install(FILES "${PROJECT_SOURCE_DIR}/docs/penstock.svg" DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs" COMPONENT daemon)
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")  # a package says it in its file `copyright`
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT daemon)
endif()

# The Python package has its version in a file of its own, so that pip can build it alone.
set(python "${PROJECT_SOURCE_DIR}/client/python")
file(STRINGS "${python}/src/penstock/version.py" python_version REGEX "^__version__")
if(NOT python_version STREQUAL "__version__ = \"${PROJECT_VERSION}\"")
  message(FATAL_ERROR "Penstock: ${python}/src/penstock/version.py says ${python_version}, not ${PROJECT_VERSION}")
endif()
install(DIRECTORY "${python}/src/penstock" DESTINATION "${PENSTOCK_PYTHON_DIR}" COMPONENT python
  FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY "${deploy}/examples/models" COMPONENT python
  DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/python3-penstock/examples" FILES_MATCHING PATTERN "*.py")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/penstock-${PROJECT_VERSION}.egg-info" @ONLY CONTENT
"Metadata-Version: 2.1
Name: penstock
Version: @PROJECT_VERSION@
Summary: Client of Penstock, a daemon that puts live data on a GPU
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy>=1.21
Requires-Dist: pyzmq>=22
")
install(FILES "${PROJECT_BINARY_DIR}/generated/penstock-${PROJECT_VERSION}.egg-info"
  DESTINATION "${PENSTOCK_PYTHON_DIR}" COMPONENT python)

include(PenstockPackages)

get_property(documents GLOBAL PROPERTY penstock_documents)
add_custom_target(penstock_documents ALL DEPENDS ${documents})
