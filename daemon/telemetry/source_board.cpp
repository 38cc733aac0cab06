#include "daemon/telemetry/source_board.hpp"

#include <array>
#include <utility>

namespace penstock {

std::string_view name_of(source_state state) noexcept {
  constexpr std::array<std::string_view, 5> names{"starting", "running", "stalled", "waiting", "ended"};
  return names[static_cast<std::size_t>(state)];
}

nlohmann::ordered_json json_of(const source_report& source) {
  const sample_counts& samples = source.samples;
  const source_events& events = source.events;
  nlohmann::ordered_json made = {{"name", source.name},
                                 {"type", source.type},
                                 {"pipeline", source.pipeline},
                                 {"state", name_of(source.state)},
                                 {"streams", source.streams},
                                 {"samples",
                                  {{"expected", samples.expected},
                                   {"delivered", samples.delivered},
                                   {"network", samples.network},
                                   {"kernel", samples.kernel},
                                   {"overrun", samples.overrun},
                                   {"late", samples.late},
                                   {"waiting", samples.waiting},
                                   {"balanced", samples.balanced()}}},
                                 {"filled", events.filled},
                                 {"duplicates", events.duplicates},
                                 {"restored", events.restored},
                                 {"gaps", events.gaps},
                                 {"epochs", events.epochs},
                                 {"suspected", events.suspected},
                                 {"malformed", events.malformed},
                                 {"refused_streams", events.refused_streams},
                                 {"blocks", events.blocks},
                                 {"results", events.results},
                                 {"errors", events.errors},
                                 {"stalls", events.stalls},
                                 {"connections", events.connections},
                                 {"queue", {{"bytes", source.queued_bytes}, {"limit", source.queue_bytes}}}};
  if (!source.trouble.empty()) {
    made["trouble"] = source.trouble;
  }
  return made;
}

source_board::place::place(source_board& board, source_report first, std::function<void()> stop)
    : board_(board), stop_(std::move(stop)), report_(std::move(first)) {
  const std::lock_guard lock(board_.mutex_);
  board_.places_.push_back(this);
}

source_board::place::~place() {
  const std::lock_guard lock(board_.mutex_);
  std::erase(board_.places_, this);
}

void source_board::place::write(const source_report& now) {
  const std::lock_guard lock(mutex_);
  report_ = now;
}

std::vector<source_report> source_board::read(std::uint32_t shard) const {
  std::vector<source_report> all;
  const std::lock_guard lock(mutex_);
  for (place* const each : places_) {
    const std::lock_guard its(each->mutex_);
    if (each->report_.shard == shard) {
      all.push_back(each->report_);
    }
  }
  return all;
}

void source_board::stop(std::uint32_t shard) const {
  const std::lock_guard lock(mutex_);
  for (place* const each : places_) {
    const std::lock_guard its(each->mutex_);
    if (each->report_.shard == shard && each->stop_) {
      each->stop_();
    }
  }
}

}  // namespace penstock
