#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/admin/shard_thread.hpp"
#include "daemon/shard/shard.hpp"

namespace penstock {

/// Asks every shard the same question, each on its own thread, and brings the answers to the admin's. Members: the
/// admin's thread.
class roll_call {
 public:
  roll_call(boost::asio::io_context& admin, std::deque<shard_thread>& shards) : admin_(admin), shards_(shards) {}

  /// Calls `done` once, on the admin's thread: when all have answered, or after `patience`. The answers stand by
  /// shard; one that did not come in time, or whose shard has ended, is missing.
  template <typename Answer>
  void ask(std::chrono::nanoseconds patience, std::function<Answer(shard&)> question,
           std::function<void(std::vector<std::optional<Answer>>)> done) {
    const auto collected = std::make_shared<collection<Answer>>(admin_, shards_.size(), std::move(done));
    collected->patience.expires_after(patience);
    collected->patience.async_wait([collected](const boost::system::error_code&) { collected->finish(); });
    for (std::size_t number = 0; number < shards_.size(); ++number) {
      shards_[number].ask([collected, question, number, &admin = admin_](shard& asked) {
        boost::asio::post(admin, [collected, number, answer = question(asked)]() mutable {
          collected->take(number, std::move(answer));
        });
      });
    }
  }

 private:
  template <typename Answer>
  struct collection {
    collection(boost::asio::io_context& admin, std::size_t shards,
               std::function<void(std::vector<std::optional<Answer>>)> call)
        : patience(admin), answers(shards), missing(shards), done(std::move(call)) {}

    void take(std::size_t number, Answer answer) {
      answers[number] = std::move(answer);
      if (--missing == 0) {
        patience.cancel();
      }
    }
    // The timer's end, by time or by cancelling: it comes once.
    void finish() {
      if (done) {
        std::exchange(done, nullptr)(std::exchange(answers, std::vector<std::optional<Answer>>(answers.size())));
      }
    }

    boost::asio::steady_timer patience;
    std::vector<std::optional<Answer>> answers;
    std::size_t missing;
    std::function<void(std::vector<std::optional<Answer>>)> done;
  };

  boost::asio::io_context& admin_;
  std::deque<shard_thread>& shards_;
};

}  // namespace penstock
