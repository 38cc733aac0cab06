#include "daemon/live/source.hpp"

#include <algorithm>
#include <ctime>
#include <deque>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include <penstock/client.hpp>
#include <penstock/session.hpp>
#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "base/descriptors.hpp"
#include "base/printable.hpp"
#include "daemon/config/source_text.hpp"
#include "daemon/live/back_off.hpp"
#include "daemon/live/block_assembler.hpp"
#include "daemon/live/block_queue.hpp"

namespace penstock::live {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using time_point = clock::time_point;

// A reader is called for so long before the queue is looked at.
constexpr auto read_slice = 1ms;
constexpr auto between_reports = 50ms;
// A source that is told to end still delivers for so long.
constexpr auto farewell = 500ms;
constexpr auto between_complaints = 10s;
constexpr int most_connections_said = 10;
// Without a drop for so long the pipeline keeps up again.
constexpr auto calm = 5s;
constexpr std::string_view topic_mark = "{topic}";
constexpr std::size_t longest_name = 64;  // of a session, and of a client
constexpr std::size_t longest_stem = longest_name - std::string_view("/4294967295").size();  // with any epoch

/// The session's name with the stream's in it, without its epoch.
std::string session_name(const source_declaration& declaration, std::string_view stream) {
  std::string name = declaration.session;
  const std::string_view topic = stream.empty() ? std::string_view(declaration.name) : stream;
  for (std::size_t at = name.find(topic_mark); at != name.npos; at = name.find(topic_mark, at + topic.size())) {
    name.replace(at, topic_mark.size(), topic);
  }
  return name;
}

/// Whether a session of the one can have the name of a session of the other: in an epoch, as "radio/1".
bool may_meet(std::string_view left, std::string_view right) noexcept {
  if (left.size() > right.size()) {
    std::swap(left, right);
  }
  const auto is_digit = [](char each) { return each >= '0' && each <= '9'; };
  const std::string_view rest = right.substr(left.size());
  return right.starts_with(left) &&
         (rest.empty() || (rest.front() == '/' && std::all_of(rest.begin() + 1, rest.end(), is_digit)));
}

/// What a request says of its samples, in its header.
sample_account account_of(const block_account& account) noexcept {
  static_assert(sample_account::index_known == wire::sample_flag::index_known &&
                sample_account::has_filled == wire::sample_flag::filled &&
                sample_account::loss_suspected == wire::sample_flag::loss_suspected &&
                sample_account::restored == wire::sample_flag::restored &&
                sample_account::epoch_begins == wire::sample_flag::epoch_begins &&
                sample_account::withheld == wire::sample_flag::withheld);
  return {.index = account.index,
          .time_ns = account.time_ns,
          .lost_before = account.lost_before,
          .epoch = account.epoch,
          .filled = account.filled,
          .quality = static_cast<penstock::time_quality>(account.quality),
          .flags = account.flags};
}

}  // namespace

/// What the shard and the client's thread still have when the source is gone.
struct source::shared_parts {
  explicit shared_parts(std::size_t block_bytes) : pool(block_bytes) {}

  block_pool pool;
  wake_event wake;
  std::atomic<std::uint64_t> results{0};  // written by the client's thread, as those that follow
  std::atomic<std::uint64_t> errors{0};
  std::mutex mutex;
  std::string last_error;
};

/// The source's thread.
class source::worker final : public sample_receiver {
 public:
  explicit worker(source& owner);

  void run();

  [[nodiscard]] std::optional<stream_number> stream(std::string_view name) override;
  void samples(stream_number stream, const sample_run& run) override;
  [[nodiscard]] std::span<std::byte> room(stream_number stream) override { return streams_[stream].assembler.room(); }
  void loss(stream_number stream, loss_kind kind, std::uint64_t samples) override {
    streams_[stream].assembler.loss(kind, samples);
  }
  void epoch(stream_number stream, std::string_view why) override;
  void duplicate(stream_number /*stream*/, std::uint64_t samples) override { events_.duplicates += samples; }
  void suspect(stream_number stream) override { streams_[stream].assembler.suspect(); }
  void malformed(std::string_view why) override;
  void connected(bool stands, std::string_view what) override;

