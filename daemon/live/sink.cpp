#include "daemon/live/sink.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <penstock/client.hpp>
#include <penstock/subscription.hpp>
#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "base/descriptors.hpp"
#include "base/printable.hpp"
#include "base/utc_time.hpp"
#include "daemon/config/sink_text.hpp"
#include "daemon/live/back_off.hpp"
#include "daemon/live/sample_stream.hpp"
#include "daemon/request/wire_tensor.hpp"

namespace penstock::live {
namespace {

using namespace std::chrono_literals;

constexpr auto write_slice = 5ms;
constexpr auto between_sink_reports = 50ms;
// Where there is nothing to wait for, a full writer is tried again so soon.
constexpr auto between_tries = 5ms;
// A sink that is told to end still writes for so long without the receiver taking anything.
constexpr auto sink_farewell = 500ms;
constexpr auto calm_of_sink = 5s;
// What an item costs in the queue beside its bytes: bounds the number of small ones.
constexpr std::size_t bytes_beside = 256;
constexpr std::size_t most_streams_known = 4096;
constexpr std::size_t longest_client_name = 64;  // of a client
// What a shard keeps for a sink that blocks, beside its queue: results of what its sources have in flight, and what
// comes while its threads don't run.
constexpr std::size_t room_of_shard = std::size_t{128} << 20U;

/// The session's name without the epoch that a source puts behind it.
std::string_view without_epoch(const published& item) {
  std::string_view name = item.session;
  const auto& account = item.outputs.account();
  if (item.is_source && account && account->epoch != 0) {
    if (const std::string end = "/" + std::to_string(account->epoch); name.ends_with(end)) {
      name.remove_suffix(end.size());
    }
  }
  return name;
}

wire::sample_account wire_account(const sample_account& account) noexcept {
  return {.index = account.index,
          .time_ns = account.time_ns,
          .lost_before = account.lost_before,
          .epoch = account.epoch,
          .filled = account.filled,
          .quality = static_cast<wire::time_quality>(account.quality),
          .flags = account.flags};
}

/// `pattern` with the names in place of their marks. A part of a path has no slashes of its own.
std::string expanded(const std::string& pattern, const published& item, std::string_view session,
                     std::string_view output, bool is_path) {
  const std::array<std::pair<std::string_view, std::string_view>, 3> names{
      {{"{session}", session}, {"{output}", output}, {"{pipeline}", item.pipeline}}};
  std::string made;
  for (std::size_t at = 0; at < pattern.size();) {
    const auto* const found = std::find_if(names.begin(), names.end(), [&](const auto& each) {
      return std::string_view(pattern).substr(at).starts_with(each.first);
    });
    if (found == names.end()) {
      made += pattern[at++];
      continue;
    }
    at += found->first.size();
    std::string text(found->second);
    if (is_path) {
      std::replace_if(
          text.begin(), text.end(),
          [](char letter) { return letter == '/' || letter == '\0' || static_cast<unsigned char>(letter) < 0x20U; },
          '_');
      text = text.empty() || text.front() == '.' ? "_" + text : text;
    }
    made += text;
  }
  return made;
}

std::int64_t floor_division(std::int64_t left, std::int64_t right) noexcept {
  return left / right - (left % right < 0 ? 1 : 0);
}

/// Where the items of an output of a session lie.
struct stream_record {
  std::string name;  // topic or path
  bool begun = false;
  std::uint32_t epoch = 0;
  std::int64_t shift = 0;  // of its items' numbers: a filter's delay can make the first negative
  std::uint64_t next = 0;  // the number of the next item
  std::uint64_t sequence = 0;
};

/// Whether the item that stands at a sample has a number far below what 64 bits count.
bool is_place(std::int64_t sample, const sink_output& output) {
  const std::int64_t furthest =
      output.indices > output.steps ? furthest_index / output.indices * output.steps : furthest_index;
  return output.steps > 0 && sample <= furthest && sample >= -furthest;
}

/// The number of the item that stands at a sample. Items of a rational rate stand between samples, so that several may
/// stand at one: then it is `next`, the one after the last, if that is near.
std::int64_t number_of(std::int64_t sample, const sink_output& output, std::int64_t next) {
  const std::int64_t whole = floor_division(sample, output.steps);
  if (output.indices == 1) {
    return whole;
  }
  const std::int64_t number = whole * output.indices + (sample - whole * output.steps) * output.indices / output.steps;
  return std::abs(number - next) <= 1 + output.indices / output.steps ? next : number;
}

/// Fills in where the message's items lie, and that they were there.
void place_items(stream_record& stream, const sink_output& output, const published& item, const tensor_view& view,
                 std::int64_t items, result_message& message) {
  const auto& account = item.outputs.account();
  message.begins = !stream.begun || item.lost > 0 || item.restarted;
  message.offset = stream.next;
  if (account) {
    const bool new_epoch = !stream.begun || stream.epoch != account->epoch;
    message.begins = message.begins || new_epoch || account->lost_before > 0;
    if (account->knows_index() && is_place(view.index, output)) {
      const std::int64_t number = number_of(view.index, output, static_cast<std::int64_t>(stream.next) - stream.shift);
      stream.shift = std::max(stream.shift, -number);
      message.offset = static_cast<std::uint64_t>(number + stream.shift);
      message.knows_place = true;
      // The indices alone tell of a gap.
      message.begins = new_epoch || message.offset != stream.next;
    }
    stream.epoch = account->epoch;
  }
  stream.begun = true;
  stream.next = message.offset + static_cast<std::uint64_t>(items);
}

}  // namespace

/// What waits to be written. The clients' threads put it there.
class sink::inbox {
 public:
  struct entry {
    published what;
    const sink_feed* feed = nullptr;
    std::size_t cost = 0;
  };

