#include "client/cli/listener.hpp"

#include <iostream>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace penstock::cli {

listener::listener(const global_options& global) {
  client_options options = client_options_of(global);
  options.transport = transport::zmq;  // it sends nothing
  clients_.push_back(std::make_unique<client>(options));
  const server_info found = first().server();
  options.stays = true;
  for (std::uint32_t shard = 0; shard < found.shards.size(); ++shard) {
    if (shard == found.shard) {
      continue;
    }
    if (found.shards[shard].empty()) {
      std::cerr << "penstock: shard " << shard << " can't be reached from here: its results are missing\n";
      continue;
    }
    options.url = found.shards[shard];
    clients_.push_back(std::make_unique<client>(options));
  }
}

void listener::subscribe(const std::string& pipeline, const subscribe_options& wanted) {
  for (const auto& each : clients_) {
    subscriptions_.push_back(each->subscribe(pipeline, wanted));
  }
}

void listener::run(const taker& take, stop_event& stop, std::optional<std::chrono::steady_clock::time_point> until,
                   bool to_the_last) {
  constexpr std::chrono::milliseconds look_interval{100};
  constexpr std::chrono::seconds farewell{1};
  std::mutex mutex;
  std::string failure;
  const auto listen = [&](std::size_t shard) {
    subscription& from = subscriptions_[shard];
    const auto hand_on = [&](const std::optional<published>& item) {
      if (item) {
        const std::lock_guard lock{mutex};
        take(*item, shard);
      }
      return item.has_value();
    };
    try {
      while (!stop.requested() && !from.ended() && (!until || std::chrono::steady_clock::now() < *until)) {
        (void)hand_on(from.next(look_interval));
      }
      if (to_the_last && stop.signal() != 0) {
        try {
          (void)clients_[shard]->ping(farewell);  // answered behind what was sent before
        } catch (const request_error&) {          // there is no more
        }
      }
      from.close();
      while (to_the_last && hand_on(from.next(std::chrono::nanoseconds{0}))) {
      }
    } catch (const std::exception& error) {
      const std::lock_guard lock{mutex};
      failure = error.what();
      stop.request();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t shard = 0; shard < subscriptions_.size(); ++shard) {
    threads.emplace_back(listen, shard);
  }
  for (std::thread& each : threads) {
    each.join();
  }
  if (!failure.empty()) {
    throw std::runtime_error(failure);
  }
}

}  // namespace penstock::cli
