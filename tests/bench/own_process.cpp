#include "tests/bench/own_process.hpp"

#include <cstdio>
#include <exception>
#include <stdexcept>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::bench {

own_process::own_process(const std::function<void()>& serve) : pid_(::fork()) {
  if (pid_ < 0) {
    throw std::runtime_error("cannot start a process");
  }
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      serve();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "penstock-bench: %s\n", error.what());
    }
    ::_exit(1);
  }
}

own_process::~own_process() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace penstock::bench
