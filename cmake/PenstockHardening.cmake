# What a program that listens to a network is compiled with, in builds that are meant to run: Debian's own flags.
include(CheckPIESupported)
check_pie_supported(OUTPUT_VARIABLE pie_output LANGUAGES CXX)
if(NOT CMAKE_CXX_LINK_PIE_SUPPORTED)
  message(STATUS "Penstock: programs are linked without -pie: ${pie_output}")
endif()

set(penstock_release "$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>")
target_compile_options(penstock_options INTERFACE
  "$<${penstock_release}:-fstack-protector-strong;-fstack-clash-protection;-Wformat;-Werror=format-security>"
  "$<${penstock_release}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>"
  # No path of the machine that builds is left in what is built.
  "$<${penstock_release}:-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.>")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(penstock_options INTERFACE "$<${penstock_release}:-fcf-protection>")
endif()
target_link_options(penstock_options INTERFACE "$<$<CONFIG:Release>:LINKER:-z,relro,-z,now>")
