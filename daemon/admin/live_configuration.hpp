#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include "daemon/admin/reload_outcome.hpp"
#include "daemon/admin/roll_call.hpp"
#include "daemon/admin/shard_thread.hpp"
#include "daemon/device/device.hpp"
#include "daemon/security/keyring.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/shard/shard_change.hpp"

namespace penstock {

/// The configuration that is served, and how another takes its place: read, checked and compiled for every shard on a
/// thread of its own while the shards serve; then each shard says whether it can take it; and only if all can, they do.
/// Members: the admin's thread.
class live_configuration {
 public:
  using callback = std::function<void(reload_outcome)>;

  /// `read` reads the configuration again, on another thread; it throws configuration_error. `devices` by shard; `keys`
  /// may be none. All that is passed outlives it.
  live_configuration(boost::asio::io_context& admin, std::deque<shard_thread>& shards, std::vector<device*> devices,
                     keyring* keys, settings running, std::function<settings()> read);
  live_configuration(const live_configuration&) = delete;
  live_configuration& operator=(const live_configuration&) = delete;
  /// Waits for what is being compiled. The shards have ended.
  ~live_configuration();

  [[nodiscard]] const configuration_report& now() const noexcept { return now_; }
  /// Calls `done` once, later. One reload at a time: others wait for their turn.
  void reload(callback done);

 private:
  // What the other thread made.
  struct proposal {
    std::string error;  // why there is none
    settings wanted;
    std::map<std::string, std::uint32_t> numbers;
    std::vector<shard_change> changes;  // by shard
    std::optional<authorized_keys> keys;
  };

  void begin();
  [[nodiscard]] proposal make() const;
  void add_shard(proposal& to, std::size_t shard) const;
  void propose();
  void decide(const std::vector<std::optional<std::string>>& objections);
  void finish(std::string error);
  void sweep_later();
  void sweep();

  boost::asio::io_context& admin_;
  std::deque<shard_thread>& shards_;
  std::vector<device*> devices_;
  keyring* keys_;
  settings running_;
  std::function<settings()> read_;
  configuration_report now_;
  std::map<std::string, std::uint32_t> numbers_;  // of every name that there was
  std::set<stream_priority> priorities_;          // that the wheels have streams of
  roll_call roll_call_;
  std::deque<callback> waiting_;  // the first one's reload is under way
  proposal proposed_;             // the other thread's while it works, then the shards', each its own change
  boost::asio::steady_timer sweep_at_;
  boost::asio::thread_pool workshop_{1};
};

}  // namespace penstock
