#include "daemon/net/shard_directory.hpp"

#include <set>

#include "daemon/pipeline/declaration.hpp"

namespace penstock {
namespace {

constexpr int last_port = 65535;

std::string endpoint_of(const std::string& configured, std::uint32_t shard) {
  if (!configured.starts_with("tcp://")) {
    return configured + "." + std::to_string(shard);
  }
  const std::size_t colon = configured.rfind(':');
  const std::string port = configured.substr(colon + 1);
  if (port == "*" || port == "0") {
    return configured;
  }
  const int number = std::stoi(port) + static_cast<int>(shard);
  if (number > last_port) {
    throw configuration_error("daemon.listen: shard " + std::to_string(shard) + " would listen on port " +
                              std::to_string(number) + "; give \"" + configured + "\" a lower one");
  }
  return configured.substr(0, colon + 1) + std::to_string(number);
}

}  // namespace

std::uint32_t shard_directory::choose(std::uint32_t answering, const std::string& token) {
  if (answering != 0) {
    return answering;
  }
  const std::lock_guard lock(mutex_);
  forget(token);
  std::size_t chosen = turn_ % size();
  for (std::size_t step = 1; step < size(); ++step) {
    const std::size_t other = (turn_ + step) % size();
    chosen = clients_[other] < clients_[chosen] ? other : chosen;
  }
  turn_ = chosen + 1;
  const auto shard = static_cast<std::uint32_t>(chosen);
  if (shard != answering) {
    ++clients_[shard];
    on_their_way_.emplace(token, shard);
  }
  return shard;
}

void shard_directory::arrived(std::uint32_t shard, const std::string& token) {
  const std::lock_guard lock(mutex_);
  ++clients_[shard];
  forget(token);
}

void shard_directory::left(std::uint32_t shard) {
  const std::lock_guard lock(mutex_);
  --clients_[shard];
}

void shard_directory::missed(const std::string& token) {
  const std::lock_guard lock(mutex_);
  forget(token);
}

void shard_directory::forget(const std::string& token) {
  if (const auto found = on_their_way_.find(token); found != on_their_way_.end()) {
    --clients_[found->second];
    on_their_way_.erase(found);
  }
}

std::vector<std::vector<std::string>> endpoints_of_all(const std::vector<std::string>& listen, std::size_t shards) {
  std::vector<std::vector<std::string>> all{listen};
  std::set<std::string> taken(listen.begin(), listen.end());
  for (std::uint32_t shard = 1; shard < shards; ++shard) {
    std::vector<std::string>& own = all.emplace_back();
    for (const std::string& each : listen) {
      own.push_back(endpoint_of(each, shard));
      // "Any free port" may be used more than once.
      if (own.back() != each && !taken.insert(own.back()).second) {
        throw configuration_error("daemon.listen: shard " + std::to_string(shard) + " would listen on \"" + own.back() +
                                  "\", which is taken; give other endpoints");
      }
    }
  }
  return all;
}

}  // namespace penstock
