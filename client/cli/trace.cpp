#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <thread>

#include "client/cli/commands.hpp"
#include "client/cli/quantity.hpp"
#include "proto/timeline/chrome_trace.hpp"

namespace penstock::cli {
namespace {

constexpr std::chrono::milliseconds between_looks{200};

struct trace_options {
  std::chrono::nanoseconds last = std::chrono::seconds{5};
  std::chrono::nanoseconds follow{0};
  std::string file = "trace.json";
};

/// Takes in what there is since `cursor`, but for what comes while it does.
std::uint64_t catch_up(client& daemon, std::uint64_t cursor, std::chrono::nanoseconds timeout, chrome_trace& into) {
  std::int64_t began = 0;
  while (true) {
    const trace_page page = daemon.trace(cursor, timeout);
    into.add(page.json);
    const chrome_trace::page_facts& facts = into.last_page();
    began = began == 0 ? facts.now_ns : began;
    cursor = page.next_cursor;
    if (facts.batches == 0 || facts.newest_ns >= began) {
      return cursor;
    }
  }
}

void save(const chrome_trace& what, const std::string& file) {
  if (file == "-") {
    what.write(std::cout);
    return;
  }
  std::ofstream out{file};
  what.write(out);
  out.close();
  if (!out) {
    throw std::runtime_error("can't write " + file);
  }
}

void report(const chrome_trace& what, const std::string& file) {
  std::size_t timed = 0;
  std::set<std::string> pipelines;
  for (const traced_batch& each : what.batches()) {
    timed += each.steps.empty() ? 0U : 1U;
    pipelines.insert(each.pipeline->name);
  }
  std::cerr << count_text(static_cast<double>(what.batches().size())) << " batches of "
            << count_text(static_cast<double>(pipelines.size()))
            << (pipelines.size() == 1 ? " pipeline, " : " pipelines, ") << count_text(static_cast<double>(timed))
            << " of them timed on the device";
  if (file != "-") {
    std::cerr << ", written to " << file << "; https://ui.perfetto.dev shows it";
  }
  std::cerr << "\n";
}

int trace(const global_options& global, const trace_options& options) {
  client daemon{client_options_of(global)};
  chrome_trace gathered;
  std::uint64_t cursor = catch_up(daemon, 0, global.timeout, gathered);
  gathered.keep_since(gathered.last_page().now_ns - options.last.count());
  const auto until = std::chrono::steady_clock::now() + options.follow;
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(
        std::min<std::chrono::nanoseconds>(between_looks, until - std::chrono::steady_clock::now()));
    cursor = catch_up(daemon, cursor, global.timeout, gathered);
  }
  save(gathered, options.file);
  report(gathered, options.file);
  return EXIT_SUCCESS;
}

}  // namespace

void declare_trace(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "trace",
      "Writes the daemon's recent batches as a timeline for Perfetto (https://ui.perfetto.dev) or chrome://tracing:\n"
      "the steps on each stream, the batches in each slot, and the requests that they came from.");
  const auto options = std::make_shared<trace_options>();
  add_duration(*command, "--last", options->last, "How much of the past to write, as far as the daemon keeps it");
  add_duration(*command, "--follow-for", options->follow, "How long to go on recording before writing");
  command->add_option("-o,--output", options->file, "The file to write; - for the standard output")
      ->type_name("FILE")
      ->capture_default_str();
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return trace(global, *options); }; });
}

}  // namespace penstock::cli
