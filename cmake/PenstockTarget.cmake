# What every target of ours is built with. Each component is a small library of its own, so that an include that
# the design does not allow fails to link, or to be found.
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
target_include_directories(penstock_options INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
target_compile_options(penstock_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual>
  # GCC 12 sees overlaps in the standard library's own string concatenation (its bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
target_link_options(penstock_options INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:$<IF:$<BOOL:$<TARGET_PROPERTY:PENSTOCK_AS_ONE>>,-flto=auto,-fno-lto>>)
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
if(CMAKE_UNITY_BUILD OR PENSTOCK_UNITY)
  # Sources that are compiled together see each other's local names, and are headers of one another to GCC, which may
  # not have types of their own. Libraries are compiled one source at a time as well, where these warnings hold.
  target_compile_options(penstock_options INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-shadow>)
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/version.hpp.in" "${PROJECT_BINARY_DIR}/generated/penstock_version.hpp")

# penstock_library(NAME SOURCES... [LINK libraries...]): a static library of ours.
function(penstock_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK")
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC penstock_options ${arg_LINK})
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

# penstock_as_one(PROGRAM LIBRARY...): in a release the program is optimised across the sources of these libraries. What
# else is linked with them takes them as they are.
function(penstock_as_one program)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR PENSTOCK_SANITIZE)
    return()
  endif()
  foreach(library IN LISTS ARGN)
    target_compile_options(${library} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-flto=auto;-ffat-lto-objects>)
  endforeach()
  set_target_properties(${program} PROPERTIES PENSTOCK_AS_ONE ON)
endfunction()

# penstock_test(NAME SOURCES... [LINK libraries...] [ENVIRONMENT variables...] [LABELS labels...] [RUN_SERIAL]
# [ALONE] [APART sources...] [EACH_APART]): GoogleTest sources. They go into the program PENSTOCK_TEST_PROGRAM, which many
# share, or ALONE into one of their own. Each X_test.cpp is a ctest entry, named as its path below tests/. Those of a
# call are compiled together in unity builds, but for those that are APART: they have local names that others have too.
function(penstock_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RUN_SERIAL;ALONE;EACH_APART" "" "LINK;ENVIRONMENT;LABELS;APART")
  set(program ${name})
  if(PENSTOCK_TEST_PROGRAM AND NOT arg_ALONE)
    set(program ${PENSTOCK_TEST_PROGRAM})
  endif()
  if(NOT TARGET ${program})
    add_executable(${program})
    # By way of this library each archive is linked once: ld takes what it holds for link-time optimisation twice else.
    add_library(${program}_libraries INTERFACE)
    target_link_libraries(${program} PRIVATE penstock_options penstock_test_main ${program}_libraries)
    penstock_off_the_path(${program})
    set_target_properties(${program} PROPERTIES
      UNITY_BUILD_MODE GROUP RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  endif()
  target_link_libraries(${program}_libraries INTERFACE ${arg_LINK})
  # As many in each batch, ten at most.
  set(alike ${arg_UNPARSED_ARGUMENTS})
  list(REMOVE_ITEM alike ${arg_APART})
  list(LENGTH alike count)
  math(EXPR batches "(${count} + 9) / 10")
  set(together 0)
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
    if(NOT arg_EACH_APART AND NOT given IN_LIST arg_APART)
      math(EXPR batch "${together} * ${batches} / ${count}")
      math(EXPR together "${together} + 1")
      set_source_files_properties("${source}" TARGET_DIRECTORY ${program} PROPERTIES UNITY_GROUP "${name}_${batch}")
    endif()
    if(entry MATCHES "_test$")
      add_test(NAME ${entry} COMMAND ${program} "--source=${entry}")
      set_tests_properties(${entry} PROPERTIES
        TIMEOUT 300 ENVIRONMENT "${arg_ENVIRONMENT}" LABELS "${arg_LABELS}" RUN_SERIAL ${arg_RUN_SERIAL})
    endif()
  endforeach()
endfunction()
