#include <algorithm>
#include <array>
#include <string_view>

#include "daemon/doctor/amount_text.hpp"
#include "daemon/doctor/checks.hpp"

namespace penstock {

finding check_configuration(const configuration_facts& given) {
  finding made{.check = "configuration", .found = given.file + ": good, " + counted(given.pipelines, "pipeline")};
  made.needed = "a valid configuration";
  if (!given.error.empty()) {
    made.how = severity::error;
    made.found = given.error;
    made.why = "the daemon ends with 78, and what depends on the configuration was not checked";
    made.todo = "mend the file; penstockd --check-config says the same";
  }
  return made;
}

finding check_keys(const key_facts& given) {
  finding made{.check = "keys", .found = given.encrypts ? "good" : "none: no encryption"};
  made.needed = "files that nobody else can read or change";
  if (!given.error.empty()) {
    made.how = severity::error;
    made.found = given.error;
    made.why = "the daemon takes no key that somebody else may know, and ends with 78";
    made.todo = "do what the message says; penstock keygen makes keys with the right modes";
  }
  return made;
}

finding check_endpoint(const endpoint_facts& given) {
  finding made{.check = "endpoint", .found = given.endpoint + " is free"};
  made.needed = "a free one, or the daemon already on it";
  switch (given.state) {
    case endpoint_state::free:
      break;
    case endpoint_state::served:
      made.found = given.endpoint + " is taken, by what looks like a daemon that runs already";
      break;
    case endpoint_state::taken:
      made.how = severity::error;
      made.found = given.endpoint + " is taken by something that is no penstockd";
      made.why = "the daemon ends with 69 when it can't listen";
      made.todo = "ss -ltnpx says who holds it; stop that, or listen somewhere else";
      break;
    case endpoint_state::refused:
      made.how = severity::error;
      made.found = given.endpoint + ": " + given.detail;
      made.why = "the daemon ends with 69 when it can't listen";
      made.todo = "an address of this machine, a port above 1023, or a folder that the daemon may write to";
      break;
  }
  return made;
}

finding check_shared_memory(const shared_memory_facts& given) {
  constexpr std::uint64_t least = std::uint64_t{16} << 20U;
  finding made{.check = "/dev/shm", .found = amount_text(given.free_bytes) + " free"};
  made.needed = amount_text(least) + " that can be written to";
  if (!given.is_writable || given.free_bytes < least) {
    made.how = severity::warning;
    made.found = given.is_writable ? made.found : "can't be written to";
    made.why = "CUDA and libraries share memory between processes there";
    made.todo = "mount a tmpfs on it; in Docker, --shm-size=64m or more";
  }
  return made;
}

finding check_clock(const std::string& source) {
  constexpr std::array<std::string_view, 4> quick{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page",
                                                  "arch_sys_counter"};
  finding made{.check = "clock source", .found = source.empty() ? "the kernel does not say" : source};
  made.needed = "one that is read without a system call: tsc";
  if (!source.empty() && std::find(quick.begin(), quick.end(), source) == quick.end()) {
    made.how = severity::warning;
    made.why = "the daemon reads the clock for each request, and this one takes a microsecond or more";
    made.todo = "look in dmesg for why tsc was given up; clocksource=tsc on the kernel's command line";
  }
  return made;
}

}  // namespace penstock