  inbox(sink_declaration wanted, source_gates& gates) : declaration(std::move(wanted)), most_(declaration.queue) {
    for (const sink_feed& feed : declaration.feeds) {
      for (const std::string& source : feed.sources) {
        gates_.push_back(gates.of(source));
      }
    }
    close();
  }
  ~inbox() { release(); }
  inbox(const inbox&) = delete;
  inbox& operator=(const inbox&) = delete;

  const sink_declaration declaration;
  wake_event wake;

  /// A client's thread.
  void take(published&& what, const sink_feed& feed) {
    if (!feed.source.empty() &&
        !(what.is_source && what.client == printable_name("source " + feed.source, longest_client_name))) {
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      counts_.expected += 1 + what.lost;
      counts_.dropped += what.lost;
      std::size_t cost = bytes_beside;
      for (const tensor_view& each : what.outputs.outputs()) {
        cost += each.bytes.size();
      }
      const bool blocks = declaration.on_full == full_policy::block;
      // What a source has sent already comes, and is no more than its credits.
      if (bytes_ + cost > declaration.queue && !waiting_.empty() && !(blocks && what.is_source)) {
        ++counts_.dropped;
        lost_ += 1;
        return;
      }
      what.lost += std::exchange(lost_, 0);
      bytes_ += cost;
      waiting_.push_back({std::move(what), &feed, cost});
      ++counts_.waiting;
      if (blocks && bytes_ >= most_ && !full_) {
        full_ = true;
        ++pauses_;
        close();
      }
    }
    wake.wake();
  }

  /// The sink's thread: the first one; nullptr when nothing waits.
  [[nodiscard]] entry* front() {
    const std::lock_guard lock(mutex_);
    return waiting_.empty() ? nullptr : &waiting_.front();
  }
  [[nodiscard]] bool empty() const {
    const std::lock_guard lock(mutex_);
    return waiting_.empty();
  }
  void pop(bool delivered) {
    std::optional<entry> done;  // destroyed behind the lock
    const std::lock_guard lock(mutex_);
    done.emplace(std::move(waiting_.front()));
    waiting_.pop_front();
    bytes_ -= done->cost;
    --counts_.waiting;
    ++(delivered ? counts_.delivered : counts_.dropped);
    if (full_ && bytes_ <= most_ / 2) {
      full_ = false;
      open();
    }
  }
  /// A shard keeps so many bytes of that feed: the queue takes at most half, and sources have what is left for theirs.
  void fit(std::size_t bytes, const sink_feed& feed) {
    if (declaration.on_full != full_policy::block) {
      return;
    }
    const std::lock_guard lock(mutex_);
    most_ = std::min(most_, bytes / 2);
    const double gain = std::max(feed.gain, 1e-6);
    const double window = std::min(static_cast<double>(bytes - most_) / 2 / gain, 1e15);
    for (const auto& each : gates_) {
      each->set_window(this, static_cast<std::size_t>(window));
    }
  }
  /// It has subscribed.
  void begin() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(begun_, true)) {
      open();
    }
  }
  /// Lets the sources go on, whatever waits.
  void release() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(begun_, true)) {
      open();
    }
    if (std::exchange(full_, false)) {
      open();
    }
    for (const auto& each : gates_) {
      each->set_window(this, SIZE_MAX);
    }
  }
  void fill_in(sink_report& report) const {
    const std::lock_guard lock(mutex_);
    report.results = counts_;
    report.queued_bytes = bytes_;
    report.pauses = pauses_;
  }

 private:
  void close() noexcept {
    for (const auto& each : gates_) {
      each->close();
    }
  }
  void open() {
    for (const auto& each : gates_) {
      each->open();
    }
  }

  std::vector<std::shared_ptr<source_gate>> gates_;
  mutable std::mutex mutex_;
  std::deque<entry> waiting_;
  std::size_t most_;  // bytes, from which on it is full
  std::size_t bytes_ = 0;
  std::uint64_t lost_ = 0;  // dropped here since the last one that waits
  sink_counts counts_;
  std::uint64_t pauses_ = 0;
  bool full_ = false;   // the gates are closed
  bool begun_ = false;  // else they are closed
};

