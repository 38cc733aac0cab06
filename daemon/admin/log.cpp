#include "daemon/admin/log.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/systemd_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock {
namespace {

constexpr const char* name = "penstockd";
// Of sd-daemon(3): the journal takes it off the line, as its priority.
constexpr const char* error_prefix = "<3>";

// Who reads the log may go, and its file may be at its limit: a line is lost then, not the daemon.
void outlive_the_reader() noexcept {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace

// JOURNAL_STREAM alone is no proof: it is inherited by programs whose output goes elsewhere.
bool journal_reads_stderr() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat here {};
  return stream != nullptr && ::fstat(STDERR_FILENO, &here) == 0 &&
         fmt::format("{}:{}", here.st_dev, here.st_ino) == stream;
}

void open_log(const std::string& level) {
  outlive_the_reader();
  std::shared_ptr<spdlog::logger> log;
  if (journal_reads_stderr()) {
    log = spdlog::systemd_logger_mt(name, name);
  } else {
    log = spdlog::stderr_color_mt(name);
    log->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  }
  log->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(log));
}

void complain(const std::string& why) {
  outlive_the_reader();
  const bool to_journal = journal_reads_stderr();
  std::fprintf(stderr, "%s%s\n", to_journal ? error_prefix : "penstockd: ", why.c_str());
}

}  // namespace penstock
