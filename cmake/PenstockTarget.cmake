# What every target of ours is built with. Each folder is a library that sees its own headers and those of the
# libraries that it links with: any other include does not compile.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE}")
endif()

add_library(penstock_options INTERFACE)
target_include_directories(penstock_options INTERFACE "${PROJECT_BINARY_DIR}/generated")
target_compile_options(penstock_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual>
  # GCC 12 sees overlaps in the standard library's own string concatenation (its bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
target_link_options(penstock_options INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:$<IF:$<BOOL:$<TARGET_PROPERTY:PENSTOCK_LTO>>,-flto=auto,-fno-lto>>)
if(PENSTOCK_WERROR)
  target_compile_options(penstock_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(PENSTOCK_SANITIZE)
  target_compile_options(penstock_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${PENSTOCK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  if(PENSTOCK_SANITIZE MATCHES "address" AND PENSTOCK_SANITIZE MATCHES "undefined")
    # An access through a null pointer AddressSanitizer reports as well, without a check before each.
    target_compile_options(penstock_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null>)
  endif()
  target_link_options(penstock_options INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC loses track of what is initialized where the sanitizers' checks stand between; other builds keep the warning.
    target_compile_options(penstock_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
  if(PENSTOCK_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Asio's headers have fences, which ThreadSanitizer does not model; GCC warns of each.
    target_compile_options(penstock_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-tsan>)
  endif()
endif()
if(PENSTOCK_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PENSTOCK_FUZZ needs Clang, for libFuzzer")
  endif()
  target_compile_options(penstock_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()
# What a program that listens to a network is compiled with, in builds that are meant to run: Debian's own flags.
include(CheckPIESupported)
check_pie_supported(OUTPUT_VARIABLE pie_output LANGUAGES CXX)
if(NOT CMAKE_CXX_LINK_PIE_SUPPORTED)
  message(STATUS "Penstock: programs are linked without -pie: ${pie_output}")
endif()

# Without optimisation, as test programs are compiled, glibc's checks are an error.
set(penstock_release
  "$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:PENSTOCK_QUICK>>>>")
target_compile_options(penstock_options INTERFACE
  "$<${penstock_release}:-fstack-protector-strong;-fstack-clash-protection;-Wformat;-Werror=format-security>"
  "$<${penstock_release}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>"
  # No path of the machine that builds is left in what is built.
  "$<${penstock_release}:-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.>")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(penstock_options INTERFACE "$<${penstock_release}:-fcf-protection>")
endif()
target_link_options(penstock_options INTERFACE "$<$<CONFIG:Release>:LINKER:-z,relro,-z,now>")

if(CMAKE_UNITY_BUILD OR PENSTOCK_UNITY)
  # Sources that are compiled together see each other's local names, and are headers of one another to GCC, which may
  # not have types of their own. Libraries are compiled one source at a time as well, where these warnings hold.
  target_compile_options(penstock_options INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-shadow>)
endif()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/penstock_version.hpp" @ONLY CONTENT
"#pragma once

namespace penstock {
inline constexpr const char* version = \"@PROJECT_VERSION@\";
}  // namespace penstock
")

# penstock_includes(TARGET SCOPE FOLDER): headers of this folder of the tree, and of no other, as "FOLDER/name.hpp".
function(penstock_includes target scope folder)
  string(REPLACE "/" "_" root "${folder}")
  set(root "${PROJECT_BINARY_DIR}/include/${root}")
  cmake_path(GET folder PARENT_PATH above)
  file(MAKE_DIRECTORY "${root}/${above}")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/${folder}" "${root}/${folder}" SYMBOLIC)
  target_include_directories(${target} ${scope} "${root}")
endfunction()

# penstock_library(NAME [FOLDER folder] SOURCES... [LINK libraries...]): a static library of this folder, or of one
# below it.
function(penstock_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER" "LINK")
  cmake_path(APPEND CMAKE_CURRENT_SOURCE_DIR "${arg_FOLDER}" OUTPUT_VARIABLE folder)
  list(TRANSFORM arg_UNPARSED_ARGUMENTS PREPEND "${folder}/" REGEX "^[^/]")  # but for what a build makes
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
  string(REGEX REPLACE "/$" "" folder "${folder}")
  if(folder MATCHES "^tests")
    target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  else()
    penstock_includes(${name} PUBLIC "${folder}")
  endif()
  target_link_libraries(${name} PUBLIC penstock_options ${arg_LINK})
endfunction()

# penstock_path_of_a_frame(PROGRAM LIBRARY...): a release of the program is optimized at link time across these libraries.
# Other programs that link with them use them as they are.
function(penstock_path_of_a_frame program)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR PENSTOCK_SANITIZE)
    return()
  endif()
  foreach(library IN LISTS ARGN)
    target_compile_options(${library} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-flto=auto;-ffat-lto-objects>)
  endforeach()
  set_target_properties(${program} PROPERTIES PENSTOCK_LTO ON)
endfunction()

# penstock_off_the_path(TARGET...): no frame goes through these. Where a sanitizer is on they are not optimised, which
# with its checks between would take a compiler half as long again, or twice as long; and no access is checked for its
# alignment or type, which takes it half as long again, and which is of use where bytes come from elsewhere.
function(penstock_off_the_path)
  foreach(target IN LISTS ARGN)
    if(PENSTOCK_UNITY)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
    endif()
    if(PENSTOCK_SANITIZE)
      target_compile_options(${target} PRIVATE -O0)
    endif()
    if(PENSTOCK_SANITIZE MATCHES "undefined")
      target_compile_options(${target} PRIVATE -fno-sanitize=alignment,vptr)
    endif()
  endforeach()
endfunction()

# penstock_quick(TARGET...): test programs and what they share. Half of a compiler's time is optimisation, and nothing
# is measured in them: a release compiles them without it, as a debug build does.
function(penstock_quick)
  penstock_off_the_path(${ARGN})
  set_target_properties(${ARGN} PROPERTIES PENSTOCK_QUICK ON)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O0>)
  endforeach()
endfunction()

# penstock_test(NAME SOURCES... [LINK libraries...] [ENVIRONMENT variables...] [LABELS labels...] [RUN_SERIAL]
# [ALONE] [APART sources...]): GoogleTest sources. They go into the program PENSTOCK_TEST_PROGRAM, which many share, or
# ALONE into one of their own, optimised as the daemon is. Each X_test.cpp is a ctest entry, named as its path below
# tests/. Those of a call are compiled together in unity builds, but for those that are APART: they have local names
# that others have too.
function(penstock_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RUN_SERIAL;ALONE" "" "LINK;ENVIRONMENT;LABELS;APART")
  set(program ${name})
  if(PENSTOCK_TEST_PROGRAM AND NOT arg_ALONE)
    set(program ${PENSTOCK_TEST_PROGRAM})
  endif()
  if(NOT TARGET ${program})
    add_executable(${program})
    target_include_directories(${program} PRIVATE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${program} PRIVATE penstock_options penstock_test_main)
    if(arg_ALONE)
      penstock_off_the_path(${program})
    else()
      penstock_quick(${program})
    endif()
    set_target_properties(${program} PROPERTIES
      UNITY_BUILD_MODE GROUP RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  endif()
  target_link_libraries(${program} PRIVATE ${arg_LINK})
  # As many in each batch, ten at most.
  set(alike ${arg_UNPARSED_ARGUMENTS})
  list(REMOVE_ITEM alike ${arg_APART})
  list(LENGTH alike count)
  math(EXPR batches "(${count} + 9) / 10")
  set(together 0)
  list(GET arg_UNPARSED_ARGUMENTS 0 first)
  cmake_path(GET first STEM first)
  foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
    set(given "${source}")
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    get_target_property(sources ${program} SOURCES)
    if(source IN_LIST sources)
      continue()
    endif()
    target_sources(${program} PRIVATE "${source}")
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests" OUTPUT_VARIABLE entry)
    cmake_path(REMOVE_EXTENSION entry LAST_ONLY)
    if(NOT given IN_LIST arg_APART)
      math(EXPR batch "${together} * ${batches} / ${count}")
      math(EXPR together "${together} + 1")
      set_source_files_properties("${source}" TARGET_DIRECTORY ${program} PROPERTIES UNITY_GROUP "${first}_${batch}")
    endif()
    if(entry MATCHES "_test$")
      add_test(NAME ${entry} COMMAND ${program} "--source=${entry}")
      set_tests_properties(${entry} PROPERTIES
        TIMEOUT 300 ENVIRONMENT "${arg_ENVIRONMENT}" LABELS "${arg_LABELS}" RUN_SERIAL ${arg_RUN_SERIAL})
    endif()
  endforeach()
endfunction()

# penstock_python_test(FOLDER NAME [LABELS labels...] [TIMEOUT seconds] [PYTHON program] [RUN_SERIAL]): FOLDER/NAME.py of
# this folder, which starts the real daemon. Its label is `system`, and these.
function(penstock_python_test folder name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "RUN_SERIAL" "TIMEOUT;PYTHON" "LABELS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)
  endif()
  if(NOT arg_PYTHON)
    set(arg_PYTHON "${PENSTOCK_PYTHON}")
  endif()
  set(python "${PROJECT_SOURCE_DIR}/client/python/src:${PROJECT_SOURCE_DIR}/tests/system")
  add_test(NAME ${name} COMMAND "${arg_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${name}.py" -v)
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${arg_TIMEOUT} LABELS "system;${arg_LABELS}" RUN_SERIAL ${arg_RUN_SERIAL} ENVIRONMENT
    "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_BUILD=${CMAKE_BINARY_DIR};PYTHONPATH=${python}")
endfunction()
