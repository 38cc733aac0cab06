#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/quantity.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/gallery.hpp"
#include "client/cli/input_stream.hpp"
#include "client/cli/listener.hpp"

namespace penstock::cli {
namespace {

using std::chrono::steady_clock;

struct watch_options {
  std::string pipeline;
  std::vector<std::string> sessions;
  std::vector<std::string> outputs;
  std::string color = "auto";
  double rate = 0;          ///< 0: not given
  std::uint64_t count = 0;  ///< 0: until a signal
  bool view = false;
  bool requests = false;
};

// A view shows one publisher at a time; another one once that has been quiet for so long.
constexpr std::chrono::seconds quiet{2};

std::string shape_text(const tensor_view& tensor) {
  std::string text(tensor.dtype);
  for (std::size_t axis = 0; axis < tensor.dimensions; ++axis) {
    text += (axis == 0 ? "[" : ", ") + std::to_string(tensor.extents[axis]);
  }
  return text + "]";
}

/// "antenna 1 of radio-1"; without a session the client alone.
std::string name_of(const published& item) {
  return item.session.empty() ? item.client : item.session + " of " + item.client;
}

std::string line_of(const published& item) {
  std::string line = std::to_string(item.sequence) + "  " + name_of(item) + "  ";
  for (std::size_t at = 0; at < item.outputs.outputs().size(); ++at) {
    const tensor_view& output = item.outputs.outputs()[at];
    line += (at == 0 ? "" : ", ") + std::string(output.name) + " " + shape_text(output);
  }
  const auto& account = item.outputs.account();
  if (account && account->filled > 0) {
    line += "  " + count_text(static_cast<double>(account->filled)) + " filled in";
  }
  return line;
}

std::string count_of(std::uint64_t count, bool requests) {
  return count_text(static_cast<double>(count)) + (requests ? " request" : " result") + (count == 1 ? "" : "s");
}

/// Takes the results, or requests, of all shards, one at a time, and shows them.
class watcher {
 public:
  watcher(const watch_options& options, const pipeline_info& pipeline, stop_event& stop)
      : options_(options), stop_(stop), screen_(screen_of(options)) {
    if (options.view) {
      sample_clock clock;
      if (options.rate > 0) {
        clock.rate = options.rate;
      }
      clock.frame_samples = pipeline.input.samples();
      clock.even_frames = !pipeline.input.variable;
      clock.complex_input = pipeline.input.dtype == "c64" || pipeline.input.element.starts_with('c');
      pictures_.emplace(pipeline, clock);
      if (screen_.interactive) {
        live_.emplace(
            *pictures_, [&options] { return screen_of(options); }, std::cout);
      }
    }
  }

  void take(const published& item) {
    if (options_.count > 0 && results_ == options_.count) {
      return;
    }
    ++results_;
    lost_ += item.lost;
    restarts_ += item.restarted ? 1U : 0U;
    publishers_.insert(name_of(item));
    if (pictures_) {
      draw(item);
    } else {
      print(item);
    }
    if (results_ == options_.count) {
      stop_.request();
    }
  }

  void finish() {
    live_.reset();
    if (pictures_ && results_ > 0) {
      constexpr int lines_of_figures = 4;
      std::cout << "\n" << pictures_->draw(screen_, lines_of_figures);
    }
    std::ostream& out = pictures_ ? std::cout : std::cerr;
    out << count_of(results_, options_.requests) << " of "
        << (publishers_.size() == 1 ? *publishers_.begin() : std::to_string(publishers_.size()) + " publishers");
    out << (lost_ > 0 ? ", " + count_of(lost_, options_.requests) + " lost" : "")
        << (restarts_ > 0 ? ", the daemon was restarted" : "") << "\n";
    if (hidden_ > 0) {
      out << count_of(hidden_, options_.requests) << " of others not drawn: --session chooses\n";
    }
  }

