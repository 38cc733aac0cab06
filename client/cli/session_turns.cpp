#include "client/cli/session_turns.hpp"

#include <utility>

namespace penstock::cli {

session_turns::session_turns(client& through, std::string pipeline, int sessions)
    : client_(through), pipeline_(std::move(pipeline)) {
  for (int each = 0; each < sessions; ++each) {
    sessions_.push_back(client_.open_session(pipeline_));
  }
}

std::uint64_t session_turns::submit(client::request what, completion done) {
  session* const to = next();
  return to != nullptr ? to->submit(std::move(what), std::move(done))
                       : client_.submit(pipeline_, std::move(what), std::move(done));
}

std::optional<std::uint64_t> session_turns::try_submit(client::request what, completion done) {
  session* const to = next();
  return to != nullptr ? to->try_submit(std::move(what), std::move(done))
                       : client_.try_submit(pipeline_, std::move(what), std::move(done));
}

session* session_turns::next() noexcept {
  return sessions_.empty() ? nullptr : &sessions_[turn_++ % sessions_.size()];
}

}  // namespace penstock::cli
