#include "tests/bench/floors/shared_trial.hpp"

#include <cstddef>

#include "tests/bench/affine_configuration.hpp"
#include "tests/bench/floors/spans.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t bytes = 1U << 20U;
constexpr std::size_t in_flight = 32;
constexpr std::size_t walked_bytes = 64U << 20U;  // four times, of all copies: more than a cache holds
constexpr std::size_t copies = 1024;              // some 0.2 s

}  // namespace

shared_trial::shared_trial()
    : daemon_({"host", "callback", affine_configuration{.floats = {bytes / sizeof(float)}}.text(), endpoints_.ipc()}) {}

void shared_trial::connect() {
  copies_.emplace("host", walked_bytes);
  client_.emplace(lent_loop::settings{
      .endpoint = daemon_.endpoint(), .transport = transport::shared_memory, .bytes = bytes, .in_flight = in_flight});
  (void)copies_->gb_per_second(bytes, copies / 2);
  (void)client_->run(warm_up_span);
}

void shared_trial::turn() {
  const double limit = copies_->gb_per_second(bytes, copies) * 1e9 / static_cast<double>(bytes);
  of_copies_.push_back(client_->run(turn_span).requests_per_second / limit);
}

void shared_trial::add_ratios(std::map<std::string, spread>& to) const {
  to["1 MiB in shared memory: daemon / copies both ways"] = spread_of(of_copies_);
}

}  // namespace penstock::bench