 private:
  struct stream_record {
    stream_record(std::string topic, stream_number number, const block_plan& plan, block_store& store,
                  sample_counts& counts, source_events& events)
        : name(std::move(topic)), assembler(number, plan, store, counts, events) {}

    std::string name;
    std::string stem{};  // the name of its sessions, without their epoch
    block_assembler assembler;
    std::optional<session> open{};
    std::uint32_t epoch = 0;  // of the session
    std::uint64_t sent = 0;   // to it
  };

  [[nodiscard]] bool stopping() const noexcept { return owner_.stop_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t answered() const noexcept { return shared_->results.load() + shared_->errors.load(); }
  [[nodiscard]] bool connect(time_point now);
  [[nodiscard]] bool open_reader(time_point now);
  void fail(const std::string& why);
  [[nodiscard]] bool read(time_point now);
  [[nodiscard]] bool submit_all(time_point now);
  [[nodiscard]] bool submit(const sample_block& block, time_point now);
  [[nodiscard]] std::string unmet_name(const std::string& wanted) const;
  void open_session(stream_record& record, const sample_block& block);
  [[nodiscard]] bool wait_for_memory();
  void sleep(time_point until, bool for_data, std::uint64_t seen);
  void look(time_point now);
  void read_on_again();
  void look_for_stall(time_point now);
  void look_at_overrun(time_point now);
  void look_at_errors();
  void report();
  [[nodiscard]] bool is_reported() const noexcept;
  void set_trouble(const std::string& trouble);
  void finish();
  void leave();

  source& owner_;
  const source_declaration& declaration_;
  std::shared_ptr<shared_parts> shared_;
  block_plan plan_;
  sample_counts counts_;
  source_events events_;
  block_queue queue_;
  std::deque<stream_record> streams_;
  std::optional<client> client_;  // behind the sessions' records: `leave` destroys them first
  std::unique_ptr<sample_reader> reader_;
  std::optional<source_board::place> place_;
  source_state state_ = source_state::starting;
  std::string trouble_;
  bool reading_failed_ = false;         // and nothing came since
  std::uint64_t in_flight_before_ = 0;  // requests sent that were answered or given up when the client was last made
  std::uint64_t sent_ = 0;
  bool ended_ = false;
  bool paused_ = false;     // the gate was closed
  bool came_back_ = false;  // memory, before it would have slept
  back_off connect_pause_;
  back_off read_pause_;
  back_off submit_pause_;
  time_point connect_at_{};
  time_point read_at_{};
  time_point submit_at_{};
  time_point report_at_{};
  time_point data_at_{};
  time_point now_{};
  struct {
    sample_counts counts;
    source_events events;
    source_state state = source_state::starting;
    std::size_t queued = 0;
  } reported_;
  std::uint64_t overrun_seen_ = 0;
  time_point overrun_at_{};
  bool overruns_ = false;
  bool errs_ = false;
  std::uint64_t results_seen_ = 0;
  std::uint64_t errors_seen_ = 0;
  time_point complain_at_{};
  time_point connections_until_{};
  int connections_said_ = 0;  // until then
  std::vector<pollfd> waited_;
};

source::worker::worker(source& owner)
    : owner_(owner),
      declaration_(owner.declaration_),
      shared_(owner.shared_),
      plan_(plan_of(declaration_, declaration_.sample_rate)),
      queue_(plan_, std::shared_ptr<block_pool>(shared_, &shared_->pool), counts_, events_,
             [this] { return wait_for_memory(); }) {
  source_report first{.name = declaration_.name,
                      .type = std::string(name_of(declaration_.type)),
                      .pipeline = declaration_.pipeline,
                      .shard = owner_.shard_.number,
                      .state = state_,
                      .trouble = "",
                      .streams = 0,
                      .samples = {},
                      .events = {},
                      .queued_bytes = 0,
                      .queue_bytes = declaration_.queue};
  place_.emplace(owner_.board_, std::move(first), [&owner] { owner.stop(); });
}

void source::worker::run() {
  while (!stopping()) {
    const time_point now = clock::now();
    now_ = now;
    look(now);
    if (state_ == source_state::ended) {
      sleep(time_point::max(), false, answered());
      continue;
    }
    if (!client_ && (now < connect_at_ || !connect(now))) {
      sleep(connect_at_, false, answered());
      continue;
    }
    if (!reader_ && !ended_ && now >= read_at_) {
      (void)open_reader(now);
    }
    const std::uint64_t before = answered();
    const bool sent = submit_all(now);
    const bool read_on = reader_ != nullptr && (declaration_.overrun != overrun_policy::block || !queue_.full());
    const bool got = read_on && read(now);
    data_at_ = read_on ? data_at_ : now;  // it is the pipeline that is slow
    if (ended_ && queue_.empty() && answered() == sent_ + in_flight_before_) {
      leave();
      state_ = source_state::ended;
      spdlog::info("source '{}': ended, {} samples delivered", declaration_.name, counts_.delivered);
      report();
      continue;
    }
    if (!sent && !got && before == answered()) {
      sleep(time_point::max(), read_on, before);
    }
  }
  finish();
}

bool source::worker::connect(time_point now) {
  try {
    client_options options;
    options.url = owner_.shard_.url;
    options.zmq_context = owner_.shard_.context;
    options.name = printable_name("source " + declaration_.name, longest_name);
    options.transport = transport::zmq;
    options.request_timeout = 5s;
    options.stays = true;
    client_.emplace(std::move(options));
    in_flight_before_ = answered() - sent_;
    connect_pause_.reset();
    set_trouble("");
    return true;
  } catch (const std::exception& error) {
    connect_at_ = connect_pause_.next(now);
    fail(std::string("the shard does not take it: ") + error.what());
    return false;
  }
}

bool source::worker::open_reader(time_point now) {
  try {
    double rate = declaration_.sample_rate;
    reader_ = owner_.make_reader_(declaration_, rate);
    plan_ = plan_of(declaration_, rate);
    ++events_.connections;
    data_at_ = now;
    state_ = source_state::running;
    if (!reading_failed_) {
      set_trouble("");
    }
    return true;
  } catch (const std::exception& error) {
    read_at_ = read_pause_.next(now);
    fail(error.what());
    return false;
  }
}

void source::worker::fail(const std::string& why) {
  state_ = source_state::waiting;
  set_trouble(why);
}

void source::worker::set_trouble(const std::string& trouble) {
  if (trouble == trouble_) {
    return;
  }
  trouble_ = trouble;
  if (!trouble.empty()) {
    spdlog::warn("source '{}': {}; it is tried again", declaration_.name, trouble);
  } else {
    spdlog::info("source '{}': goes on", declaration_.name);
  }
}

// A reader that connects can be made, and fails all the same.
void source::worker::read_on_again() {
  if (std::exchange(reading_failed_, false)) {
    set_trouble("");
  }
}

// True when something came.
bool source::worker::read(time_point now) {
  switch (reader_->read(*this, now, now + read_slice)) {
    case read_progress::some:
      read_pause_.reset();
      read_on_again();
      return true;
    case read_progress::none:
      return false;
    case read_progress::ended:
      reader_.reset();
      ended_ = true;
      for (stream_record& each : streams_) {
        each.assembler.flush();
      }
      return true;
    case read_progress::failed:
      read_at_ = read_pause_.next(now);
      reading_failed_ = true;
      fail(std::string(reader_->failure()));
      reader_.reset();
      // Whatever comes next has another clock.
      for (stream_record& each : streams_) {
        each.assembler.epoch();
      }
      return true;
  }
  return false;
}

std::optional<stream_number> source::worker::stream(std::string_view name) {
  const bool by_topic = declaration_.session.find(topic_mark) != std::string::npos;
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    if (!by_topic || streams_[number].name == name) {
      return static_cast<stream_number>(number);
    }
  }
  if (streams_.size() >= plan_.streams) {
    ++events_.refused_streams;
    return std::nullopt;
  }
  const auto number = static_cast<stream_number>(streams_.size());
  std::string stem = unmet_name(session_name(declaration_, name));
  streams_.emplace_back(std::string(name), number, plan_, queue_, counts_, events_).stem = std::move(stem);
  return number;
}

