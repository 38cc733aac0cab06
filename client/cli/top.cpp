#include <chrono>
#include <clocale>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "client/cli/admin_http.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/terminal.hpp"
#include "client/cli/top_figures.hpp"
#include "client/cli/top_layout.hpp"
#include "client/cli/top_screen.hpp"

namespace penstock::cli {
namespace {

using namespace std::chrono_literals;

// Longer than the 2 s after which the daemon reports a shard that does not answer.
constexpr std::chrono::nanoseconds longest_wait = 3s;
constexpr auto key_interval = 100ms;

struct top_options {
  std::optional<admin_address> given;
  admin_address admin{};  ///< the address to query
  std::chrono::nanoseconds interval = 1s;
  bool once = false;
  int batch = 0;
};

/// The result of one query: the status, or why there is none.
struct poll_outcome {
  std::optional<daemon_status> status;
  std::string trouble{};
};

poll_outcome poll_status(const admin_address& address, std::chrono::nanoseconds timeout) {
  try {
    const http_answer answer = admin_get(address, "/api/v1/status", timeout);
    if (answer.status != 200) {
      return {std::nullopt, "the daemon's admin HTTP answers with status " + std::to_string(answer.status)};
    }
    return {read_daemon_status(answer.body)};
  } catch (const std::runtime_error& failed) {
    return {std::nullopt, failed.what()};
  }
}

/// Polls the daemon's status on a thread of its own, so that keys never wait for an answer.
class top_poller {
 public:
  top_poller(admin_address address, std::chrono::nanoseconds interval, std::chrono::nanoseconds timeout);

  /// The newest outcome not taken yet. Never blocks.
  [[nodiscard]] std::optional<poll_outcome> take();
  void pause(bool paused);

 private:
  void run(const std::stop_token& stop);

  const admin_address whom_;
  const std::chrono::nanoseconds interval_;
  const std::chrono::nanoseconds timeout_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<poll_outcome> newest_;
  bool paused_ = false;
  std::jthread thread_;  // last: uses the members above
};

top_poller::top_poller(admin_address address, std::chrono::nanoseconds interval, std::chrono::nanoseconds timeout)
    : whom_(std::move(address)),
      interval_(interval),
      timeout_(timeout),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

std::optional<poll_outcome> top_poller::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(newest_, std::nullopt);
}

void top_poller::pause(bool paused) {
  const std::lock_guard lock(mutex_);
  paused_ = paused;
  changed_.notify_all();
}

void top_poller::run(const std::stop_token& stop) {
  auto next = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    poll_outcome outcome = poll_status(whom_, timeout_);
    std::unique_lock lock(mutex_);
    if (!paused_) {
      newest_ = std::move(outcome);
    }
    next = std::max(next + interval_, std::chrono::steady_clock::now());
    changed_.wait_until(lock, stop, next, [] { return false; });
    changed_.wait(lock, stop, [this] { return !paused_; });
  }
}

/// Computes figures from the last two answers.
class figure_history {
 public:
  void take(poll_outcome outcome) {
    trouble_ = std::move(outcome.trouble);
    if (outcome.status) {
      figures_ = figures_of(last_ ? &*last_ : nullptr, *outcome.status);
      last_ = std::move(outcome.status);
    }
  }
  [[nodiscard]] std::vector<top_line> lines(top_view view) {
    view.trouble = trouble_;
    if (figures_) {
      sort_figures(*figures_, view.order);
    }
    return lay_out(figures_, view);
  }
  [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }
  [[nodiscard]] bool has_answer() const noexcept { return last_.has_value(); }

 private:
  std::optional<daemon_status> last_;
  std::optional<top_figures> figures_;
  std::string trouble_;
};

/// Applies a key to the view. False when it ends the program.
bool obey(top_key key, top_view& view) {
  switch (key) {
    case top_key::quit:
      return false;
    case top_key::sort:
      view.order = static_cast<top_order>((static_cast<int>(view.order) + 1) % 3);
      break;
    case top_key::pause:
      view.paused = !view.paused;
      break;
    case top_key::help:
      view.help = !view.help;
      break;
    case top_key::next:
      view.chosen = static_cast<top_section>((static_cast<std::size_t>(view.chosen) + 1) % top_sections);
      break;
    case top_key::shards:
    case top_key::streams:
    case top_key::pipelines:
    case top_key::clients:
    case top_key::sources:
    case top_key::sinks:
      view.chosen = static_cast<top_section>(static_cast<int>(key) - static_cast<int>(top_key::shards));
      break;
    case top_key::none:
    case top_key::resized:
      break;
  }
  return true;
}

int watch(const top_options& options, std::chrono::nanoseconds timeout) {
  top_poller poller(options.admin, options.interval, timeout);
  figure_history history;
  top_view view{.glyphs = glyphs_of_terminal(), .address = text_of(options.admin)};
  top_screen screen;
  for (top_key key = top_key::resized; obey(key, view); key = screen.wait_for_key(key_interval)) {
    poller.pause(view.paused);
    std::optional<poll_outcome> outcome = poller.take();
    if (outcome) {
      history.take(std::move(*outcome));
    }
    if (outcome || key != top_key::none) {
      view.columns = screen.columns();
      view.rows = screen.rows();
      screen.show(history.lines(view));
    }
  }
  return EXIT_SUCCESS;
}

/// Prints tables, each for the interval before it; 0 = endlessly.
int print_tables(const top_options& options, std::chrono::nanoseconds timeout, int tables) {
  figure_history history;
  const top_view view{
      .columns = terminal_at(1).columns, .glyphs = glyphs_of_terminal(), .address = text_of(options.admin)};
  history.take(poll_status(options.admin, timeout));
  for (int each = 0; (tables == 0 || each < tables) && std::cout; ++each) {
    std::this_thread::sleep_for(options.interval);
    history.take(poll_status(options.admin, timeout));
    if (!history.has_answer()) {
      throw admin_unreachable(history.trouble());
    }
    for (const top_line& line : history.lines(view)) {
      std::cout << line.text() << "\n";
    }
    std::cout << (each + 1 == tables ? "" : "\n") << std::flush;
  }
  return history.trouble().empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

int top(const global_options& global, const top_options& options) {
  std::setlocale(LC_ALL, "");
  const auto timeout = std::min(global.timeout, longest_wait);
  if (options.once || options.batch > 0) {
    return print_tables(options, timeout, options.once ? 1 : options.batch);
  }
  if (!terminal_at(0).interactive || !terminal_at(1).interactive) {
    return print_tables(options, timeout, 1);
  }
  return can_show_a_screen() ? watch(options, timeout) : print_tables(options, timeout, 0);
}

}  // namespace

void declare_top(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "top",
      "Shows what shards, streams, pipelines, clients, sources and sinks do just now, from the daemon's admin HTTP");
  const auto options = std::make_shared<top_options>();
  add_admin_option(*command, options->given);
  add_duration(*command, "--interval", options->interval, "How long to wait between two looks");
  auto* const once = command->add_flag("--once", options->once, "Print one table, without a screen, and exit");
  command->add_option("--batch", options->batch, "Print so many tables, without a screen, and exit")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("N")
      ->excludes(once);
  command->footer("Keys: q quit, s sort, p pause, tab or 1-5 the section that gets the room, h help.");
  command->callback([&global, &chosen, options] {
    chosen = [&global, options] {
      options->admin = admin_address_of(global, options->given);
      return top(global, *options);
    };
  });
}

}  // namespace penstock::cli
