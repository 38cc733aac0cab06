#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.hpp"
#include "base/npy.hpp"
#include "base/quantity.hpp"
#include "base/whole_file.hpp"
#include "client/cli/commands.hpp"
#include "kernels/plugin.hpp"
#include "kernels/plugin_library.hpp"
#include "kernels/proof.hpp"

namespace penstock::cli {
namespace {

constexpr std::size_t largest_plugin = std::size_t{256} << 20U;
constexpr std::size_t threads_at_once = 4;

struct plugin_options {
  std::string file;
  std::string entry;
  std::vector<std::string> inputs{"f32[1024]"};
  std::vector<std::string> values;
  std::int64_t max_frames = 16;
};

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw std::runtime_error("\"" + text + "\" " + why);
}

std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> pieces;
  for (;;) {
    const std::size_t comma = text.find(',');
    std::string_view piece = text.substr(0, comma);
    while (piece.starts_with(' ')) {
      piece.remove_prefix(1);
    }
    while (piece.ends_with(' ')) {
      piece.remove_suffix(1);
    }
    pieces.emplace_back(piece);
    if (comma == text.npos) {
      return pieces;
    }
    text.remove_prefix(comma + 1);
  }
}

/// "f32[max 512, 2]": as tensor_spec::text prints it.
tensor_spec parse_input(const std::string& text) {
  constexpr const char* rule = "is no frame: give it as f32[1024] or \"f32[max 512, 2]\"";
  constexpr std::string_view most = "max ";
  const std::size_t bracket = text.find('[');
  const std::optional<element_type> type = element_type_of(text.substr(0, bracket));
  if (!type || bracket == text.npos || !text.ends_with(']')) {
    refuse(text, rule);
  }
  tensor_spec made{.type = *type, .shape = {}};
  for (std::string& each : pieces_of(std::string_view(text).substr(bracket + 1, text.size() - bracket - 2))) {
    if (made.shape.empty() && each.starts_with(most)) {
      made.variable = true;
      each.erase(0, most.size());
    }
    const std::optional<std::int64_t> extent = parse_number<std::int64_t>(each);
    if (!extent || *extent < 1 || *extent > (std::int64_t{1} << 30)) {
      refuse(text, rule);
    }
    made.shape.push_back(*extent);
  }
  return made;
}

/// true, 3, 0.5, [1, 2], window.npy, or a text.
parameters::value parse_value(const std::string& text) {
  if (text == "true" || text == "false") {
    return text == "true";
  }
  if (const auto whole = parse_number<std::int64_t>(text)) {
    return *whole;
  }
  if (const auto real = parse_number<double>(text)) {
    return *real;
  }
  if (text.ends_with(".npy")) {
    npy_array array = read_npy(text);
    if (array.is_complex) {
      refuse(text, "has complex numbers");
    }
    return std::move(array.real);
  }
  if (!text.starts_with('[') || !text.ends_with(']')) {
    return text;
  }
  std::vector<std::string> texts = pieces_of(std::string_view(text).substr(1, text.size() - 2));
  std::vector<double> numbers;
  for (const std::string& each : texts) {
    if (const auto number = parse_number<double>(each)) {
      numbers.push_back(*number);
    }
  }
  if (numbers.size() == texts.size()) {
    return numbers;
  }
  return texts;
}

parameters stage_of(const plugin_options& options) {
  auto values = std::make_shared<parameters>();
  for (const std::string& each : options.values) {
    const std::size_t equals = each.find('=');
    if (equals == 0 || equals == each.npos) {
      refuse(each, "is no value: give it as NAME=VALUE");
    }
    values->set(each.substr(0, equals), parse_value(each.substr(equals + 1)));
  }
  parameters stage;
  code_file file{.name = options.file, .path = options.file, .text = ""};
  try {
    file.library = load_plugin(read_whole_file(options.file, largest_plugin));
  } catch (const file_refused& error) {
    throw std::runtime_error(options.file + ": " + error.what());
  } catch (const plugin_error& error) {
    throw std::runtime_error(options.file + ": " + error.what());
  }
  stage.set("file", std::make_shared<const code_file>(std::move(file)));
  stage.set("values", std::shared_ptr<const parameters>(std::move(values)));
  if (!options.entry.empty()) {
    stage.set("entry", options.entry);
  }
  return stage;
}

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void print_library(const plugin_options& options, const plugin_library& library) {
  std::cout << options.file << ": ABI " << PENSTOCK_PLUGIN_ABI << ", " << counted(library.operators.size(), "operator")
            << ":";
  for (const ps_operator* each : library.operators) {
    std::cout << " " << each->name;
  }
  std::cout << "\n";
}

