#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/client.hpp>
#include <penstock/session.hpp>

namespace penstock::cli {

/// Where the requests of a benchmark's client go: to its sessions in turn, or to the pipeline where it has none.
/// Thread: one at a time.
class session_turns {
 public:
  /// Opens so many sessions. Throws request_error as client::open_session does. `through` must live longer.
  session_turns(client& through, std::string pipeline, int sessions);

  // As those of client and session.

  std::uint64_t submit(client::request what, completion done);
  [[nodiscard]] std::optional<std::uint64_t> try_submit(client::request what, completion done);

 private:
  /// Whose turn it is; nullptr where there are no sessions.
  session* next() noexcept;

  client& client_;
  std::string pipeline_;
  std::vector<session> sessions_;
  std::size_t turn_ = 0;
};

}  // namespace penstock::cli
