#include "tests/bench/overlap/wire_way.hpp"

#include <chrono>
#include <future>
#include <span>

namespace penstock::bench {
namespace {

using clock = std::chrono::steady_clock;

client_options options_for(const std::string& endpoint) {
  client_options made;
  made.url = endpoint;
  made.name = "penstock-bench";
  made.retry_after = std::chrono::seconds{20};  // a slow machine is no silence
  return made;
}

}  // namespace

wire_way::wire_way(const std::string& backend, const overlap_work& what, std::size_t chunks)
    : daemon_({backend, "poll", what.configuration(chunks), testing::free_tcp_endpoint()}),
      client_(options_for(daemon_.endpoint())),
      chunks_(chunks),
      chunk_rows_(what.rows / chunks),
      input_(what.rows * overlap_work::row) {
  for (std::size_t at = 0; at < input_.size(); ++at) {
    input_[at] = static_cast<float>((at * 2654435761U) % 20011U) / 10006.0F - 1.0F;
  }
}

double wire_way::run() {
  const std::span<const std::byte> all = std::as_bytes(std::span(input_));
  const std::size_t bytes = all.size() / chunks_;
  std::vector<std::future<result>> results;
  const clock::time_point begin = clock::now();
  for (std::size_t at = 0; at < chunks_; ++at) {
    client::request request;
    request.bytes = all.subspan(at * bytes, bytes);
    request.frames = static_cast<std::uint32_t>(chunk_rows_);
    request.release = [] {};
    results.push_back(client_.submit("work", std::move(request)));
  }
  for (std::future<result>& each : results) {
    (void)each.get();
  }
  return std::chrono::duration<double>(clock::now() - begin).count();
}

}  // namespace penstock::bench
