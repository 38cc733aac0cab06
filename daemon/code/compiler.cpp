#include "daemon/code/compiler.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.hpp"
#include "base/whole_file.hpp"
#include "daemon/code/compiler_messages.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace penstock {
namespace {

constexpr std::size_t most_cached_bytes = std::size_t{256} << 20U;
constexpr std::size_t most_header_bytes = std::size_t{16} << 20U;
constexpr std::size_t most_headers = 4096;

/// The hash of texts, each with its length.
class digest {
 public:
  digest() { ::crypto_hash_sha256_init(&state_); }
  void add(std::string_view text) {
    const std::uint64_t size = text.size();
    update({reinterpret_cast<const char*>(&size), sizeof size});
    update(text);
  }
  [[nodiscard]] std::string hex() {
    std::array<unsigned char, crypto_hash_sha256_BYTES> bytes{};
    ::crypto_hash_sha256_final(&state_, bytes.data());
    std::string text(2 * bytes.size() + 1, '\0');
    ::sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
    text.pop_back();
    return text;
  }

 private:
  void update(std::string_view text) {
    ::crypto_hash_sha256_update(&state_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  crypto_hash_sha256_state state_{};
};

/// The compiler does not say which headers it read: all files of its folders count.
void add_headers(digest& key, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder)) {
    if (each.is_regular_file()) {
      files.push_back(each.path());
    }
    if (files.size() > most_headers) {
      throw code_error("the folder " + folder.string() + " has more than " + std::to_string(most_headers) + " files");
    }
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    key.add(file.string());
    key.add(read_whole_file(file, most_header_bytes));
  }
}

/// A text that stands for the file of a library and changes with it.
std::string key_of(const user_code& code, std::string_view architecture) {
  digest key;
  key.add("penstock code 1");
  key.add(architecture);
  key.add(std::to_string(static_cast<int>(code.kind)));
  key.add(code.name);
  key.add(code.text);
  key.add(code.entry);
  for (const std::string& option : code.options) {
    key.add(option);
  }
  for (const std::filesystem::path& folder : code.include) {
    add_headers(key, folder);
  }
  return key.hex();
}

std::optional<compile_reply> find_cached(const std::filesystem::path& file) {
  try {
    return std::filesystem::exists(file) ? decode_reply(read_whole_file(file, most_cached_bytes)) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;  // it is made again
  }
}

/// A cache that can't be written costs time, no more.
void keep(const std::filesystem::path& file, std::string_view text) {
  const std::filesystem::path part = file.string() + "." + std::to_string(::getpid());
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  {
    std::ofstream out(part, std::ios::binary);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    if (!out.flush()) {
      std::filesystem::remove(part, ignored);
      return;
    }
  }
  std::filesystem::rename(part, file, ignored);
}

struct pipe_ends {
  file_descriptor read;
  file_descriptor write;
};

pipe_ends make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw compiler_error(std::string("the compiler's process can't be started: ") + std::strerror(errno));
  }
  return {file_descriptor(ends[0]), file_descriptor(ends[1])};
}

/// A process that is killed and waited for when it has not ended.
class child_process {
 public:
  child_process(const std::filesystem::path& program, int input, int output) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    std::string name = program.string();
    std::string word(compile_word);
    char* words[] = {name.data(), word.data(), nullptr};
    const int failed = ::posix_spawn(&id_, name.c_str(), &actions, &attributes, words, environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
      throw compiler_error(name + " can't be started: " + std::strerror(failed));
    }
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  ~child_process() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      (void)wait();
    }
  }

  /// The status of waitpid.
  int wait() noexcept {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = -1;
    return status;
  }

 private:
  pid_t id_ = -1;
};

/// Sends the question and takes the answer, both ends without blocking. Throws compiler_error when it takes too long.
std::string talk(file_descriptor question, file_descriptor answer, std::string_view asked,
                 std::chrono::steady_clock::time_point until) {
  ::fcntl(question.number(), F_SETFL, O_NONBLOCK);
  ::fcntl(answer.number(), F_SETFL, O_NONBLOCK);
  std::string said;
  std::array<char, 65536> piece{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      throw compiler_error("");
    }
    std::array<pollfd, 2> ends{{{answer.number(), POLLIN, 0}, {question.number(), POLLOUT, 0}}};
    if (::poll(ends.data(), question ? 2 : 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1000))) < 0) {
      continue;
    }
    if (question && ends[1].revents != 0) {
      const ssize_t count = ::write(question.number(), asked.data(), asked.size());
      asked.remove_prefix(count < 0 ? 0 : static_cast<std::size_t>(count));
      if (asked.empty() || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        question.close();
      }
    }
    if (ends[0].revents != 0) {
      const ssize_t count = ::read(answer.number(), piece.data(), piece.size());
      if (count == 0) {
        return said;
      }
      said.append(piece.data(), count < 0 ? 0 : static_cast<std::size_t>(count));
    }
  }
}

