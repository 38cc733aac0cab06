#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/input_stream.hpp"
#include "client/cli/listener.hpp"
#include "client/cli/recordings.hpp"
#include "penstock_version.hpp"

namespace penstock::cli {
namespace {

using std::chrono::steady_clock;

struct record_options {
  std::string pipeline;
  std::string to;
  std::vector<std::string> sessions;
  std::vector<std::string> outputs;
  std::chrono::nanoseconds duration{};  ///< 0: until a signal
  std::uint64_t max_bytes = UINT64_MAX;
  double rate = 0;  ///< 0: not given
  bool requests = false;
  bool force = false;
};

std::string count_of(std::uint64_t count, const record_options& options) {
  return count_text(static_cast<double>(count)) + (options.requests ? " request" : " result") + (count == 1 ? "" : "s");
}

void print(const recordings& written, const record_options& options, bool full, steady_clock::duration elapsed) {
  std::cout << count_of(written.items(), options) << " of \"" << options.pipeline << "\" in " << duration_text(elapsed);
  if (written.lost() > 0) {
    std::cout << ", " << count_of(written.lost(), options) << " lost";
  }
  std::cout << (full ? ", up to --max-bytes" : "") << "\n";
  for (const std::string& line : written.summary()) {
    std::cout << "  wrote       " << line << "\n";
  }
  for (const std::string& line : written.without_rate()) {
    std::cout << "  note        " << line << "\n";
  }
  if (written.left_out() > 0) {
    std::cout << "  note        " << count_of(written.left_out(), options)
              << " of other sessions not recorded: --session chooses, and a folder takes all\n";
  }
}

int record(const global_options& global, const record_options& options) {
  static stop_event stop;  // static: a signal may arrive while the program ends
  if (options.requests && !options.outputs.empty()) {
    throw std::runtime_error("--requests records what is sent, which has no outputs: leave out --output");
  }
  std::signal(SIGXFSZ, SIG_IGN);
  listener from{global};
  const pipeline_info pipeline = pipeline_of(from.first(), options.pipeline);
  if (options.requests) {
    require_one_input(pipeline, "a recording");
  }
  recordings written{{.to = options.to,
                      .outputs = options.outputs,
                      .requests = options.requests,
                      .rate = options.rate,
                      .max_bytes = options.max_bytes,
                      .replace = options.force,
                      .recorder = std::string("penstock ") + version},
                     pipeline};
  subscribe_options wanted;
  wanted.sessions = options.sessions;
  wanted.outputs = options.outputs;
  wanted.requests = options.requests;
  from.subscribe(options.pipeline, wanted);
  end_stream_on_signals(stop);
  const steady_clock::time_point begin = steady_clock::now();
  std::optional<steady_clock::time_point> until;
  if (options.duration.count() > 0) {
    until = begin + options.duration;
  }
  bool full = false;
  const auto take = [&](const published& item, std::size_t shard) {
    full = full || !written.take(item, shard);
    if (full) {
      stop.request();
    }
  };
  from.run(take, stop, until, true);
  written.close();
  print(written, options, full, steady_clock::now() - begin);
  if (stop.signal() != 0) {
    return 128 + stop.signal();
  }
  return written.items() > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

void declare_record(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "record",
      "Records what clients get of a pipeline, or send to it, as SigMF: with the numbers and times of the samples, a\n"
      "capture for each gap. `penstock replay` sends a recording again.");
  const auto options = std::make_shared<record_options>();
  command->add_option("PIPELINE", options->pipeline, "Which pipeline; `penstock info` lists them")
      ->type_name("")
      ->required();
  command
      ->add_option("--to", options->to,
                   "A folder for a recording of each session and output, or NAME.sigmf-meta for the only one")
      ->type_name("PATH")
      ->required();
  command->add_flag("--requests", options->requests, "Record what the clients send, instead of the results");
  command->add_option("--output", options->outputs, "Record this output alone; may be given again")
      ->type_name("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--session", options->sessions,
                   "Record sessions of such names alone: * stands for any letters, ? for one; may be given again")
      ->type_name("PATTERN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_duration(*command, "--for", options->duration, "End after so long")->default_str("");
  const auto read_size = [most = &options->max_bytes](const CLI::results_t& texts) {
    const auto parsed = parse_size(texts.back());
    if (!parsed) {
      throw CLI::ConversionError("--max-bytes: \"" + texts.back() + "\" is no size: " + parsed.fault);
    }
    *most = *parsed;
    return true;
  };
  command->add_option("--max-bytes", read_size, "End before there are more bytes of samples (8 MiB, 1.5 GB, ...)")
      ->type_name("SIZE");
  add_rate(*command, options->rate, "Samples of the input a second, where the samples' times do not tell it")
      ->type_name("HZ");
  command->add_flag("--force", options->force, "Replace a recording that is there; in a folder none is replaced");
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return record(global, *options); }; });
}

}  // namespace penstock::cli
