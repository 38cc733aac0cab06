#include "tests/bench/timing/admin_questions.hpp"

#include <chrono>
#include <stdexcept>
#include <utility>

namespace penstock::bench {

admin_questions::admin_questions(const std::string& listen, std::string target)
    : at_(cli::parse_admin_address(listen).value()), target_(std::move(target)) {}

void admin_questions::ask() {
  const auto begin = std::chrono::steady_clock::now();
  const cli::http_answer came = cli::admin_get(at_, target_, std::chrono::seconds{20});
  if (came.status != 200) {
    throw std::runtime_error("the daemon answers " + target_ + " with " + std::to_string(came.status));
  }
  took_ms_.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  bytes_ = came.body.size();
}

}  // namespace penstock::bench
