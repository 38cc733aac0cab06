#include "daemon/live/sink_set.hpp"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "daemon/config/sink_text.hpp"

namespace penstock::live {

sink_set::sink_set(std::vector<shard_endpoint> shards, sink_board& board, source_gates& gates,
                   writer_factory make_writer)
    : shards_(std::move(shards)), board_(board), gates_(gates), make_writer_(std::move(make_writer)) {}

void sink_set::adopt(const std::vector<sink_declaration>& declared) {
  std::erase_if(ending_, [](const auto& each) { return each->is_over(); });
  std::vector<std::unique_ptr<sink>> before = std::exchange(running_, {});
  for (const sink_declaration& wanted : declared) {
    const auto found = std::find_if(before.begin(), before.end(), [&](const auto& each) {
      return each != nullptr && each->declaration().name == wanted.name;
    });
    std::unique_ptr<sink> old = found == before.end() ? nullptr : std::move(*found);
    if (old != nullptr && same_sink(old->declaration(), wanted)) {
      running_.push_back(std::move(old));
      continue;
    }
    spdlog::info("sink '{}': {}", wanted.name, old != nullptr ? "changed" : "begins");
    running_.push_back(std::make_unique<sink>(wanted, shards_, board_, gates_, make_writer_, std::move(old)));
  }
  for (std::unique_ptr<sink>& each : before) {
    if (each != nullptr) {
      spdlog::info("sink '{}': removed", each->declaration().name);
      each->stop();
      ending_.push_back(std::move(each));
    }
  }
}

}  // namespace penstock::live
