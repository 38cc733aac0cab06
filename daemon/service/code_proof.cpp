#include "daemon/service/code_proof.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/child_process.hpp"
#include "base/descriptors.hpp"
#include "base/whole_file.hpp"
#include "daemon/code/code_cache.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/service/start.hpp"
#include "kernels/proof.hpp"

namespace penstock {
namespace {

// Lines of the process: a word, a blank, and its text.
constexpr std::string_view ready_word = "ready";       // once all is compiled
constexpr std::string_view makes_word = "makes ";      // with the name of a pipeline whose stages are made
constexpr std::string_view begins_word = "begins ";    // with the key of a stage
constexpr std::string_view proven_word = "proven ";    // with the key of a stage
constexpr std::string_view refused_word = "refused ";  // with what is wrong with a stage
constexpr std::string_view failed_word = "failed ";    // with why the process can't do its work

/// To open the device and compile what no cache keeps.
constexpr std::chrono::minutes longest_preparation{10};

/// A stage and where it stands.
struct proof_task {
  configuration_place place;
  std::string key;
};

std::vector<proof_task> tasks_of(const plan& made) {
  std::vector<proof_task> tasks;
  for (std::size_t at = 0; at < made.stages.size(); ++at) {
    if (!made.stages[at].code_key.empty()) {
      const stage_declaration& stage = made.declaration.stages[at];
      tasks.push_back({stage.place(made.declaration.name, "file"), made.stages[at].code_key});
    }
  }
  return tasks;
}

std::string cache_key(const std::string& code_key) {
  return "proof-" + code_key;
}

std::vector<std::string> own_words() {
  const std::string all = read_kernel_file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\0', begin), all.size());
    words.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  words.erase(words.begin(), words.begin() + std::min<std::ptrdiff_t>(1, std::ssize(words)));
  return words;
}

struct pipe_ends {
  file_descriptor read;
  file_descriptor write;
};

pipe_ends make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "no pipe to the process that runs users' code");
  }
  return {file_descriptor(ends[0]), file_descriptor(ends[1])};
}

/// Lines that come through a pipe.
class line_reader {
 public:
  explicit line_reader(file_descriptor from) : from_(std::move(from)) {}

  enum class outcome { line, end, late };
  outcome next(std::string& line, std::chrono::steady_clock::time_point until) {
    for (;;) {
      if (const std::size_t end = text_.find('\n'); end != std::string::npos) {
        line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return outcome::line;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      if (left.count() <= 0) {
        return outcome::late;
      }
      pollfd ready{from_.number(), POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1000))) <= 0) {
        continue;
      }
      std::array<char, 4096> piece{};
      const ssize_t count = ::read(from_.number(), piece.data(), piece.size());
      if (count == 0) {
        return outcome::end;
      }
      text_.append(piece.data(), count < 0 ? 0 : static_cast<std::size_t>(count));
    }
  }

 private:
  file_descriptor from_;
  std::string text_;
};

/// One process that proves stages.
class proof_process {
 public:
  proof_process(const std::map<std::string, configuration_place>& tasks, const code_cache& cache,
                const proof_options& options)
      : tasks_(tasks), cache_(cache), options_(options) {}

  void run() {
    pipe_ends keys = make_pipe();
    pipe_ends lines = make_pipe();
    std::vector<std::string> words = own_words();
    words.emplace_back(prove_flag);
    child_process child(options_.program, words, keys.read.number(), lines.write.number());
    keys.read.close();
    lines.write.close();
    std::string all;
    for (const auto& [key, place] : tasks_) {
      all += key + '\n';
    }
    // If it has ended, its other pipe tells.
    static_cast<void>(write_all(keys.write.number(), all));
    keys.write.close();
    line_reader reader(std::move(lines.read));
    std::string line;
    for (;;) {
      const std::chrono::seconds limit = is_ready_ ? options_.time_limit : longest_preparation;
      switch (reader.next(line, std::chrono::steady_clock::now() + limit)) {
        case line_reader::outcome::line:
          take(line);
          break;
        case line_reader::outcome::late:
          child.kill();
          refuse_current("it did not end within " + std::to_string(limit.count()) + " s on made-up frames");
        case line_reader::outcome::end:
          finish(child.wait());
          return;
      }
    }
  }