compile_reply compile_in_process(const compile_request& request, const compiler_settings& settings) {
  pipe_ends question = make_pipe();
  pipe_ends answer = make_pipe();
  child_process compiler(settings.program, question.read.number(), answer.write.number());
  question.read.close();
  answer.write.close();
  std::string said;
  try {
    said = talk(std::move(question.write), std::move(answer.read), encode_request(request),
                std::chrono::steady_clock::now() + settings.time_limit);
  } catch (const compiler_error&) {
    throw code_error(request.code.name + ": its compilation took longer than " +
                     std::to_string(settings.time_limit.count()) + " s and was ended");
  }
  const int status = compiler.wait();
  if (WIFSIGNALED(status)) {
    throw code_error(request.code.name + ": the compiler crashed on it (" + ::strsignal(WTERMSIG(status)) + ")");
  }
  std::optional<compile_reply> reply = decode_reply(said);
  if (!reply) {
    throw compiler_error("the compiler's process ended with " + std::to_string(WEXITSTATUS(status)) + " and no answer");
  }
  return std::move(*reply);
}

/// The kernel that is meant, if the compiler has not said.
void choose_kernel(machine_code& made, const user_code& code) {
  if (!made.symbol.empty() && code.kind == code_kind::cuda) {
    return;
  }
  const std::vector<kernel_usage> kernels = usage_of(made.binary);
  std::string names;
  for (const kernel_usage& each : kernels) {
    names += (names.empty() ? "" : ", ") + each.symbol;
  }
  if (code.entry.empty() && kernels.size() != 1) {
    throw code_error(code.name + ": it has " + (kernels.empty() ? "no kernel" : "several kernels: " + names) +
                     (kernels.empty() ? "" : "; say which in entry"));
  }
  const auto meant = std::find_if(kernels.begin(), kernels.end(), [&](const kernel_usage& each) {
    return code.entry.empty() || each.symbol == code.entry;
  });
  if (meant == kernels.end()) {
    throw code_error(code.name + ": there is no kernel '" + code.entry + "'; it has " +
                     (names.empty() ? "none" : names));
  }
  made.symbol = meant->symbol;
}

/// "sm_90" of "sm_90a".
std::string_view without_suffix(std::string_view architecture) noexcept {
  return architecture.substr(0, architecture.find_last_not_of("af") + 1);
}

machine_code take_cubin(const user_code& code, std::string_view architecture) {
  const std::string is = architecture_of(code.text);
  if (!is.empty() && without_suffix(is) != without_suffix(architecture)) {
    throw code_error(code.name + ": it is for " + is + ", and the device is " + std::string(architecture));
  }
  return {code.text, code.entry, ""};
}

}  // namespace

std::string target_of(const user_code& code, std::string_view architecture) {
  constexpr std::string_view directive = "\n.target ";
  const std::size_t at = code.kind == code_kind::ptx ? code.text.find(directive) : std::string::npos;
  if (at == std::string::npos) {
    return std::string(architecture);
  }
  const std::string_view rest = std::string_view(code.text).substr(at + directive.size());
  const std::string_view target = rest.substr(0, rest.find_first_of(" ,\t\r\n"));
  return std::string(without_suffix(target) == architecture ? target : architecture);
}

machine_code compile(const user_code& code, std::string_view device, const compiler_settings& settings) {
  const std::string architecture = target_of(code, device);
  machine_code made;
  if (code.kind == code_kind::cubin) {
    made = take_cubin(code, architecture);
    choose_kernel(made, code);
    return made;
  }
  const std::filesystem::path file =
      settings.cache.empty() ? "" : settings.cache / (key_of(code, architecture) + ".code");
  if (std::optional<compile_reply> cached = file.empty() ? std::nullopt : find_cached(file)) {
    return std::move(cached->code);
  }
  compile_reply reply = compile_in_process({code, architecture}, settings);
  switch (reply.status) {
    case compile_status::done:
      break;
    case compile_status::code_is_wrong:
      throw code_error(reply.message);
    default:
      throw compiler_error(reply.message);
  }
  choose_kernel(reply.code, code);
  if (!file.empty()) {
    keep(file, encode_reply(reply));
  }
  return std::move(reply.code);
}

}  // namespace penstock
