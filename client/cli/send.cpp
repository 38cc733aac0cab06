#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include <penstock/session.hpp>
#include <unistd.h>

#include "client/cli/commands.hpp"
#include "client/cli/frame_stream.hpp"
#include "client/cli/gallery.hpp"
#include "client/cli/result_files.hpp"
#include "client/cli/stream_report.hpp"

namespace penstock::cli {
namespace {

struct send_options {
  std::string pipeline;
  std::string file;
  std::string out;
  std::string color = "auto";
  input_format format = input_format::automatic;
  std::uint32_t frames_per_request = 1;
  std::uint32_t in_flight = 16;
  std::optional<int> channel;
  std::optional<double> rate;
  std::optional<std::string> session;  ///< its name; "" = one by itself
  bool view = false;
};

// A signal handler can reach nothing else. Writer: the handler. Reader: the thread that reads the samples.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

/// The first SIGINT ends the stream as the end of the input would; the second ends the program.
void end_stream_on_interrupt() {
  struct sigaction how {};
  how.sa_handler = [](int) { interrupted = true; };
  how.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &how, nullptr);
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

std::optional<std::uint64_t> size_of(const std::string& file) {
  std::error_code failure;
  const bool known = file != "-" && std::filesystem::is_regular_file(file, failure);
  const std::uintmax_t size = known ? std::filesystem::file_size(file, failure) : 0;
  return known && !failure ? std::optional<std::uint64_t>{size} : std::nullopt;
}

sample_clock clock_of(const pipeline_info& pipeline, const std::optional<wav_format>& wav,
                      const send_options& options) {
  sample_clock clock;
  clock.rate = options.rate;
  if (!clock.rate && wav) {
    clock.rate = wav->rate;
  }
  clock.frame_samples = pipeline.input.shape.empty() ? 1 : pipeline.input.shape.front();
  clock.complex_input = pipeline.input.dtype == "c64" || pipeline.input.element.starts_with('c');
  return clock;
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

/// In a session requests of several frames have a length that the operators' rates divide.
void check_period(const send_options& options, const pipeline_info& pipeline) {
  const auto length = static_cast<std::uint64_t>(pipeline.input.shape.empty() ? 0 : pipeline.input.shape.front());
  if (options.frames_per_request > 1 && pipeline.period > 1 && length % pipeline.period != 0) {
    throw std::runtime_error("frames of " + std::to_string(length) + " through \"" + pipeline.name +
                             "\" travel one by one, because they are no multiple of " +
                             std::to_string(pipeline.period) + ": leave out --frames-per-request");
  }
}

/// The session that was asked for, or that the pipeline needs.
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

/// The file, or stdin; throws when it can't be read.
class input_stream {
 public:
  explicit input_stream(const std::string& name) : is_file_(name != "-") {
    if (is_file_) {
      file_.open(name, std::ios::binary);
    }
    if (is_file_ && (!file_ || std::filesystem::is_directory(name))) {
      throw std::runtime_error("can't read " + name);
    }
  }
  [[nodiscard]] std::istream& get() { return is_file_ ? file_ : std::cin; }

 private:
  bool is_file_;
  std::ifstream file_;
};

/// Where results go.
struct destinations {
  gallery pictures;
  std::optional<result_files> files;
  progress_bar bar;
  bool view = false;

  [[nodiscard]] frame_stream::sink sink() {
    frame_stream::sink to;
    to.next = [this](const result& next) {
      if (files) {
        files->append(next);
      }
      if (view) {
        pictures.add(next);
      }
    };
    to.missing = [this](std::uint64_t frames) {
      if (files) {
        files->append_missing(frames);
      }
    };
    to.moved = [this](const progress& now) { bar.show(now); };
    return to;
  }
};

/// Bytes that will be sent, where that can be known: all of a file, or one channel's share of it.
std::optional<std::uint64_t> expected_bytes(const send_options& options, const sample_source& source) {
  const auto size = size_of(options.file);
  return size && options.channel && source.wav() ? *size / source.wav()->channels : size;
}

void print(const stream_report& report, const pipeline_info& pipeline, destinations& to, const terminal& where) {
  if (to.view) {
    constexpr int lines_of_figures = 8;
    std::cout << "\n" << to.pictures.draw(where, lines_of_figures);
  }
  std::cout << report_text(report, pipeline);
  for (const std::string& line : to.files ? to.files->summary() : std::vector<std::string>{}) {
    std::cout << "  wrote       " << line << "\n";
  }
  if (to.files && !report.errors.empty()) {
    std::cout << "  note        frames without a result are NaN, or 0 in integers, in these files"
              << (report.session.empty() ? "\n" : "; streams of rows go on without them\n");
  }
  if (report.frames == 0) {
    std::cerr << "penstock: the input is shorter than one frame: nothing was sent\n";
  }
}

int send(const global_options& global, const send_options& options) {
  input_stream input{options.file};
  client daemon{client_options_of(global)};
  const pipeline_info pipeline = pipeline_of(daemon, options.pipeline);
  check_frames(options, pipeline, daemon.server());
  sample_source source{input.get(), options.format, options.channel, pipeline.input};
  destinations to{gallery{pipeline, clock_of(pipeline, source.wav(), options)},
                  {},
                  progress_bar{std::cerr, terminal_at(STDERR_FILENO), expected_bytes(options, source)},
                  options.view};
  std::optional<session> line = open_session(daemon, pipeline, options);
  if (!options.out.empty()) {
    to.files.emplace(options.out, pipeline, line.has_value());
  }
  end_stream_on_interrupt();
  const frame_stream::settings how{options.frames_per_request, options.in_flight, global.timeout};
  const auto submit = [&](const client::request& what, completion done) {
    if (line) {
      line->submit(what, std::move(done));
    } else {
      daemon.submit(pipeline.name, what, std::move(done));
    }
  };
  stream_report report = frame_stream{submit, pipeline, how, to.sink(), interrupted}.run(source);
  report.session = session_text(line, options);
  to.bar.clear();
  if (to.files) {
    to.files->finish();
  }
  print(report, pipeline, to, picture_terminal(options));
  return report.errors.empty() && report.frames > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

void declare_send(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "send",
      "Streams a recording, or live samples from stdin, through a pipeline, frame after frame.\n"
      "A WAV file's samples must be what the pipeline takes; any other file is taken for its raw bytes.");
  const auto options = std::make_shared<send_options>();
  command->add_option("-p,--pipeline", options->pipeline, "Which pipeline; `penstock info` lists them")
      ->type_name("NAME")
      ->required();
  command->add_option("FILE", options->file, "The recording; - is stdin")->type_name("")->required();
  command->add_option("-o,--out", options->out, "Write each output as OUTPUT.npy into this folder")->type_name("DIR");
  command->add_flag("--view", options->view, "Draw each output in the terminal");
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
  command->add_option("--channel", options->channel, "Take this one channel of a WAV file; the first is 1")
      ->type_name("N");
  const std::map<std::string, input_format> formats{
      {"auto", input_format::automatic}, {"raw", input_format::raw}, {"wav", input_format::wav}};
  command->add_option("--format", options->format, "auto takes what begins with RIFF for WAV, and all else for raw")
      ->transform(CLI::CheckedTransformer(formats).description(""))
      ->type_name("auto|raw|wav")
      ->default_str("auto");
  command->add_option("--rate", options->rate, "Samples a second, for the axes of --view; a WAV file says it itself")
      ->check(CLI::PositiveNumber)
      ->type_name("HZ");
  command->add_option("--color", options->color, "Colours in pictures")
      ->check(CLI::IsMember({"auto", "always", "never"}).description(""))
      ->type_name("auto|always|never")
      ->capture_default_str();
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return send(global, *options); }; });
}

}  // namespace penstock::cli