/// The sink's thread.
class sink::worker {
 public:
  explicit worker(sink& owner);

  void run();

 private:
  using time_point = std::chrono::steady_clock::time_point;

  // Something that is counted, and said in the log now and then.
  struct trouble_count {
    std::uint64_t seen = 0;
    time_point at{};
    bool said = false;
  };
  // A shard.
  struct shard_link {
    explicit shard_link(const shard_endpoint& where) : shard(where) {}

    shard_endpoint shard;
    std::atomic<bool> leave{false};  // written by any thread
    std::optional<client> connection{};
    std::vector<subscription> subscribed{};
    back_off pause{};
    time_point again{};
  };

  [[nodiscard]] bool stopping() const noexcept { return owner_.stop_.load(std::memory_order_acquire); }
  [[nodiscard]] bool blocks() const noexcept { return declaration_.on_full == full_policy::block; }
  void tend_links(time_point now);
  void connect(shard_link& link, time_point now);
  void disconnect(shard_link& link);
  void make_writer(time_point now);
  [[nodiscard]] bool write_some(time_point until);
  [[nodiscard]] write_progress write(const inbox::entry& entry);
  [[nodiscard]] result_message message_of(const inbox::entry& entry, const sink_output& output, const tensor_view& view,
                                          stream_record& stream) const;
  [[nodiscard]] stream_record& stream_of(const inbox::entry& entry, std::string_view session,
                                         const sink_output& output);
  void sleep(time_point until);
  void look(time_point now);
  void set_trouble(const std::string& trouble);
  void finish();
  sink_report report();
  void say(trouble_count& trouble, std::uint64_t count, bool lasts, time_point now, std::string_view begins,
           std::string_view ends) const;

  sink& owner_;
  inbox& inbox_;
  const sink_declaration& declaration_;
  std::deque<shard_link> links_;
  std::unique_ptr<result_writer> writer_;
  std::map<std::string, stream_record, std::less<>> streams_;
  sink_state state_ = sink_state::starting;
  std::string trouble_;
  std::uint64_t bytes_ = 0;
  std::uint64_t connections_ = 0;
  // Of the entry in front.
  std::size_t output_ = 0;                 // the next one to write
  bool missed_ = false;                    // one of them was dropped
  std::optional<result_message> message_;  // of output_, as far as it was composed
  back_off write_pause_;
  bool write_failed_ = false;  // and nothing was written since
  time_point write_at_{};
  time_point report_at_{};
  trouble_count drops_;
  trouble_count pauses_;
  std::vector<pollfd> waited_;
  std::optional<sink_board::place> place_;
};

sink::worker::worker(sink& owner) : owner_(owner), inbox_(*owner.inbox_), declaration_(inbox_.declaration) {
  for (const shard_endpoint& each : owner_.shards_) {
    links_.emplace_back(each);
  }
  sink_report first;
  first.name = declaration_.name;
  first.type = std::string(name_of(declaration_.type));
  first.queue_bytes = declaration_.queue;
  place_.emplace(owner_.board_, std::move(first), [this](std::uint32_t shard) {
    for (shard_link& each : links_) {
      if (each.shard.number == shard) {
        each.leave.store(true, std::memory_order_release);
      }
    }
    inbox_.wake.wake();
  });
}

