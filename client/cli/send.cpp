#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include <penstock/session.hpp>
#include <unistd.h>

#include "client/cli/commands.hpp"
#include "client/cli/frame_stream.hpp"
#include "client/cli/gallery.hpp"
#include "client/cli/input_stream.hpp"
#include "client/cli/result_files.hpp"
#include "client/cli/sample_source.hpp"
#include "client/cli/sample_time.hpp"
#include "client/cli/stream_signals.hpp"

namespace penstock::cli {
namespace {

struct send_options {
  std::string pipeline;
  std::string file;
  std::string out;
  std::string color = "auto";
  std::vector<std::string> outputs;
  std::optional<result_format> format;
  std::chrono::nanoseconds flush = std::chrono::milliseconds{100};
  std::uint32_t frames_per_request = 1;
  std::uint32_t in_flight = 16;
  std::optional<int> channel;
  double rate = 0;                    ///< 0: not given
  std::optional<std::int64_t> index;  ///< of the first sample
  std::optional<std::int64_t> time_ns;
  std::optional<std::string> session;  ///< its name; "" = one by itself
  bool view = false;
  bool raw = false;
  bool force = false;

  [[nodiscard]] input_kind kind() const { return raw ? input_kind::raw : input_kind::automatic; }
};

void have_writes_fail() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

terminal picture_terminal(const send_options& options) {
  terminal found = terminal_at(STDOUT_FILENO);
  if (options.color == "never") {
    found.colors = color_depth::none;
  } else if (options.color == "always" && found.colors == color_depth::none) {
    found.colors = color_depth::full;
  }
  return found;
}

/// Frames of a live stream have variable length.
sample_clock clock_of(const pipeline_info& pipeline, const std::optional<sound_format>& sound,
                      const send_options& options, bool is_live) {
  sample_clock clock;
  if (options.rate > 0) {
    clock.rate = options.rate;
  }
  if (!clock.rate && sound) {
    clock.rate = sound->rate;
  }
  clock.frame_samples = pipeline.input.shape.empty() ? 1 : pipeline.input.shape.front();
  clock.even_frames = !(pipeline.input.variable && is_live);
  clock.first_sample = options.index.value_or(0);
  clock.complex_input = pipeline.input.dtype == "c64" || pipeline.input.element.starts_with('c');
  return clock;
}

/// The numbers of the samples, where the user gave one.
std::optional<sample_numbers> numbers_of(const send_options& options, const sample_clock& clock) {
  if (!options.index && !options.time_ns) {
    return std::nullopt;
  }
  if (options.time_ns && !clock.rate) {
    throw std::runtime_error("--time needs to know how many samples there are a second: say --rate");
  }
  return sample_numbers{options.index.value_or(0), options.time_ns, clock.rate.value_or(0)};
}

void check_frames(const send_options& options, const pipeline_info& pipeline, const server_info& server) {
  const std::size_t frame = pipeline.input.frame_bytes();
  const std::uint64_t bytes = std::uint64_t{frame} * options.frames_per_request;
  if (frame == 0) {
    throw std::runtime_error("the pipeline's input " + pipeline.input.text() + " is not known to this version");
  }
  if (options.frames_per_request > pipeline.max_frames || bytes > server.max_request_bytes) {
    throw std::runtime_error(
        "a request to \"" + pipeline.name + "\" may have at most " +
        std::to_string(std::min<std::uint64_t>(pipeline.max_frames, server.max_request_bytes / frame)) +
        " frames: lower --frames-per-request");
  }
}

/// In a session, requests of several frames must have a length that is a multiple of the period.
void check_period(const send_options& options, const pipeline_info& pipeline) {
  const auto length = static_cast<std::uint64_t>(pipeline.input.shape.empty() ? 0 : pipeline.input.shape.front());
  if (options.frames_per_request > 1 && pipeline.period > 1 && length % pipeline.period != 0) {
    throw std::runtime_error("frames of " + std::to_string(length) + " through \"" + pipeline.name +
                             "\" travel one by one, because they are no multiple of " +
                             std::to_string(pipeline.period) + ": leave out --frames-per-request");
  }
}

/// The session that the user chose or the pipeline needs.
std::optional<session> open_session(client& daemon, const pipeline_info& pipeline, const send_options& options) {
  if (!options.session && !pipeline.keeps_state) {
    return std::nullopt;
  }
  check_period(options, pipeline);
  return daemon.open_session(pipeline.name, options.session.value_or(""));
}

std::string session_text(const std::optional<session>& line, const send_options& options) {
  if (!line) {
    return "";
  }
  return options.session ? "the session \"" + std::string(line->name()) + "\""
                         : "a session, because the pipeline keeps state";
}

/// Destinations of results.
struct destinations {
  gallery pictures;
  std::optional<result_files> files;
  progress_bar bar;
  bool view = false;
  std::optional<live_view> live;