// A topic may be any bytes, and of any length; a session's name may not, and no two that are open have the same.
std::string source::worker::unmet_name(const std::string& wanted) const {
  std::string name = printable_name(wanted, longest_name);
  const auto meets = [&](const stream_record& each) {
    return may_meet(printable_name(each.stem, longest_stem), printable_name(name, longest_stem));
  };
  for (std::size_t number = streams_.size() + 1; std::any_of(streams_.begin(), streams_.end(), meets); ++number) {
    const std::string end = "~" + std::to_string(number);
    name = printable_name(wanted, longest_stem - end.size()) + end;
  }
  return name;
}

void source::worker::samples(stream_number stream, const sample_run& run) {
  data_at_ = now_;
  streams_[stream].assembler.samples(run, now_);
}

void source::worker::epoch(stream_number stream, std::string_view why) {
  streams_[stream].assembler.epoch();
  if (now_ >= complain_at_) {
    complain_at_ = now_ + between_complaints;
    spdlog::info("source '{}': stream '{}' begins a new epoch: {}", declaration_.name, streams_[stream].name, why);
  }
}

void source::worker::malformed(std::string_view why) {
  ++events_.malformed;
  if (now_ >= complain_at_) {
    complain_at_ = now_ + between_complaints;
    spdlog::warn("source '{}': {} messages so far could not be read, this one because {}", declaration_.name,
                 events_.malformed, why);
  }
}