void sink::worker::run() {
  while (!stopping()) {
    const time_point now = std::chrono::steady_clock::now();
    tend_links(now);
    if (!writer_ && now >= write_at_) {
      make_writer(now);
    }
    look(now);
    if (!write_some(now + write_slice)) {
      sleep(now + between_sink_reports);
    }
  }
  finish();
}

void sink::worker::tend_links(time_point now) {
  for (shard_link& each : links_) {
    if (each.leave.load(std::memory_order_acquire)) {
      disconnect(each);
      continue;
    }
    if (each.connection && std::any_of(each.subscribed.begin(), each.subscribed.end(),
                                       [](const subscription& one) { return one.ended(); })) {
      each.subscribed.clear();
      each.connection.reset();
    }
    if (!each.connection && now >= each.again) {
      connect(each, now);
    }
  }
  const auto stands = [](const shard_link& each) { return each.connection || each.leave.load(); };
  if (!blocks() || std::all_of(links_.begin(), links_.end(), stands)) {
    inbox_.begin();
  }
}

void sink::worker::connect(shard_link& link, time_point now) {
  try {
    client_options options;
    options.url = link.shard.url;
    options.zmq_context = link.shard.context;
    options.name = printable_name("sink " + declaration_.name, longest_client_name);
    options.transport = transport::zmq;
    options.request_timeout = 5s;
    options.stays = true;
    link.connection.emplace(std::move(options));
    for (const sink_feed& feed : declaration_.feeds) {
      subscribe_options wanted;
      for (const std::string& each : declaration_.sessions) {
        wanted.sessions.push_back(each);
        if (!each.ends_with('*') && each.size() + 2 <= 64) {
          wanted.sessions.push_back(each + "/*");  // later epochs
        }
      }
      for (const sink_output& each : feed.outputs) {
        wanted.outputs.push_back(each.name);
      }
      // What waits in the queue here is held by the shard.
      wanted.queue_bytes = declaration_.queue + (blocks() ? room_of_shard : 0);
      link.subscribed.push_back(link.connection->subscribe(
          feed.pipeline, wanted, [box = owner_.inbox_, &feed](published&& what) { box->take(std::move(what), feed); }));
      inbox_.fit(link.subscribed.back().queue_bytes(), feed);
    }
    link.pause.reset();
    if (writer_ != nullptr) {
      set_trouble("");
    }
  } catch (const std::exception& error) {
    link.subscribed.clear();
    link.connection.reset();
    link.again = link.pause.next(now);
    set_trouble(std::string("the shard does not take it: ") + error.what());
  }
}

// An answer to PING comes behind the results.
void sink::worker::disconnect(shard_link& link) {
  if (!link.connection) {
    return;
  }
  try {
    (void)link.connection->ping(sink_farewell);
  } catch (const std::exception&) {  // it is gone already
  }
  link.subscribed.clear();
  link.connection.reset();
}

void sink::worker::make_writer(time_point now) {
  try {
    writer_ = owner_.make_writer_(declaration_);
    ++connections_;
    if (!write_failed_) {
      state_ = sink_state::running;
      set_trouble("");
    }
  } catch (const std::exception& error) {
    write_at_ = write_pause_.next(now);
    state_ = sink_state::waiting;
    set_trouble(error.what());
  }
}

void sink::worker::set_trouble(const std::string& trouble) {
  if (trouble == trouble_) {
    return;
  }
  trouble_ = trouble;
  if (!trouble.empty()) {
    spdlog::warn("sink '{}': {}; it is tried again", declaration_.name, trouble);
  } else {
    spdlog::info("sink '{}': goes on", declaration_.name);
  }
}

// True when something was written.
bool sink::worker::write_some(time_point until) {
  bool any = false;
  while (writer_ != nullptr) {
    const inbox::entry* const entry = inbox_.front();
    if (entry == nullptr) {
      writer_->idle();
      break;
    }
    switch (write(*entry)) {
      case write_progress::written:
      case write_progress::dropped:
        inbox_.pop(!missed_);
        output_ = 0;
        missed_ = false;
        any = true;
        state_ = sink_state::running;
        write_pause_.reset();
        if (std::exchange(write_failed_, false)) {
          set_trouble("");
        }
        break;
      case write_progress::full:
        state_ = sink_state::full;
        return any;
      case write_progress::failed:
        state_ = sink_state::waiting;
        write_at_ = write_pause_.next(std::chrono::steady_clock::now());
        set_trouble(std::string(writer_->failure()));
        write_failed_ = true;
        writer_.reset();
        return any;
    }
    if (std::chrono::steady_clock::now() >= until) {
      break;
    }
  }
  return any;
}