 private:
  void take(const std::string& line) {
    if (line == ready_word) {
      is_ready_ = true;
    } else if (line.starts_with(makes_word)) {
      made_ = line.substr(makes_word.size());
    } else if (line.starts_with(begins_word)) {
      current_ = line.substr(begins_word.size());
    } else if (line.starts_with(proven_word)) {
      const std::string key = line.substr(proven_word.size());
      cache_.keep(cache_key(key), "proven");
      proven_.insert(key);
      current_.clear();
    } else if (line.starts_with(refused_word)) {
      throw configuration_error(line.substr(refused_word.size()));
    } else if (line.starts_with(failed_word)) {
      throw device_error("users' code could not be proven: " + line.substr(failed_word.size()));
    }
  }

  void finish(int status) const {
    if (was_ended_by_others(status)) {
      throw device_error("users' code could not be proven: the process that ran it on made-up frames " +
                         ending_text(status));
    }
    if (status != 0) {
      refuse_current("the process that ran it on made-up frames " + ending_text(status));
    }
    if (!current_.empty()) {
      refuse_current("it ended the process that ran it on made-up frames");
    }
    for (const auto& [key, place] : tasks_) {
      if (!proven_.contains(key)) {
        throw configuration_error(place.text() + ": its code or its stage was changed while it was proven: try again");
      }
    }
  }

  [[noreturn]] void refuse_current(const std::string& why) const {
    const auto found = tasks_.find(current_);
    if (found == tasks_.end() && !made_.empty()) {
      throw configuration_error("pipeline '" + made_ + "', while its stages with users' code were made: " + why);
    }
    if (found == tasks_.end()) {
      throw device_error("users' code could not be proven: " + why);
    }
    refuse(found->second, why);
  }

  const std::map<std::string, configuration_place>& tasks_;
  const code_cache& cache_;
  const proof_options& options_;
  bool is_ready_ = false;
  std::string made_;     // the pipeline whose stages are made or run
  std::string current_;  // the key of the stage that runs
  std::set<std::string> proven_;
};

}  // namespace

std::size_t prove_code(std::span<const pipeline_declaration* const> pipelines, const std::string& architecture,
                       const compile_options& code, const proof_options& options) {
  const auto has_users_code = [](const pipeline_declaration* pipeline) {
    return std::any_of(pipeline->stages.begin(), pipeline->stages.end(), runs_users_code);
  };
  if (std::none_of(pipelines.begin(), pipelines.end(), has_users_code)) {
    return 0;
  }
  const std::unique_ptr<device> host = open_host_device(1);
  compile_options checks = code;
  checks.checks_for = architecture;
  const code_cache cache(code.compiler.cache);
  std::map<std::string, configuration_place> tasks;
  for (const pipeline_declaration* const each : pipelines) {
    if (has_users_code(each)) {
      for (proof_task& task : tasks_of(compile_plan(*each, 0, *host, 8, checks))) {
        if (!cache.find(cache_key(task.key))) {
          tasks.emplace(std::move(task.key), std::move(task.place));
        }
      }
    }
  }
  if (!tasks.empty()) {
    try {
      proof_process(tasks, cache, options).run();
    } catch (const std::system_error& error) {
      throw device_error(std::string("users' code could not be proven: ") + error.what());
    }
  }
  return tasks.size();
}

prepared_code prepare_and_prove(const code_settings& code, std::span<const pipeline_declaration* const> pipelines,
                                std::span<const device* const> devices) {
  prepared_code made = prepare_code(code, pipelines, architectures_of(devices));
  if (code.proof) {
    made.proven = prove_code(pipelines, devices.front()->facts().architecture, made.options);
  }
  return made;
}

prepared_code prepare_and_prove(const settings& settings, std::span<const device* const> devices) {
  std::vector<const pipeline_declaration*> all;
  for (const pipeline_declaration& each : settings.pipelines) {
    all.push_back(&each);
  }
  return prepare_and_prove(settings.code, all, devices);
}

namespace {

/// A proof on a device of the daemon.
class device_proof final : public proof_device {
 public:
  explicit device_proof(device& target) : device_(target), stream_(target.open_stream(stream_priority::normal)) {}

  [[nodiscard]] std::byte* allocate(std::size_t bytes) override {
    memory_ = device_.allocate(bytes);
    pinned_ = device_.allocate_pinned(bytes);
    return memory_.get();
  }
  fault write(std::byte* to, std::span<const std::byte> from) noexcept override {
    std::copy(from.begin(), from.end(), pinned_.get());
    const fault failed = stream_->copy_in(to, pinned_.get(), from.size());
    return failed ? failed : stream_->synchronize();
  }
  fault read(std::span<std::byte> to, const std::byte* from) noexcept override {
    fault failed = stream_->copy_out(pinned_.get(), from, to.size());
    failed = failed ? failed : stream_->synchronize();
    std::copy_n(pinned_.get(), to.size(), to.begin());
    return failed;
  }
  fault run(operation& subject, const operation_arguments& arguments) noexcept override {
    const fault failed = stream_->launch(subject, arguments);
    return failed ? failed : stream_->synchronize();
  }