// A peer may come and go as often as it likes.
void source::worker::connected(bool stands, std::string_view what) {
  if (stands) {
    read_on_again();
  }
  if (now_ >= connections_until_) {
    connections_until_ = now_ + between_complaints;
    connections_said_ = 0;
  }
  if (++connections_said_ > most_connections_said) {
    return;
  }
  spdlog::info("source '{}': {} {}", declaration_.name, stands ? "connected to" : "lost", what);
}

// True when something was sent.
bool source::worker::submit_all(time_point now) {
  bool any = false;
  paused_ = false;
  while (client_ && now >= submit_at_) {
    if (!owner_.gate_->is_open()) {
      paused_ = true;
      break;
    }
    constexpr std::uint64_t always_in_flight = 2;
    const std::uint64_t in_flight = sent_ + in_flight_before_ - answered();
    if (in_flight >= always_in_flight && in_flight * plan_.block_bytes() >= owner_.gate_->window()) {
      break;
    }
    const sample_block* const block = queue_.front();
    if (block == nullptr || !submit(*block, now)) {
      break;
    }
    any = true;
  }
  return any;
}

bool source::worker::submit(const sample_block& block, time_point now) {
  stream_record& record = streams_[block.stream];
  try {
    if (record.open && record.open->ended()) {
      record.open.reset();
    }
    if (!record.open && record.sent != 0 && record.epoch == block.account.epoch) {
      queue_.begin_epoch();  // its state is gone
    }
    if (!record.open || record.epoch != block.account.epoch) {
      open_session(record, block);
    }
    client::request request;
    request.bytes = {block.bytes, block.samples * plan_.sample_bytes};
    request.frames = plan_.frame == 0 ? 1 : static_cast<std::uint32_t>(block.samples / plan_.frame);
    request.leading = plan_.frame == 0 ? static_cast<std::int64_t>(block.samples) : 0;
    request.timeout = 0ns;
    request.release = [shared = shared_, memory = block.bytes] {
      shared->pool.return_from_afar(memory);
      shared->wake.wake();
    };
    request.account = account_of(block.account);
    const auto sent = record.open->try_submit(std::move(request), [shared = shared_](outcome&& ended) {
      if (const auto* const error = std::get_if<request_error>(&ended)) {
        const std::lock_guard lock(shared->mutex);
        shared->last_error = error->what();
        ++shared->errors;
      } else {
        ++shared->results;
      }
      shared->wake.wake();
    });
    if (!sent) {
      return false;
    }
    ++sent_;
    ++record.sent;
    ++events_.blocks;
    queue_.pop_delivered();
    submit_pause_.reset();
    if (state_ == source_state::running && !reading_failed_ && !trouble_.empty()) {
      set_trouble("");
    }
    return true;
  } catch (const request_error& error) {
    submit_at_ = submit_pause_.next(now);
    if (error.kind() == error_kind::session_lost) {
      record.open.reset();
      return false;
    }
    set_trouble(error.what());
    if (error.kind() == error_kind::failed || error.kind() == error_kind::shutdown) {
      leave();
      connect_at_ = connect_pause_.next(now);
    }
    return false;
  }
}

