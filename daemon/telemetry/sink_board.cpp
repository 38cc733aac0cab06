#include "daemon/telemetry/sink_board.hpp"

#include <array>
#include <utility>

namespace penstock {

std::string_view name_of(sink_state state) noexcept {
  constexpr std::array<std::string_view, 5> names{"starting", "running", "full", "waiting", "ended"};
  return names[static_cast<std::size_t>(state)];
}

nlohmann::ordered_json json_of(const sink_report& sink) {
  nlohmann::ordered_json made = {{"name", sink.name},
                                 {"type", sink.type},
                                 {"state", name_of(sink.state)},
                                 {"results",
                                  {{"expected", sink.results.expected},
                                   {"delivered", sink.results.delivered},
                                   {"dropped", sink.results.dropped},
                                   {"waiting", sink.results.waiting},
                                   {"balanced", sink.results.balanced()}}},
                                 {"bytes", sink.bytes},
                                 {"pauses", sink.pauses},
                                 {"connections", sink.connections},
                                 {"queue", {{"bytes", sink.queued_bytes}, {"limit", sink.queue_bytes}}}};
  if (!sink.trouble.empty()) {
    made["trouble"] = sink.trouble;
  }
  return made;
}

sink_board::place::place(sink_board& board, sink_report first, std::function<void(std::uint32_t shard)> leave)
    : board_(board), leave_(std::move(leave)), report_(std::move(first)) {
  const std::lock_guard lock(board_.mutex_);
  board_.places_.push_back(this);
}

sink_board::place::~place() {
  const std::lock_guard lock(board_.mutex_);
  std::erase(board_.places_, this);
}

void sink_board::place::write(const sink_report& now) {
  const std::lock_guard lock(mutex_);
  report_ = now;
}

std::vector<sink_report> sink_board::read() const {
  std::vector<sink_report> all;
  const std::lock_guard lock(mutex_);
  for (place* const each : places_) {
    const std::lock_guard its(each->mutex_);
    all.push_back(each->report_);
  }
  return all;
}

void sink_board::leave(std::uint32_t shard) const {
  const std::lock_guard lock(mutex_);
  for (place* const each : places_) {
    if (each->leave_) {
      each->leave_(shard);
    }
  }
}

}  // namespace penstock
