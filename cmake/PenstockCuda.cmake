# Decides whether the CUDA module is built, and says so in one line. Sets PENSTOCK_HAVE_CUDA.
set(PENSTOCK_HAVE_CUDA OFF)
if(NOT PENSTOCK_CUDA STREQUAL "OFF")
  find_program(PENSTOCK_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(PENSTOCK_NVCC)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Machine code for Hopper; PTX that the driver compiles for every other GPU from Turing on.
      set(CMAKE_CUDA_ARCHITECTURES "75-virtual;90-real")
    endif()
    set(CMAKE_CUDA_COMPILER "${PENSTOCK_NVCC}")
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    # CUDA targets take CMAKE_CXX_STANDARD, and CMake 3.25 does not know that nvcc 13 speaks C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    find_package(CUDAToolkit REQUIRED)
    set(PENSTOCK_HAVE_CUDA ON)
    message(STATUS "Penstock: CUDA ${CUDAToolkit_VERSION} found, building penstock-cuda.so")
  elseif(PENSTOCK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "Penstock: PENSTOCK_CUDA=ON, but there is no nvcc (install the CUDA toolkit or set CUDACXX)")
  else()
    message(STATUS "Penstock: no CUDA toolkit on this machine, building without the CUDA module")
  endif()
endif()

# The CUDA module's sources, which tests also link to a runtime that needs no GPU.
set(PENSTOCK_CUDA_MODULE "${PROJECT_SOURCE_DIR}/daemon/device/cuda")
set(PENSTOCK_CUDA_MODULE_SOURCES
  blocking_stream.cpp completion_ring.cpp cuda_context.cpp cuda_device.cpp cuda_memory.cpp cuda_stream.cpp
  kernel_chain.cu module.cpp)
list(TRANSFORM PENSTOCK_CUDA_MODULE_SOURCES PREPEND "${PENSTOCK_CUDA_MODULE}/")

# penstock_cuda_module(NAME FOLDER): a module of these sources, made in that folder.
function(penstock_cuda_module name folder)
  add_library(${name} MODULE ${PENSTOCK_CUDA_MODULE_SOURCES})
  target_include_directories(${name} PRIVATE $<TARGET_PROPERTY:penstock_device,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(${name} PRIVATE penstock_options Threads::Threads ${CMAKE_DL_LIBS})
  # It shows its one entry point and nothing of the CUDA runtime inside it, of which other objects may have their own.
  target_link_options(${name} PRIVATE "-Wl,--version-script=${PENSTOCK_CUDA_MODULE}/module.map")
  set_target_properties(${name} PROPERTIES
    PREFIX "" LIBRARY_OUTPUT_DIRECTORY "${folder}" LINK_DEPENDS "${PENSTOCK_CUDA_MODULE}/module.map")
endfunction()
