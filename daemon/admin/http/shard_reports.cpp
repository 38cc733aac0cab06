#include "daemon/admin/http/shard_reports.hpp"

#include <algorithm>
#include <utility>

namespace penstock {

void shard_reports::ask(consumer done) {
  if (last_ && now_() - last_at_ < freshness) {
    done(last_);
    return;
  }
  waiting_.push_back(std::move(done));
  if (waiting_.size() == 1) {
    ask_all_([this](shard_answers answers) { take(std::move(answers)); });
  }
}

void shard_reports::take(shard_answers answers) {
  const bool whole = std::all_of(answers.begin(), answers.end(), [](const auto& each) { return each.has_value(); });
  const auto made = std::make_shared<const shard_answers>(std::move(answers));
  last_ = whole ? made : nullptr;
  last_at_ = now_();
  for (const consumer& each : std::exchange(waiting_, {})) {
    each(made);
  }
}

}  // namespace penstock
