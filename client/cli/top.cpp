#include <clocale>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include "client/cli/admin_option.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/terminal.hpp"
#include "client/cli/top_figures.hpp"
#include "client/cli/top_layout.hpp"
#include "client/cli/top_poller.hpp"
#include "client/cli/top_screen.hpp"

namespace penstock::cli {
namespace {

using namespace std::chrono_literals;

// A daemon gives up on a shard that does not answer after 2 s, and says so: that answer is worth waiting for.
constexpr std::chrono::nanoseconds longest_wait = 3s;
constexpr auto key_interval = 100ms;

struct top_options {
  std::optional<admin_address> given;
  admin_address admin{};  ///< that is meant
  std::chrono::nanoseconds interval = 1s;
  bool once = false;
  int batch = 0;
};

/// The figures of the last two answers.
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

/// What a key changes in the view. False when it ends the program.
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
  top_view view{.glyphs = glyphs_of_terminal(), .where = text_of(options.admin)};
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

/// Tables one below the other, each of the interval before it; `tables` of 0 goes on for ever.
int print_tables(const top_options& options, std::chrono::nanoseconds timeout, int tables) {
  figure_history history;
  const top_view view{
      .columns = terminal_at(1).columns, .glyphs = glyphs_of_terminal(), .where = text_of(options.admin)};
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
      "top", "Shows what shards, streams, pipelines and clients do just now, from the daemon's admin HTTP");
  const auto options = std::make_shared<top_options>();
  add_admin_option(*command, options->given);
  add_duration(*command, "--interval", options->interval, "How long to wait between two looks");
  auto* const once = command->add_flag("--once", options->once, "Print one table, without a screen, and exit");
  command->add_option("--batch", options->batch, "Print so many tables, without a screen, and exit")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("N")
      ->excludes(once);
  command->footer("Keys: q quit, s sort, p pause, tab or 1-4 the section that gets the room, h help.");
  command->callback([&global, &chosen, options] {
    chosen = [&global, options] {
      options->admin = admin_address_of(global, options->given);
      return top(global, *options);
    };
  });
}

}  // namespace penstock::cli
