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

#include "base/quantity.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/frame_stream.hpp"
#include "client/cli/gallery.hpp"
#include "client/cli/input_stream.hpp"
#include "client/cli/recorded_requests.hpp"
#include "client/cli/result_files.hpp"
#include "client/cli/sample_source.hpp"
#include "client/cli/sample_time.hpp"

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
  double pace = 1;  ///< of replay; 0: as fast as it goes

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

/// What is known of the samples before they are sent.
struct stream_facts {
  sample_clock clock{};
  std::optional<sample_numbers> numbers{};
  std::optional<std::uint64_t> bytes{};
  bool may_be_filled = false;  ///< some of them may be filled in
  bool is_live = false;
  bool comes_slowly = false;  ///< so it is drawn as it comes
};

/// Frames of a live stream have variable length. `own_rate`: that the samples come with; 0: none.
sample_clock clock_of(const pipeline_info& pipeline, double own_rate, const send_options& options, bool is_live) {
  sample_clock clock;
  if (options.rate > 0) {
    clock.rate = options.rate;
  }
  if (!clock.rate && own_rate > 0) {
    clock.rate = own_rate;
  }
  clock.frame_samples = pipeline.input.samples();
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
  require_one_input(pipeline, "what is sent");
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

result_files::settings files_of(const send_options& options, bool streams, const stream_facts& facts) {
  result_files::settings settings;
  settings.folder = options.out;
  settings.format = options.format.value_or(options.out == "-" ? result_format::csv : result_format::npy);
  settings.existing = options.force ? existing_file::replace : existing_file::keep;
  settings.outputs = options.outputs;
  settings.streams = streams;
  settings.numbers = facts.numbers;
  settings.filled = facts.may_be_filled;
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

/// Runs a stream through the pipeline, in a session where there is one.
class stream_command {
 public:
  stream_command(const global_options& global, const send_options& options, stop_event& stop)
      : global_(global),
        options_(options),
        stop_(stop),
        daemon_(client_options_of(global)),
        pipeline_(pipeline_of(daemon_, options.pipeline)) {
    check_frames(options, pipeline_, daemon_.server());
  }

  [[nodiscard]] const pipeline_info& pipeline() const noexcept { return pipeline_; }

  /// `source` is what frame_stream::run takes, and `notes` says at the end what there is to say of it. Returns the exit
  /// code.
  template <class Source>
  int run(Source& source, const stream_facts& facts, const std::function<void(std::ostream& out)>& notes) {
    line_ = open_session(daemon_, pipeline_, options_);
    const std::string in_session = session_text(line_, options_);
    const bool draws_live = options_.view && facts.comes_slowly && picture_terminal(options_).interactive;
    destinations outputs{gallery{pipeline_, facts.clock},
                         {},
                         progress_bar{std::cerr, draws_live ? terminal{} : terminal_at(STDERR_FILENO), facts.bytes},
                         options_.view,
                         {}};
    if (draws_live) {
      outputs.live.emplace(
          outputs.pictures, [this] { return picture_terminal(options_); }, std::cout);
    }
    if (!options_.out.empty()) {
      // Frames of a live stream have variable length.
      const bool streams = line_.has_value() || (facts.is_live && pipeline_.input.variable);
      outputs.files.emplace(files_of(options_, streams, facts), pipeline_);
    }
    const frame_stream::settings settings{options_.frames_per_request, options_.in_flight, global_.timeout,
                                          options_.flush, facts.numbers};
    const auto submit = [this](const client::request& request, completion done) { send(request, std::move(done)); };
    stream_report report = frame_stream{submit, pipeline_, settings, outputs.sink(), stop_}.run(source);
    report.session = in_session;
    outputs.live.reset();
    outputs.bar.clear();
    if (outputs.files) {
      outputs.files->finish();
    }
    std::ostream& out = options_.out == "-" ? std::cerr : std::cout;
    print(report, pipeline_, outputs, picture_terminal(options_), stop_.signal() != 0, out);
    notes(out);
    errno = 0;
    if (!out.flush()) {
      throw std::runtime_error(std::string("can't write to the standard output: ") + std::strerror(errno));
    }
    return exit_code(report, stop_);
  }

 private:
  /// Another epoch begins with fresh state, in a session whose name says it, as those of the daemon's sources.
  void send(const client::request& request, completion done) {
    if (line_ && request.account && (request.account->flags & sample_account::epoch_begins) != 0) {
      const std::string end = request.account->epoch == 0 ? "" : "/" + std::to_string(request.account->epoch);
      const std::string name = options_.session.value_or("");
      line_.reset();
      line_ = daemon_.open_session(pipeline_.name, name.empty() ? name : name + end);
    }
    if (line_) {
      line_->submit(request, std::move(done));
    } else {
      daemon_.submit(pipeline_.name, request, std::move(done));
    }
  }

  const global_options& global_;
  const send_options& options_;
  stop_event& stop_;
  client daemon_;
  pipeline_info pipeline_;
  std::optional<session> line_;
};

int send(const global_options& global, const send_options& options) {
  check_options(options);
  have_writes_fail();
  static stop_event stop;  // static: a signal may arrive while the program ends
  if (options.file.ends_with(".sigmf-meta") && !options.raw) {
    throw std::runtime_error(options.file + " is a recording: `penstock replay` sends it");
  }
  input_stream input{options.file, stop};
  stream_command command{global, options, stop};
  end_stream_on_signals(stop);
  sample_source source{input, options.kind(), options.channel, command.pipeline().input};
  stream_facts facts;
  facts.is_live = facts.comes_slowly = source.is_live();
  facts.clock = clock_of(command.pipeline(), source.sound() ? source.sound()->rate : 0, options, facts.is_live);
  facts.numbers = numbers_of(options, facts.clock);
  facts.bytes = source.expected_bytes();
  return command.run(source, facts, [&](std::ostream&) {
    for (const std::string& note : source.notes()) {
      std::cerr << "penstock: " << input.name() << ": " << note << "\n";
    }
  });
}

int replay(const global_options& global, const send_options& options) {
  check_options(options);
  have_writes_fail();
  static stop_event stop;  // static: a signal may arrive while the program ends
  stream_command command{global, options, stop};
  end_stream_on_signals(stop);
  recorded_requests recording{
      options.file, command.pipeline(), {options.frames_per_request, options.pace, options.rate}, stop};
  stream_facts facts;
  facts.clock = clock_of(command.pipeline(), recording.rate(), options, false);
  facts.numbers = recording.first();
  facts.clock.first_sample = facts.numbers->index;
  facts.may_be_filled = !command.pipeline().input.variable;
  facts.bytes = recording.bytes();
  facts.comes_slowly = options.pace > 0;
  const std::function<std::optional<stream_request>()> next = [&] { return recording.next(); };
  return command.run(next, facts, [&](std::ostream& out) {
    const recorded_requests::figures& sent = recording.so_far();
    const auto text = [](std::uint64_t count) { return count_text(static_cast<double>(count)); };
    out << "  samples     " << text(sent.samples) << " in " << text(sent.captures)
        << (sent.captures == 1 ? " capture" : " captures") << ", " << text(sent.lost) << " declared lost, "
        << text(sent.filled) << " filled in\n";
  });
}

}  // namespace

namespace {

/// What both commands have: the pipeline, and where results go.
void add_stream_options(CLI::App* command, send_options* options) {
  command->add_option("-p,--pipeline", options->pipeline, "Which pipeline; `penstock info` lists them")
      ->type_name("NAME")
      ->required();
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
  command->add_option("--color", options->color, "Colours in pictures")
      ->check(CLI::IsMember({"auto", "always", "never"}).description(""))
      ->type_name("auto|always|never")
      ->capture_default_str();
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
  add_stream_options(command, options.get());
  command->add_option("FILE", options->file, "The recording; - is stdin")->type_name("")->required();
  command
      ->add_option("--session", options->session,
                   "Send the frames through a session of that name; without a name, after FILE, of a random one.\n"
                   "Pipelines that keep state get one without being asked")
      ->expected(0, 1)
      ->type_name("[NAME]");
  command->add_option("--channel", options->channel, "Take this one channel of a sound file; the first is 1")
      ->type_name("N");
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
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return send(global, *options); }; });
}

