#include "client/cli/load.hpp"

#include <future>

#include <gmock/gmock.h>

#include "tests/client/client_fixtures.hpp"

namespace penstock::cli {
namespace {

using test::counting_bytes;
using test::received;
using ::testing::ElementsAre;
using wire::message_type;

class SessionTurns : public test::session_fixture {
 protected:
  session_turns open_turns(int sessions) {
    connect();
    auto opening = std::async(std::launch::async, [&] { return session_turns{*client_, "double", sessions}; });
    for (int each = 0; each < sessions; ++each) {
      daemon_.opened(daemon_.expect(message_type::open_session), static_cast<std::uint32_t>(each + 1));
    }
    return opening.get();
  }

  /// Sends this many frames, half of them each way. The session and the sequence of each.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> send(session_turns& turns, int frames) {
    const auto bytes = counting_bytes(1);
    std::vector<std::pair<std::uint32_t, std::uint64_t>> went;
    for (int each = 0; each < frames; ++each) {
      client::request request;
      request.bytes = bytes;
      if (each % 2 == 0) {
        turns.submit(request, [](outcome&&) {});
      } else {
        EXPECT_TRUE(turns.try_submit(request, [](outcome&&) {}).has_value());
      }
      const received submit = daemon_.expect(message_type::submit);
      daemon_.result(submit);
      went.emplace_back(submit.header.session, submit.header.sequence);
    }
    return went;
  }
};

TEST_F(SessionTurns, GoRound) {
  session_turns turns = open_turns(2);
  EXPECT_THAT(send(turns, 5), ElementsAre(std::pair{1U, 0U}, std::pair{2U, 0U}, std::pair{1U, 1U}, std::pair{2U, 1U},
                                          std::pair{1U, 2U}));
}

TEST_F(SessionTurns, AreNoneWithoutSessions) {
  daemon_.offer().pipelines[0].keeps_state = false;
  session_turns turns = open_turns(0);
  EXPECT_THAT(send(turns, 2), ElementsAre(std::pair{0U, 0U}, std::pair{0U, 0U}));
}

}  // namespace

}  // namespace penstock::cli