 private:
  static terminal screen_of(const watch_options& options) {
    terminal found = terminal_at(STDOUT_FILENO);
    if (options.color == "never") {
      found.colors = color_depth::none;
    } else if (options.color == "always" && found.colors == color_depth::none) {
      found.colors = color_depth::full;
    }
    return found;
  }

  void draw(const published& item) {
    const steady_clock::time_point now = steady_clock::now();
    const std::string name = name_of(item);
    if (name != shown_ && !shown_.empty() && now - shown_at_ < quiet) {
      ++hidden_;
      return;
    }
    shown_ = name;
    shown_at_ = now;
    if (live_) {
      live_->add(item.outputs);
    } else {
      pictures_->add(item.outputs);
    }
  }

  void print(const published& item) const {
    if (item.restarted) {
      std::cout << "the daemon was restarted\n";
    }
    if (item.lost > 0) {
      std::cout << count_of(item.lost, options_.requests) << " lost\n";
    }
    std::cout << line_of(item) << std::endl;  // NOLINT: a reader behind a pipe sees each as it comes
  }

  const watch_options& options_;
  stop_event& stop_;
  terminal screen_;
  std::optional<gallery> pictures_;
  std::optional<live_view> live_;
  std::uint64_t results_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t restarts_ = 0;
  std::uint64_t hidden_ = 0;
  std::set<std::string> publishers_;
  std::string shown_;
  steady_clock::time_point shown_at_;
};

/// The pipeline with those tensors alone that are watched.
pipeline_info watched(pipeline_info pipeline, const watch_options& options) {
  const std::vector<std::string>& outputs = options.outputs;
  if (options.requests) {
    pipeline.outputs = pipeline.inputs;
  } else if (!outputs.empty()) {
    std::erase_if(pipeline.outputs, [&](const tensor_info& each) {
      return std::find(outputs.begin(), outputs.end(), each.name) == outputs.end();
    });
  }
  return pipeline;
}

int watch(const global_options& global, const watch_options& options) {
  static stop_event stop;  // static: a signal may arrive while the program ends
  listener from{global};
  const pipeline_info pipeline = watched(pipeline_of(from.first(), options.pipeline), options);
  subscribe_options wanted;
  wanted.sessions = options.sessions;
  wanted.outputs = options.outputs;
  wanted.requests = options.requests;
  from.subscribe(options.pipeline, wanted);
  end_stream_on_signals(stop);
  watcher shown{options, pipeline, stop};
  try {
    from.run([&shown](const published& item, std::size_t) { shown.take(item); }, stop);
  } catch (...) {
    shown.finish();
    throw;
  }
  shown.finish();
  return stop.signal() != 0 ? 128 + stop.signal() : EXIT_SUCCESS;
}

}  // namespace

void declare_watch(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "watch",
      "Shows the results that other clients get of a pipeline, as they come: a line for each, or its outputs drawn.\n"
      "What the terminal is too slow for is left out, and said.");
  const auto options = std::make_shared<watch_options>();
  command->add_option("PIPELINE", options->pipeline, "Which pipeline; `penstock info` lists them")
      ->type_name("")
      ->required();
  command->add_flag("--view", options->view, "Draw each output in the terminal, of one session at a time");
  command
      ->add_option("--session", options->sessions,
                   "Watch sessions of such names alone: * stands for any letters, ? for one; may be given again")
      ->type_name("PATTERN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--output", options->outputs, "Watch this output alone; may be given again")
      ->type_name("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--requests", options->requests, "Watch what the clients send, instead of the results");
  command->add_option("-n,--count", options->count, "End after so many results")
      ->check(CLI::Range(1, 1'000'000'000).description(""))
      ->type_name("N");
  add_rate(*command, options->rate, "Samples a second, for the axes of --view")->type_name("HZ");
  command->add_option("--color", options->color, "Colours in pictures")
      ->check(CLI::IsMember({"auto", "always", "never"}).description(""))
      ->type_name("auto|always|never")
      ->capture_default_str();
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return watch(global, *options); }; });
}

}  // namespace penstock::cli