void declare_replay(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "replay",
      "Sends a SigMF recording through a pipeline, as `penstock record` writes it, at its own pace and with its\n"
      "numbers, times and gaps. A pipeline with frames of a fixed length gets zeros where a capture does not fill\n"
      "one.");
  const auto options = std::make_shared<send_options>();
  command->add_option("FILE", options->file, "The recording: NAME.sigmf-meta, with NAME.sigmf-data beside it")
      ->type_name("")
      ->required();
  add_stream_options(command, options.get());
  const auto read_pace = [pace = &options->pace](const CLI::results_t& texts) {
    const std::string& text = texts.back();
    const auto times = parse_positive(text.ends_with('x') ? text.substr(0, text.size() - 1) : text);
    if (text != "free" && !times) {
      throw CLI::ConversionError("--pace: \"" + text + "\" is no pace: say 1x, 10x or free");
    }
    *pace = text == "free" ? 0 : *times;
    return true;
  };
  command->add_option("--pace", read_pace, "How fast: as the samples came, so many times faster, or as it goes")
      ->type_name("1x|10x|free")
      ->default_str("1x");
  command
      ->add_option("--session", options->session,
                   "Send it through a session of that name. Pipelines that keep state get one without being asked")
      ->type_name("NAME");
  add_rate(*command, options->rate, "Samples a second, where the recording does not say it, or another")
      ->type_name("HZ");
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return replay(global, *options); }; });
}

}  // namespace penstock::cli
