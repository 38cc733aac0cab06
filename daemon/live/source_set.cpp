#include "daemon/live/source_set.hpp"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "daemon/config/client_memory.hpp"
#include "daemon/config/source_text.hpp"

namespace penstock::live {

source_set::source_set(std::vector<shard_endpoint> shards, source_board& board, source_gates& gates,
                       memory_budget& memory, reader_factory make_reader)
    : shards_(std::move(shards)), board_(board), gates_(gates), memory_(memory), make_reader_(std::move(make_reader)) {}

source_set::~source_set() {
  memory_.give_back(taken_);
}

void source_set::adopt(const std::vector<source_declaration>& declared) {
  // What is told to end still has some of it, for a moment.
  memory_.charge(memory_of_sources(declared));
  memory_.give_back(std::exchange(taken_, memory_of_sources(declared)));
  std::erase_if(ending_, [](const auto& each) { return each->is_over(); });
  std::vector<std::unique_ptr<source>> before = std::exchange(running_, {});
  for (std::size_t index = 0; index < declared.size(); ++index) {
    const source_declaration& wanted = declared[index];
    const auto found = std::find_if(before.begin(), before.end(), [&](const auto& each) {
      return each != nullptr && each->declaration().name == wanted.name;
    });
    std::unique_ptr<source> old = found == before.end() ? nullptr : std::move(*found);
    if (old != nullptr && same_source(old->declaration(), wanted)) {
      running_.push_back(std::move(old));
      continue;
    }
    spdlog::info("source '{}': {}, feeds pipeline '{}'", wanted.name, old != nullptr ? "changed" : "begins",
                 wanted.pipeline);
    running_.push_back(std::make_unique<source>(wanted, shards_[index % shards_.size()], board_, make_reader_,
                                                std::move(old), gates_.of(wanted.name)));
  }
  for (std::unique_ptr<source>& each : before) {
    if (each != nullptr) {
      spdlog::info("source '{}': removed", each->declaration().name);
      each->stop();
      ending_.push_back(std::move(each));
    }
  }
}

void source_set::stop() noexcept {
  for (const auto& each : running_) {
    each->stop();
  }
}

bool source_set::are_over() const noexcept {
  const auto over = [](const auto& each) { return each->is_over(); };
  return std::all_of(running_.begin(), running_.end(), over) && std::all_of(ending_.begin(), ending_.end(), over);
}

}  // namespace penstock::live
