#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/quantity.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/shard_timeline.hpp"
#include "proto/chrome_trace.hpp"

namespace penstock::cli {
namespace {

constexpr std::chrono::milliseconds between_looks{200};

struct trace_options {
  std::chrono::nanoseconds last = std::chrono::seconds{5};
  std::chrono::nanoseconds follow{0};
  std::string file = "trace.json";
};

void save(const chrome_trace& trace, const std::string& file) {
  const auto check = [](const std::ostream& out, const std::string& name) {
    if (!out) {
      throw std::runtime_error("can't write " + name + ": " + std::strerror(errno));
    }
  };
  errno = 0;  // so that errno is meaningful
  if (file == "-") {
    trace.write(std::cout);
    std::cout.flush();
    check(std::cout, "the standard output");
    return;
  }
  std::ofstream out{file};
  check(out, file);
  trace.write(out);
  out.close();
  check(out, file);
}

/// Counts of the drawn batches.
struct drawn {
  std::size_t timed = 0;
  std::uint64_t requests = 0;
  std::uint64_t requests_left_out = 0;
  std::size_t most_of_a_batch = 0;  ///< requests, of those batches whose others were left out
  std::set<std::string> pipelines;
};

drawn count(const chrome_trace& trace) {
  drawn all;
  for (const traced_batch& each : trace.batches()) {
    const std::size_t kept = each.requests.size();
    all.timed += each.steps.empty() ? 0U : 1U;
    all.pipelines.insert(each.pipeline->name);
    all.requests += each.request_count;
    if (kept < each.request_count) {
      all.requests_left_out += each.request_count - kept;
      all.most_of_a_batch = std::max(all.most_of_a_batch, kept);
    }
  }
  return all;
}

std::string counted(std::uint64_t number, const char* one, const char* several) {
  return count_text(static_cast<double>(number)) + " " + (number == 1 ? one : several);
}

void report(const chrome_trace& trace, std::size_t shards, const std::string& file) {
  const drawn all = count(trace);
  std::cerr << counted(trace.batches().size(), "batch", "batches") << " of "
            << counted(all.pipelines.size(), "pipeline", "pipelines")
            << (shards == 1 ? "" : " on " + counted(shards, "shard", "shards")) << ", "
            << count_text(static_cast<double>(all.timed)) << " of them timed on the device";
  if (file != "-") {
    std::cerr << ", written to " << file << "; https://ui.perfetto.dev shows it";
  }
  std::cerr << "\n";
  if (all.requests_left_out > 0) {
    std::cerr << count_text(static_cast<double>(all.requests_left_out)) << " of "
              << counted(all.requests, "request", "requests") << " not drawn: the daemon remembers the first "
              << all.most_of_a_batch << " of a batch\n";
  }
}

/// Reports when a shard's record starts later than requested. `since_ns` is in the daemon's clock.
void report_gaps(const std::vector<shard_timeline>& shards, std::int64_t since_ns, std::chrono::nanoseconds last) {
  for (const shard_timeline& each : shards) {
    const std::string name = shards.size() == 1 ? "the daemon" : "shard " + std::to_string(each.shard());
    const std::chrono::nanoseconds short_by{each.since_ns().value_or(since_ns) - since_ns};
    if (short_by.count() > 0) {
      std::cerr << "penstock: " << name << " goes back only " << duration_text(last - short_by) << " of "
                << duration_text(last) << ": it remembers no more batches (timing.recent_batches)\n";
    }
    if (each.missed() > 0) {
      std::cerr << "penstock: " << counted(each.missed(), "batch is", "batches are") << " missing: " << name
                << " forgot them before they were read (timing.recent_batches)\n";
    }
  }
}

int trace(const global_options& global, const trace_options& options) {
  chrome_trace gathered;
  std::vector<shard_timeline> shards = timelines_of(client_options_of(global), global.timeout, std::cerr);
  std::int64_t now_ns = 0;
  const auto catch_up = [&] {
    for (shard_timeline& each : shards) {
      each.catch_up(gathered);
      now_ns = std::max(now_ns, each.now_ns());
    }
  };
  catch_up();
  const std::int64_t since_ns = now_ns - options.last.count();
  gathered.keep_since(since_ns);
  const auto until = std::chrono::steady_clock::now() + options.follow;
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(
        std::min<std::chrono::nanoseconds>(between_looks, until - std::chrono::steady_clock::now()));
    catch_up();
  }
  save(gathered, options.file);
  report(gathered, shards.size(), options.file);
  report_gaps(shards, since_ns, options.last);
  return EXIT_SUCCESS;
}

}  // namespace

void declare_trace(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "trace",
      "Writes the daemon's recent batches as a timeline for Perfetto (https://ui.perfetto.dev) or chrome://tracing:\n"
      "for each shard the steps on each stream, the batches in each slot, and the requests that they came from.");
  const auto options = std::make_shared<trace_options>();
  add_duration(*command, "--last", options->last, "How much of the past to write; says so where the daemon keeps less");
  add_duration(*command, "--follow-for", options->follow, "How long to go on recording before writing");
  command->add_option("-o,--output", options->file, "The file to write; - for the standard output")
      ->type_name("FILE")
      ->capture_default_str();
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return trace(global, *options); }; });
}

}  // namespace penstock::cli