// The outputs of a result, from the one on that comes next.
write_progress sink::worker::write(const inbox::entry& entry) {
  const std::string_view session = without_epoch(entry.what);
  const std::vector<sink_output>& outputs = entry.feed->outputs;
  for (; output_ < outputs.size(); ++output_, message_.reset()) {
    const auto views = entry.what.outputs.outputs();
    const auto view = std::find_if(views.begin(), views.end(),
                                   [&](const tensor_view& each) { return each.name == outputs[output_].name; });
    if (view == views.end()) {
      continue;
    }
    if (!message_) {
      stream_record& stream = stream_of(entry, session, outputs[output_]);
      message_ = message_of(entry, outputs[output_], *view, stream);
    }
    switch (writer_->write(*message_)) {
      case write_progress::written:
        bytes_ += message_->bytes.size();
        break;
      case write_progress::dropped:
        missed_ = true;
        break;
      case write_progress::full:
        return write_progress::full;
      case write_progress::failed:
        return write_progress::failed;
    }
  }
  return write_progress::written;
}

stream_record& sink::worker::stream_of(const inbox::entry& entry, std::string_view session, const sink_output& output) {
  if (streams_.size() > most_streams_known) {
    streams_.clear();
  }
  std::string key = entry.what.pipeline;
  key.append(1, '\0').append(session).append(1, '\0').append(output.name);
  const auto [place, is_new] = streams_.try_emplace(std::move(key));
  if (is_new) {
    const bool is_path = !declaration_.path.empty();
    place->second.name =
        expanded(is_path ? declaration_.file() : declaration_.topic, entry.what, session, output.name, is_path);
  }
  return place->second;
}

result_message sink::worker::message_of(const inbox::entry& entry, const sink_output& output, const tensor_view& view,
                                        stream_record& stream) const {
  const auto& account = entry.what.outputs.account();
  const std::int64_t frames = view.dimensions > 0 ? view.extents[0] : 1;
  const std::int64_t leading = view.dimensions > 1 ? view.extents[1] : 1;
  const double rate = entry.feed->sample_rate;
  result_message message;
  message.session = without_epoch(entry.what);
  message.output = output.name;
  message.bytes = view.bytes;
  message.shape = wire_header(output.spec, static_cast<std::uint32_t>(frames), leading);
  message.element = name_of(output.spec.type);
  message.item_bytes = output.item_bytes();
  message.unit_bytes = output.spec.variable ? output.item_bytes() : output.spec.bytes();
  message.frames = static_cast<std::uint32_t>(frames);
  message.index = view.index;
  place_items(stream, output, entry.what, view, output.items(frames, leading), message);
  message.name = stream.name;
  message.sequence = stream.sequence++;
  if (output.steps > 0) {
    message.item_rate = rate * static_cast<double>(output.indices) / static_cast<double>(output.steps);
  }
  if (account) {
    message.account = wire_account(*account);
    if (account->quality != penstock::time_quality::none) {
      const double apart = static_cast<double>(view.index) - static_cast<double>(account->index);
      message.time_ns = later_by(account->time_ns, rate > 0 ? apart / rate : 0.0);
    }
  }
  return message;
}

void sink::worker::sleep(time_point until) {
  waited_.clear();
  waited_.push_back({inbox_.wake.descriptor(), POLLIN, 0});
  if (writer_ != nullptr) {
    writer_->descriptors(waited_);
    const time_point soon = std::chrono::steady_clock::now() + between_tries;
    until = state_ == sink_state::full && waited_.size() == 1 ? std::min(until, soon) : until;
  } else {
    until = std::min(until, write_at_);
  }
  for (const shard_link& each : links_) {
    if (!each.connection && !each.leave.load()) {
      until = std::min(until, each.again);
    }
  }
  inbox_.wake.prepare();
  const bool may_write = state_ != sink_state::full && writer_ != nullptr && !inbox_.empty();
  const bool is_left = std::any_of(links_.begin(), links_.end(), [](const shard_link& each) {
    return each.connection && each.leave.load(std::memory_order_acquire);
  });
  if (!stopping() && !may_write && !is_left) {
    const auto left = std::clamp<std::chrono::nanoseconds>(until - std::chrono::steady_clock::now(), 0ns, 1s);
    timespec timeout{};
    timeout.tv_nsec = left.count() % 1'000'000'000;
    timeout.tv_sec = left / 1s;
    (void)::ppoll(waited_.data(), waited_.size(), &timeout, nullptr);
  }
  inbox_.wake.awake();
}

