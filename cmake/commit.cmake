# cmake -DSOURCE=TREE -DGIT=PROGRAM -DTO=FILE -P cmake/commit.cmake: writes a C++ source that knows the commit of the tree,
# and leaves the file alone when it says so already. "-dirty" follows where a tracked file that a build reads has changed;
# documents are none of those. A tree that is no checkout has no commit.
cmake_minimum_required(VERSION 3.25)

# Another repository that a caller of ours works on, as git's own hooks do, is not meant; nor is another's lock.
foreach(name GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_PREFIX)
  unset(ENV{${name}})
endforeach()
set(ENV{GIT_OPTIONAL_LOCKS} 0)

# In a tree without one of its own git would find the repository around it.
set(commit "unknown")
if(GIT AND EXISTS "${SOURCE}/.git")
  execute_process(COMMAND "${GIT}" -C "${SOURCE}" rev-parse --short=10 HEAD
    OUTPUT_VARIABLE hash RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND "${GIT}" -C "${SOURCE}" status --porcelain --untracked-files=no -- . ":(exclude)docs"
      ":(exclude)*.md"
    OUTPUT_VARIABLE changed RESULT_VARIABLE failed_too ERROR_QUIET)
  if(failed EQUAL 0 AND failed_too EQUAL 0)
    set(commit "${hash}")
    if(NOT changed STREQUAL "")
      string(APPEND commit "-dirty")
    endif()
  endif()
endif()

file(CONFIGURE OUTPUT "${TO}" @ONLY CONTENT
"#include \"tests/bench/harness.hpp\"

namespace penstock::bench {

const char* built_from() noexcept {
  return \"@commit@\";
}

}  // namespace penstock::bench
")
