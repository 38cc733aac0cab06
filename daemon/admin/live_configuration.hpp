#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include "daemon/admin/configuration_reader.hpp"
#include "daemon/admin/reload_outcome.hpp"
#include "daemon/admin/roll_call.hpp"
#include "daemon/admin/shard_thread.hpp"
#include "daemon/device/device.hpp"
#include "daemon/security/keyring.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/shard/shard_change.hpp"

namespace penstock {

/// The configuration that is served, and how another takes its place: read and checked on one thread of its own, and
/// compiled for every shard on another, while the shards serve; then each shard says whether it can take it; and only
/// if all can, they do. Members: the admin's thread.
class live_configuration {
 public:
  using callback = std::function<void(reload_outcome)>;

  /// `read` reads the configuration again, on another thread that may outlive everything; it throws
  /// configuration_error. `devices` by shard; `keys` may be none. All else that is passed outlives it.
  live_configuration(boost::asio::io_context& admin, std::deque<shard_thread>& shards, std::vector<device*> devices,
                     keyring* keys, settings running, std::function<settings()> read);
  live_configuration(const live_configuration&) = delete;
  live_configuration& operator=(const live_configuration&) = delete;
  /// Waits for what is being compiled. The shards have ended.
  ~live_configuration();

  [[nodiscard]] const configuration_report& now() const noexcept { return now_; }
  [[nodiscard]] const settings& running() const noexcept { return running_; }
  /// Whether a reload's files are still being read: then the process ends without destroying its static objects.
  [[nodiscard]] bool is_reading() const noexcept { return reader_.is_reading(); }
  /// Has it called on the thread that makes configurations, once that is done with what it makes. Threads: any.
  void ask(std::function<void()> what);
  /// Whether a reload is under way.
  [[nodiscard]] bool is_reloading() const noexcept { return !current_.empty(); }
  /// Calls `done` once, later. One reload at a time: who asks meanwhile shares the next one.
  void reload(callback done);

 private:
  // What the other thread made.
  struct proposal {
    std::uint64_t attempt = 0;
    std::string error;              // why there is none
    std::string name;               // what messages to clients call it
    bool same = false;              // as what is served
    std::atomic<bool> over{false};  // nobody waits for the shards' word any more
    settings wanted;
    std::map<std::string, std::uint32_t> numbers;
    std::vector<shard_change> changes;  // by shard
    std::optional<authorized_keys> keys;
  };

  using shared_proposal = std::shared_ptr<proposal>;

  void begin();
  void make(proposal& into) const;
  void add_shard(proposal& to, std::size_t shard) const;
  void propose(const shared_proposal& made);
  void decide(const shared_proposal& made, const std::vector<std::optional<std::string>>& objections);
  void take_back(const shared_proposal& made, const std::string& error);
  /// `delay`: it is taken, but not by every shard yet.
  void finish(const shared_proposal& made, const std::string& error, const std::string& delay = "");
  void adopt(proposal& made);
  void sweep_later();
  void sweep();

  boost::asio::io_context& admin_;
  std::deque<shard_thread>& shards_;
  std::vector<device*> devices_;
  keyring* keys_;
  settings running_;
  const settings started_;  // what can't change stays as here
  configuration_report now_;
  std::map<std::string, std::uint32_t> numbers_;  // of every name that there was
  std::set<stream_priority> priorities_;          // that the wheels have streams of
  configuration_reader reader_;
  roll_call roll_call_;
  std::uint64_t attempts_ = 0;
  std::vector<callback> current_;  // whose reload is under way
  std::vector<callback> next_;
  boost::asio::steady_timer sweep_at_;
  boost::asio::thread_pool workshop_{1};
};

/// Of the shards' answers to a commit: why the change is not served everywhere; "" when it is.
[[nodiscard]] std::string fault_of_commit(const std::vector<std::optional<bool>>& taken, std::chrono::seconds patience);

}  // namespace penstock