void source::worker::open_session(stream_record& record, const sample_block& block) {
  record.open.reset();
  const std::string end = block.account.epoch == 0 ? "" : "/" + std::to_string(block.account.epoch);
  record.open.emplace(
      client_->open_session(declaration_.pipeline, printable_name(record.stem, longest_name - end.size()) + end));
  record.epoch = block.account.epoch;
  record.sent = 0;
}

// Called while a run is taken: the reader waits with it.
bool source::worker::wait_for_memory() {
  came_back_ = false;
  while (!stopping()) {
    now_ = clock::now();
    data_at_ = now_;  // it is the pipeline that is slow
    look(now_);
    if (shared_->pool.collect() || came_back_) {
      return true;
    }
    const std::uint64_t before = answered();
    if (!submit_all(now_) && before == answered()) {
      sleep(time_point::max(), false, before);
    }
  }
  return false;
}

// `seen`: the answers that the caller knows of.
void source::worker::sleep(time_point until, bool for_data, std::uint64_t seen) {
  waited_.clear();
  waited_.push_back({shared_->wake.descriptor(), POLLIN, 0});
  const bool reads = reader_ != nullptr && for_data;
  if (reads) {
    reader_->descriptors(waited_);
    until = std::min(until, reader_->wanted_at());
  }
  if (!queue_.empty() && submit_at_ > now_) {
    until = std::min(until, submit_at_);
  }
  if (reader_ == nullptr && !ended_ && client_) {
    until = std::min(until, read_at_);
  }
  if (reads && declaration_.stall.count() > 0 && state_ == source_state::running) {
    until = std::min(until, data_at_ + declaration_.stall);
  }
  if (!is_reported()) {
    until = std::min(until, std::max(report_at_, now_ + between_reports));
  }
  shared_->wake.prepare();
  const bool goes_on = paused_ && owner_.gate_->is_open();
  came_back_ = shared_->pool.collect();
  if (!stopping() && !goes_on && seen == answered() && !came_back_) {
    const auto left = std::clamp<std::chrono::nanoseconds>(until - clock::now(), 0ns, std::chrono::hours{1});
    timespec timeout{};
    timeout.tv_sec = left / 1s;
    timeout.tv_nsec = (left % 1s).count();
    (void)::ppoll(waited_.data(), waited_.size(), &timeout, nullptr);
  }
  shared_->wake.awake();
}

void source::worker::look(time_point now) {
  look_for_stall(now);
  if (now < report_at_) {
    return;
  }
  report_at_ = now + between_reports;
  look_at_overrun(now);
  look_at_errors();
  report();
}

void source::worker::look_for_stall(time_point now) {
  if (declaration_.stall.count() == 0 || reader_ == nullptr || !declaration_.is_live()) {
    return;
  }
  if (state_ == source_state::running && now - data_at_ >= declaration_.stall) {
    state_ = source_state::stalled;
    ++events_.stalls;
    spdlog::warn("source '{}': no data for {:.3g} s", declaration_.name,
                 std::chrono::duration<double>(declaration_.stall).count());
  } else if (state_ == source_state::stalled && now - data_at_ < declaration_.stall) {
    state_ = source_state::running;
    spdlog::info("source '{}': data again", declaration_.name);
  }
}

void source::worker::look_at_overrun(time_point now) {
  if (counts_.overrun != overrun_seen_) {
    overrun_seen_ = counts_.overrun;
    overrun_at_ = now;
    if (!std::exchange(overruns_, true)) {
      spdlog::warn("source '{}': samples are dropped: pipeline '{}' takes less than comes in", declaration_.name,
                   declaration_.pipeline);
    }
  } else if (overruns_ && now - overrun_at_ >= calm) {
    overruns_ = false;
    spdlog::info("source '{}': nothing is dropped any more", declaration_.name);
  }
}

