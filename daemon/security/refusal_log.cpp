#include "daemon/security/refusal_log.hpp"

#include <algorithm>

#include <spdlog/spdlog.h>

namespace penstock {
namespace {

const char* text_of(handshake_refusal why) noexcept {
  switch (why) {
    case handshake_refusal::unlisted_key:
      return "the key is not in security.authorized_keys_file";
    case handshake_refusal::wrong_mechanism:
      return "it speaks plain text where keys are asked for, or has keys where none are";
    case handshake_refusal::wrong_server_key:
      return "it takes another key for this daemon's";
    case handshake_refusal::malformed:
      return "it does not keep to ZeroMQ's handshake";
    case handshake_refusal::unfinished:
      return "it did not finish its handshake within security.handshake_timeout, or left";
    case handshake_refusal::no_descriptor:
      return "too many files are open: raise the limit (LimitNOFILE)";
  }
  return "";
}

}  // namespace

std::string_view name_of(handshake_refusal why) noexcept {
  switch (why) {
    case handshake_refusal::unlisted_key:
      return "unlisted_key";
    case handshake_refusal::wrong_mechanism:
      return "wrong_mechanism";
    case handshake_refusal::wrong_server_key:
      return "wrong_server_key";
    case handshake_refusal::malformed:
      return "malformed";
    case handshake_refusal::unfinished:
      return "unfinished";
    case handshake_refusal::no_descriptor:
      return "no_descriptor";
  }
  return "";
}

void refusal_log::note(handshake_refusal why, const std::string& from, time_point now) {
  kind& of = kinds_[static_cast<std::size_t>(why)];
  ++of.silent;
  of.from = from;
  if (of.last == time_point::min() || now - of.last >= interval) {
    write(why, of, now);
  }
}

void refusal_log::flush(time_point now) {
  for (std::size_t index = 0; index < kinds_.size(); ++index) {
    kind& of = kinds_[index];
    if (of.silent > 0 && now - of.last >= interval) {
      write(static_cast<handshake_refusal>(index), of, now);
    }
  }
}

refusal_log::time_point refusal_log::next() const noexcept {
  time_point soonest = time_point::max();
  for (const kind& of : kinds_) {
    soonest = of.silent > 0 ? std::min(soonest, of.last + interval) : soonest;
  }
  return soonest;
}

void refusal_log::write(handshake_refusal why, kind& of, time_point now) {
  spdlog::warn("refused {}{}{}: {}", of.silent == 1 ? "a connection" : fmt::format("{} connections", of.silent),
               of.from.empty()  ? ""
               : of.silent == 1 ? " from "
                                : ", the last from ",
               of.from, text_of(why));
  of.silent = 0;
  of.last = now;
}

}  // namespace penstock