/// What the operator says of itself.
std::string facts_text(const plugin_inference& inferred, const operation& made) {
  std::string text = "makes ";
  for (const operator_output& each : inferred.outputs) {
    text += (each.name.empty() ? "" : each.name + " ") + each.spec.text() + ", ";
  }
  text += std::to_string(made.scratch_bytes()) + " bytes of scratch";
  if (inferred.state_bytes != 0) {
    text += ", " + std::to_string(inferred.state_bytes) + " bytes of state a session, by " +
            (inferred.session()->whole_frames ? "frames" : "rows");
  }
  return text;
}

void check(const plugin_options& options) {
  std::vector<tensor_spec> inputs;
  std::string specs;
  for (const std::string& each : options.inputs) {
    inputs.push_back(parse_input(each));
    specs += (specs.empty() ? "" : " and ") + inputs.back().text();
  }
  const parameters stage = stage_of(options);
  print_library(options, *stage.code("file").library);
  const ps_operator& asked = plugin_operator(stage, "file");
  const plugin_inference inferred = infer_with(asked, stage, inputs);
  const std::unique_ptr<operation> made = make_plugin(asked, {stage, inputs, options.max_frames});
  std::cout << asked.name << " of " << specs << ": " << facts_text(inferred, *made) << std::endl;
  proof_subject subject{.subject = *made,
                        .inputs = inputs,
                        .outputs = {},
                        .session = inferred.session(),
                        .max_frames = options.max_frames,
                        .overwrites = made->overwrites()};
  for (const operator_output& each : inferred.outputs) {
    subject.outputs.push_back(each.spec);
  }
  proof_settings settings;
  settings.most_bytes = std::size_t{64} << 20U;
  settings.proven = [](const std::string& rule) { std::cout << "ok  " << rule << std::endl; };
  try {
    const std::unique_ptr<proof_device> host = make_host_proof_device();
    static_cast<void>(prove(*host, subject, settings));
    prove_threads(make_host_proof_device, subject, threads_at_once, settings);
  } catch (const proof_error& error) {
    throw std::runtime_error(options.file + ": operator '" + asked.name + "': " + error.what());
  }
}

int run_check(const plugin_options& options) {
  try {
    check(options);
    return EXIT_SUCCESS;
  } catch (const parameter_error& error) {
    std::cerr << "penstock: " << options.file << ": " << (error.field.empty() ? "" : error.field + " ") << error.what()
              << "\n";
  } catch (const std::exception& error) {
    std::cerr << "penstock: " << error.what() << "\n";
  }
  return EXIT_FAILURE;
}

/// In a process of its own, so that a plug-in that crashes is told from one that does not.
int check_plugin(const plugin_options& options) {
  std::cout.flush();
  std::array<int, 2> pipe{-1, -1};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "can't make a pipe");
  }
  const file_descriptor read_end(pipe[0]);
  file_descriptor write_end(pipe[1]);
  const pid_t child = ::fork();
  if (child == -1) {
    throw std::system_error(errno, std::generic_category(), "can't start a process");
  }
  if (child == 0) {
    const int outcome = run_check(options);
    std::cout.flush();
    std::cerr.flush();
    // Whoever ends the process before this is the plug-in.
    const char came_to_the_end = 1;
    static_cast<void>(!::write(write_end.number(), &came_to_the_end, 1));
    ::_exit(outcome);
  }
  write_end.close();
  int status = 0;
  while (::waitpid(child, &status, 0) == -1 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    throw std::runtime_error(options.file + ": it crashes: " + ::strsignal(WTERMSIG(status)));
  }
  if (char came_to_the_end = 0; ::read(read_end.number(), &came_to_the_end, 1) != 1) {
    throw std::runtime_error(options.file + ": it ends the process, with " + std::to_string(WEXITSTATUS(status)));
  }
  return WEXITSTATUS(status);
}

}  // namespace

void declare_check_plugin(CLI::App& app, action& chosen) {
  auto* const command =
      app.add_subcommand("check-plugin",
                         "Checks a plug-in of your own on this machine's processor, without a daemon: its interface, "
                         "and on made-up frames\n"
                         "that it writes its own memory alone and gives a frame the same result in every batch.");
  const auto options = std::make_shared<plugin_options>();
  command->add_option("file", options->file, "The plug-in, a shared library")->type_name("FILE")->required();
  command->add_option("--entry", options->entry, "Which operator; not needed where there is one")->type_name("NAME");
  command
      ->add_option("--input", options->inputs,
                   "The frame of its input, such as f32[1024] or \"cf32[max 512, 2]\"; once for each of several")
      ->type_name("FRAME")
      ->take_all()
      ->expected(1)
      ->default_str("f32[1024]");
  command
      ->add_option(
          "--values", options->values,
          "One of the stage's values: window=100, \"taps=[0.5, 0.5]\", table=win.npy; once for each of several")
      ->type_name("NAME=VALUE")
      ->take_all()
      ->expected(1);
  command->add_option("--max-frames", options->max_frames, "The most frames of a batch")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  command->callback([&chosen, options] { chosen = [options] { return check_plugin(*options); }; });
}

}  // namespace penstock::cli