void source::worker::look_at_errors() {
  const std::uint64_t results = shared_->results.load();
  const std::uint64_t errors = shared_->errors.load();
  if (std::exchange(errors_seen_, errors) != errors) {
    if (!std::exchange(errs_, true)) {
      const std::lock_guard lock(shared_->mutex);
      spdlog::warn("source '{}': a request failed: {}", declaration_.name, shared_->last_error);
    }
  } else if (results_seen_ != results) {
    errs_ = false;
  }
  results_seen_ = results;
}

bool source::worker::is_reported() const noexcept {
  return reported_.counts == counts_ && reported_.state == state_ && reported_.queued == queue_.size() &&
         reported_.events.results == shared_->results.load() && reported_.events.errors == shared_->errors.load() &&
         reported_.events.connections == events_.connections;
}

void source::worker::report() {
  events_.results = shared_->results.load();
  events_.errors = shared_->errors.load();
  reported_ = {counts_, events_, state_, queue_.size()};
  place_->write({.name = declaration_.name,
                 .type = std::string(name_of(declaration_.type)),
                 .pipeline = declaration_.pipeline,
                 .shard = owner_.shard_.number,
                 .state = state_,
                 .trouble = trouble_,
                 .streams = streams_.size(),
                 .samples = counts_,
                 .events = events_,
                 .queued_bytes = queue_.bytes(),
                 .queue_bytes = declaration_.queue});
}

// What has come is sent on, as far as the pipeline takes it at once.
void source::worker::finish() {
  reader_.reset();
  if (client_) {
    for (stream_record& each : streams_) {
      each.assembler.flush();
    }
    const time_point end = clock::now() + farewell;
    for (time_point now = clock::now(); now < end; now = clock::now()) {
      submit_at_ = std::min(submit_at_, now + back_off::first_pause);
      (void)submit_all(now);
      if (queue_.empty() && answered() == sent_ + in_flight_before_) {
        break;
      }
      pollfd woken{shared_->wake.descriptor(), POLLIN, 0};
      shared_->wake.prepare();
      (void)::poll(&woken, 1, 5);
      shared_->wake.awake();
    }
  }
  while (!queue_.empty()) {
    queue_.drop_front();
  }
  leave();
  report();
}

void source::worker::leave() {
  for (stream_record& each : streams_) {
    each.open.reset();
  }
  client_.reset();
}

source::source(source_declaration declaration, shard_endpoint shard, source_board& board, reader_factory make_reader,
               std::unique_ptr<source> before, std::shared_ptr<source_gate> gate)
    : declaration_(std::move(declaration)),
      shard_(std::move(shard)),
      board_(board),
      make_reader_(std::move(make_reader)),
      before_(std::move(before)),
      shared_(std::make_shared<shared_parts>(declaration_.sample_bytes * static_cast<std::size_t>(declaration_.block))),
      gate_(gate != nullptr ? std::move(gate) : std::make_shared<source_gate>()) {
  gate_->attach([shared = shared_] { shared->wake.wake(); });
  if (before_ != nullptr) {
    before_->stop();
  }
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), ("source " + declaration_.name).substr(0, 15).c_str());
    before_.reset();
    while (!stop_.load(std::memory_order_acquire)) {
      try {
        worker(*this).run();
      } catch (const std::exception& error) {
        spdlog::error("source '{}': {}; it begins anew", declaration_.name, error.what());
        shared_->wake.prepare();
        pollfd woken{shared_->wake.descriptor(), POLLIN, 0};
        if (!stop_.load(std::memory_order_acquire)) {
          (void)::poll(&woken, 1, static_cast<int>(back_off::longest_pause.count()));
        }
        shared_->wake.awake();
      }
    }
    over_.store(true, std::memory_order_release);
  });
}

source::~source() {
  stop();
  thread_.join();
}

void source::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  shared_->wake.wake();
}

}  // namespace penstock::live
