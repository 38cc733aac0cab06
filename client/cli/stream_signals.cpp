#include "client/cli/stream_signals.hpp"

#include <csignal>

#include <unistd.h>

namespace penstock::cli {
namespace {

/// For the signal handler. Set before the handlers are installed.
stop_event* asked = nullptr;

extern "C" void stop_on_signal(int signal) {
  if (!asked->request(signal)) {
    ::_exit(128 + signal);  // the second signal: leave at once; the files are valid
  }
}

}  // namespace

void end_stream_on_signals(stop_event& stop) {
  asked = &stop;
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(each, nullptr, &before);
    if (before.sa_handler != SIG_IGN) {
      struct sigaction handler {};
      handler.sa_handler = &stop_on_signal;
      sigaction(each, &handler, nullptr);
    }
  }
}

}  // namespace penstock::cli