 private:
  device& device_;
  std::unique_ptr<stream> stream_;
  device_memory memory_;
  device_memory pinned_;
};

std::vector<tensor_spec> specs_of(const plan& made, std::span<const std::size_t> buffers) {
  std::vector<tensor_spec> specs;
  for (const std::size_t buffer : buffers) {
    specs.push_back(made.buffers[buffer].spec);
  }
  return specs;
}

proof_subject subject_of(const plan& made, const plan_stage& stage, operation& subject) {
  proof_subject asked{.subject = subject, .inputs = specs_of(made, stage.inputs), .outputs = {}};
  for (std::size_t output = 0; output < stage.outputs; ++output) {
    asked.outputs.push_back(made.buffers[stage.output + output].spec);
  }
  if (stage.state) {
    asked.session = stage.state->traits;
  }
  asked.max_frames = made.max_frames;
  asked.overwrites = subject.overwrites();
  return asked;
}

/// The same stage on the host; nullptr where it has nothing for it.
std::unique_ptr<operation> host_operation(const plan& made, const plan_stage& stage,
                                          const stage_declaration& declared) {
  if (stage.op == "kernel" && !declared.settings.has("host")) {
    return nullptr;
  }
  const std::vector<tensor_spec> inputs = specs_of(made, stage.inputs);
  try {
    return find_operator(stage.op)->make_host({declared.settings, inputs, made.max_frames});
  } catch (const parameter_error&) {
    return nullptr;  // it is for a GPU alone
  }
}

void prove_stage(const plan& made, std::size_t at, device& target) {
  const plan_stage& stage = made.stages[at];
  const stage_declaration& declared = made.declaration.stages[at];
  const std::string& pipeline = made.declaration.name;
  try {
    device_proof bench(target);
    const proof_subject subject = subject_of(made, stage, *stage.compiled);
    const proof_results given = prove(bench, subject);
    if (target.facts().backend == "host") {
      return;
    }
    const std::unique_ptr<operation> host = host_operation(made, stage, declared);
    if (host == nullptr) {
      return;
    }
    const proof_results expected = prove(*make_host_proof_device(), subject_of(made, stage, *host));
    const std::string differs =
        compare_results(subject.outputs, expected, given, declared.settings.number("tolerance", 1e-4));
    if (!differs.empty()) {
      refuse(declared.place(pipeline, stage.op == "kernel" ? "host" : "file"),
             "the host's results and the GPU's are not the same: " + differs +
                 "; `tolerance` is how much they may differ, as a part of the largest number");
    }
  } catch (const proof_error& error) {
    refuse(declared.place(pipeline, "file"), std::string("on made-up frames: ") + error.what());
  }
}

void say(int answers, std::string_view word, const std::string& text = "") {
  std::string line = std::string(word) + text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  static_cast<void>(write_all(answers, line + '\n'));  // nobody may wait for it any more
}

}  // namespace

exit_code run_proof_process(const settings& settings, int answers) {
  // Libraries of AOTInductor then compare their inputs with what they were compiled for: a package may lie.
  ::setenv("AOTI_RUNTIME_CHECK_INPUTS", "1", 1);
  std::set<std::string> wanted;
  for (std::string key; std::getline(std::cin, key);) {
    wanted.insert(key);
  }
  try {
    const opened_device opened = open_device(settings.device);
    const compile_options code =
        prepare_code(settings, architectures_of(std::array{std::as_const(opened.device).get()})).options;
    say(answers, ready_word);
    for (const pipeline_declaration& each : settings.pipelines) {
      if (std::none_of(each.stages.begin(), each.stages.end(), runs_users_code)) {
        continue;
      }
      say(answers, makes_word, each.name);
      const plan made =
          compile_plan(each, 0, *opened.device, static_cast<std::uint32_t>(settings.stream_pool.streams), code);
      for (std::size_t stage = 0; stage < made.stages.size(); ++stage) {
        const std::string& key = made.stages[stage].code_key;
        if (wanted.erase(key) != 0) {
          say(answers, begins_word, key);
          prove_stage(made, stage, *opened.device);
          say(answers, proven_word, key);
        }
      }
    }
  } catch (const configuration_error& error) {
    say(answers, refused_word, error.what());
  } catch (const std::exception& error) {
    say(answers, failed_word, error.what());
  }
  // After a fault the device may hold memory and threads for ever.
  std::_Exit(static_cast<int>(exit_code::ok));
}

}  // namespace penstock