void sink::worker::look(time_point now) {
  if (now < report_at_) {
    return;
  }
  report_at_ = now + between_sink_reports;
  const sink_report made = report();
  say(drops_, made.results.dropped, false, now, "results are dropped: its receiver takes less than comes",
      "nothing is dropped any more");
  say(pauses_, made.pauses, made.queued_bytes >= declaration_.queue, now,
      "its queue is full, and the sources that feed it wait", "its receiver keeps up again");
}

// A line where something begins to happen, and one where it has not for a while.
void sink::worker::say(trouble_count& trouble, std::uint64_t count, bool lasts, time_point now, std::string_view begins,
                       std::string_view ends) const {
  if (count != trouble.seen || (lasts && trouble.said)) {
    trouble.seen = count;
    trouble.at = now;
    if (!std::exchange(trouble.said, true)) {
      spdlog::warn("sink '{}': {}", declaration_.name, begins);
    }
  } else if (trouble.said && now - trouble.at >= calm_of_sink) {
    trouble.said = false;
    spdlog::info("sink '{}': {}", declaration_.name, ends);
  }
}

sink_report sink::worker::report() {
  sink_report made;
  made.name = declaration_.name;
  made.type = std::string(name_of(declaration_.type));
  made.state = state_;
  made.trouble = trouble_;
  made.bytes = bytes_;
  made.connections = connections_;
  made.queue_bytes = declaration_.queue;
  inbox_.fill_in(made);
  place_->write(made);
  return made;
}

// What has come is written as long as the receiver takes it.
void sink::worker::finish() {
  inbox_.release();
  for (shard_link& each : links_) {
    disconnect(each);
  }
  time_point end = std::chrono::steady_clock::now() + sink_farewell;
  while (!inbox_.empty()) {
    const time_point now = std::chrono::steady_clock::now();
    if (now >= end) {
      break;
    }
    if (!writer_ && now >= write_at_) {
      make_writer(now);
    }
    if (write_some(now + write_slice)) {
      end = std::chrono::steady_clock::now() + sink_farewell;
    } else {
      waited_.clear();
      if (writer_ != nullptr) {
        writer_->descriptors(waited_);
      }
      (void)::poll(waited_.data(), waited_.size(), static_cast<int>(between_tries / 1ms));
    }
  }
  std::uint64_t left = 0;
  for (; !inbox_.empty(); ++left) {
    inbox_.pop(false);
  }
  if (left > 0) {
    spdlog::warn("sink '{}': {} results were not taken before its end", declaration_.name, left);
  }
  writer_.reset();
  state_ = sink_state::ended;
  (void)report();
}

sink::sink(sink_declaration declaration, std::vector<shard_endpoint> shards, sink_board& board, source_gates& gates,
           writer_factory make_writer, std::unique_ptr<sink> before)
    : shards_(std::move(shards)),
      board_(board),
      make_writer_(std::move(make_writer)),
      before_(std::move(before)),
      inbox_(std::make_shared<inbox>(std::move(declaration), gates)) {
  if (before_ != nullptr) {
    before_->stop();
  }
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), ("sink " + inbox_->declaration.name).substr(0, 15).c_str());
    before_.reset();
    while (!stop_.load(std::memory_order_acquire)) {
      try {
        worker(*this).run();
      } catch (const std::exception& error) {
        spdlog::error("sink '{}': {}; it begins anew", inbox_->declaration.name, error.what());
        pollfd woken{inbox_->wake.descriptor(), POLLIN, 0};
        inbox_->wake.prepare();
        if (!stop_.load(std::memory_order_acquire)) {
          (void)::poll(&woken, 1, static_cast<int>(back_off::longest_pause.count()));
        }
        inbox_->wake.awake();
      }
    }
    inbox_->release();
    over_.store(true, std::memory_order_release);
  });
}

sink::~sink() {
  stop();
  thread_.join();
}

const sink_declaration& sink::declaration() const noexcept {
  return inbox_->declaration;
}

void sink::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  inbox_->wake.wake();
}

}  // namespace penstock::live
