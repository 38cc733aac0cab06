#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include "daemon/config/settings.hpp"
#include "daemon/device/device.hpp"
#include "daemon/net/keys.hpp"
#include "daemon/service/shard_thread.hpp"
#include "daemon/shard/shard.hpp"

namespace penstock {

/// What a reload found in the files.
struct read_configuration {
  settings wanted{};
  std::optional<authorized_keys> keys{};
  std::string error{};  ///< why there is nothing
};

/// Reads the files of a configuration on a thread of its own, for at most `patience`: a file system that hangs holds
/// that thread, and neither the reload nor the daemon's end. Members: the admin's thread.
class configuration_reader {
 public:
  using callback = std::function<void(read_configuration)>;

  /// `read` is called on the other thread, which may outlive this: it owns all that it uses. It does not throw.
  configuration_reader(boost::asio::io_context& admin, std::function<read_configuration()> read,
                       std::chrono::seconds patience);
  configuration_reader(const configuration_reader&) = delete;
  configuration_reader& operator=(const configuration_reader&) = delete;
  ~configuration_reader();

  /// Calls `done` once, later: with an error when the files could not be read in time, or an earlier read still hangs.
  /// One read at a time.
  void read(callback done);
  /// Whether the thread still reads. The process must then end without its static objects being destroyed.
  [[nodiscard]] bool is_reading() const noexcept;

 private:
  struct reading;

  void finish(const std::shared_ptr<reading>& current, read_configuration found);

  boost::asio::io_context& admin_;
  std::function<read_configuration()> read_;
  std::chrono::seconds patience_;
  boost::asio::steady_timer too_late_;
  callback done_;                     // empty when nobody waits
  std::shared_ptr<reading> reading_;  // the last one
};

/// What became of a reload, and which configuration is served after it.
struct reload_outcome {
  bool changed = false;  ///< another configuration than before is served
  std::uint64_t version = 1;
  std::string hash;
  std::string error;  ///< why the new one was refused; "" when it was not
};

/// The configuration that is served, and its reload. A new one is read and checked on one thread and compiled for every
/// shard on another, while the shards serve. Each shard then says whether it can take it; if all can, all do. Members:
/// the admin's thread.
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
  /// Calls it on the thread that compiles configurations, once that is idle. Threads: any.
  void ask(std::function<void()> call);
  /// Whether a reload is under way.
  [[nodiscard]] bool is_reloading() const noexcept { return !current_.empty(); }
  /// A pipeline that a reload makes ready.
  struct trial {
    pipeline_declaration pipeline;
    std::chrono::steady_clock::time_point since;
  };
  /// The one that is compiled and run for the first time now, or that lost the device then. Threads: any.
  [[nodiscard]] std::optional<trial> tried() const;
  /// Calls `done` once, later. One reload at a time: who asks meanwhile shares the next one.
  void reload(callback done);

 private:
  // What the other thread compiled.
  struct proposal {
    std::uint64_t attempt = 0;
    std::string error;                   // why there is none
    std::string name;                    // what messages to clients call it
    bool same = false;                   // as what is served
    std::atomic<bool> abandoned{false};  // nobody waits for the shards' word any more
    settings wanted;
    std::map<std::string, std::uint32_t> numbers;
    std::vector<shard_change> changes;  // by shard
    std::optional<authorized_keys> keys;
  };

  using shared_proposal = std::shared_ptr<proposal>;

  void begin();
  void make(proposal& proposed) const;
  void try_pipeline(const pipeline_declaration* tried) const;
  /// Tunable numbers of a pipeline that differ from those that are served; nullopt if more of it is new.
  [[nodiscard]] std::optional<std::vector<wire::number_setting>> changed_numbers(
      const pipeline_declaration& wanted) const;
  void add_shard(proposal& proposed, std::size_t shard, const compile_options& code) const;
  void propose(const shared_proposal& proposed);
  void decide(const shared_proposal& proposed, const std::vector<std::optional<std::string>>& objections);
  void take_back(const shared_proposal& proposed, const std::string& error);
  /// `delay`: it is taken, but not by every shard yet.
  void finish(const shared_proposal& proposed, const std::string& error, const std::string& delay = "");
  void adopt(proposal& proposed);
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
  std::set<stream_class> classes_;                // that the stream pools have streams of
  configuration_reader reader_;
  shard_query shard_query_;
  mutable std::mutex tried_mutex_;
  mutable std::optional<trial> tried_;
  std::uint64_t attempts_ = 0;
  std::vector<callback> current_;  // whose reload is under way
  std::vector<callback> next_;
  boost::asio::steady_timer sweep_at_;
  bool sweep_is_due_ = false;
  boost::asio::thread_pool worker_{1};
};

/// Of the shards' answers to a commit: why the change is not served everywhere; "" when it is.
[[nodiscard]] std::string fault_of_commit(const std::vector<std::optional<bool>>& taken, std::chrono::seconds patience);

}  // namespace penstock