  [[nodiscard]] frame_stream::sink sink() {
    frame_stream::sink sink;
    sink.next = [this](const result& next) {
      if (files) {
        files->append(next);
      }
      if (live) {
        live->add(next);
      } else if (view) {
        pictures.add(next);
      }
    };
    sink.missing = [this](std::uint64_t frames) {
      if (files) {
        files->append_missing(frames);
      }
    };
    sink.moved = [this](const progress& now) { bar.show(now); };
    return sink;
  }
};

/// Messages go to standard error when the results use the standard output.
void print(const stream_report& report, const pipeline_info& pipeline, destinations& outputs, const terminal& screen,
           bool interrupted, std::ostream& out) {
  if (outputs.view) {
    constexpr int lines_of_figures = 8;
    out << "\n" << outputs.pictures.draw(screen, lines_of_figures);
  }
  out << report_text(report, pipeline);
  const auto files = outputs.files ? outputs.files->summary() : std::vector<std::string>{};
  for (const std::string& line : files) {
    out << "  wrote       " << line << "\n";
  }
  if (!files.empty() && !report.errors.empty()) {
    out << "  note        frames without a result are NaN, or 0 in integers, in these files"
        << (report.session.empty() ? "\n" : "; streams of rows go on without them\n");
  }
  if (report.frames == 0 && !interrupted) {
    std::cerr << "penstock: the input is shorter than one frame: nothing was sent\n";
  }
}

result_files::settings files_of(const send_options& options, bool streams,
                                const std::optional<sample_numbers>& numbers) {
  result_files::settings settings;
  settings.folder = options.out;
  settings.format = options.format.value_or(options.out == "-" ? result_format::csv : result_format::npy);
  settings.existing = options.force ? existing_file::replace : existing_file::keep;
  settings.outputs = options.outputs;
  settings.streams = streams;
  settings.numbers = numbers;
  return settings;
}

void check_options(const send_options& options) {
  if (options.out.empty() && (options.format || options.force || !options.outputs.empty())) {
    throw std::runtime_error("--format, --output and --force are about what --out writes: say --out DIR, or --out -");
  }
  if (options.out == "-" && options.view) {
    throw std::runtime_error("--view draws on the standard output, where the results go: leave out one of them");
  }
}

int exit_code(const stream_report& report, const stop_event& stop) {
  if (stop.signal() != 0) {
    return 128 + stop.signal();
  }
  return report.errors.empty() && report.frames > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int send(const global_options& global, const send_options& options) {
  check_options(options);
  have_writes_fail();
  static stop_event stop;  // static: a signal may arrive while the program ends
  input_stream input{options.file, stop};
  client daemon{client_options_of(global)};
  const pipeline_info pipeline = pipeline_of(daemon, options.pipeline);
  check_frames(options, pipeline, daemon.server());
  end_stream_on_signals(stop);
  sample_source source{input, options.kind(), options.channel, pipeline.input};
  const sample_clock clock = clock_of(pipeline, source.sound(), options, source.is_live());
  const std::optional<sample_numbers> numbers = numbers_of(options, clock);
  std::optional<session> line = open_session(daemon, pipeline, options);
  const bool draws_live = options.view && source.is_live() && picture_terminal(options).interactive;
  destinations outputs{
      gallery{pipeline, clock},
      {},
      progress_bar{std::cerr, draws_live ? terminal{} : terminal_at(STDERR_FILENO), source.expected_bytes()},
      options.view,
      {}};
  if (draws_live) {
    outputs.live.emplace(
        outputs.pictures, [&options] { return picture_terminal(options); }, std::cout);
  }
  if (!options.out.empty()) {
    // Frames of a live stream have variable length.
    outputs.files.emplace(files_of(options, line.has_value() || (source.is_live() && pipeline.input.variable), numbers),
                          pipeline);
  }
  const frame_stream::settings settings{options.frames_per_request, options.in_flight, global.timeout, options.flush,
                                        numbers};
  const auto submit = [&](const client::request& request, completion done) {
    if (line) {
      line->submit(request, std::move(done));
    } else {
      daemon.submit(pipeline.name, request, std::move(done));
    }
  };
  stream_report report = frame_stream{submit, pipeline, settings, outputs.sink(), stop}.run(source);
  report.session = session_text(line, options);
  outputs.live.reset();
  outputs.bar.clear();
  if (outputs.files) {
    outputs.files->finish();
  }
  for (const std::string& note : source.notes()) {
    std::cerr << "penstock: " << input.name() << ": " << note << "\n";
  }
  std::ostream& out = options.out == "-" ? std::cerr : std::cout;
  print(report, pipeline, outputs, picture_terminal(options), stop.signal() != 0, out);
  errno = 0;
  if (!out.flush()) {
    throw std::runtime_error(std::string("can't write to the standard output: ") + std::strerror(errno));
  }
  return exit_code(report, stop);
}

}  // namespace

void declare_send(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "send",
      "Streams a recording, or live samples from stdin, through a pipeline, frame after frame.\n"
      "Sound files (WAV, FLAC, AIFF, AU, W64 and RF64) and .npy arrays must hold what the pipeline takes; any other\n"
      "file is taken for its raw bytes, unless it is of a kind that holds none. WAV, .npy and raw samples may be "
      "piped.");
  const auto options = std::make_shared<send_options>();
  command->add_option("-p,--pipeline", options->pipeline, "Which pipeline; `penstock info` lists them")
      ->type_name("NAME")
      ->required();
  command->add_option("FILE", options->file, "The recording; - is stdin")->type_name("")->required();
  command->add_option("-o,--out", options->out, "Write each output as OUTPUT.npy into this folder; - is stdout")
      ->type_name("DIR");
  command->add_flag("--view", options->view, "Draw each output in the terminal, live input as it comes");
  command->add_option("-k,--frames-per-request", options->frames_per_request, "Frames that travel together")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("K")
      ->capture_default_str();
  command->add_option("--in-flight", options->in_flight, "Requests that are under way at once, within the credits")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--session", options->session,
                   "Send the frames through a session of that name; without a name, after FILE, of a random one.\n"
                   "Pipelines that keep state get one without being asked")
      ->expected(0, 1)
      ->type_name("[NAME]");
  command->add_option("--channel", options->channel, "Take this one channel of a sound file; the first is 1")
      ->type_name("N");
  const std::map<std::string, result_format> formats{{"npy", result_format::npy},
                                                     {"raw", result_format::raw},
                                                     {"csv", result_format::csv},
                                                     {"jsonl", result_format::jsonl}};
  command->add_option("--format", options->format, "What --out writes: npy, or on stdout csv, where it is not said")
      ->transform(CLI::CheckedTransformer(formats).description(""))
      ->type_name("npy|raw|csv|jsonl");
  command->add_option("--output", options->outputs, "Write this output alone; may be given again")
      ->type_name("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--force", options->force, "Replace results that are there");
  command->add_flag("--raw", options->raw, "Take the file's bytes for samples, whatever it begins with");
  add_duration(*command, "--flush", options->flush,
               "How long samples of a live input wait for a full frame or request");
  add_rate(*command, options->rate, "Samples a second, for the axes of --view; a sound file says it itself")
      ->type_name("HZ");
  command
      ->add_option("--index", options->index,
                   "The number of the first sample; results are written with the numbers of theirs")
      ->type_name("N");
  const auto read_time = [time = &options->time_ns](const CLI::results_t& texts) {
    *time = parse_time(texts.back());
    if (!*time) {
      throw CLI::ConversionError("--time: \"" + texts.back() +
                                 "\" is no time: say now, seconds since 1970, or 2026-11-27T20:15:00.5Z");
    }
    return true;
  };
  command->add_option("--time", read_time, "The time of the first sample, in UTC; results are written with theirs")
      ->type_name("TIME");
  command->add_option("--color", options->color, "Colours in pictures")
      ->check(CLI::IsMember({"auto", "always", "never"}).description(""))
      ->type_name("auto|always|never")
      ->capture_default_str();
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return send(global, *options); }; });
}

}  // namespace penstock::cli
