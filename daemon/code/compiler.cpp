#include "daemon/code/compiler.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <cxxabi.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child_process.hpp"
#include "base/descriptors.hpp"
#include "base/guarded_file.hpp"
#include "base/printable.hpp"
#include "base/process_limits.hpp"
#include "base/sha256.hpp"
#include "daemon/code/code_cache.hpp"
#include "daemon/code/compiler_messages.hpp"
#include "penstock_cuh.hpp"

namespace penstock {

/// What compile_ahead made, by key: machine code, or what `compile` throws instead.
class compiled_code {
 public:
  struct result {
    std::string key;
    machine_code code;
    std::exception_ptr error;
  };

  explicit compiled_code(std::vector<result> results) {
    for (result& each : results) {
      by_key_.emplace(each.key, std::move(each));
    }
  }
  /// nullptr where nothing was made.
  [[nodiscard]] const result* find(const std::string& key) const noexcept {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, result> by_key_;
};

namespace {

/// A text that is another if the file is.
std::string state_of(const std::filesystem::path& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) {
    return file.string() + " is missing";
  }
  return file_state(file, found);
}

/// Stands for everything that machine code depends on but for the compiler's own file.
std::string key_of(const user_code& code, std::string_view architecture) {
  sha256 key;
  key.add_sized("penstock code 2");
  key.add_sized(penstock_cuh);
  for (const char* const variable : compiler_variables) {
    const char* const value = std::getenv(variable);
    key.add_sized(value == nullptr ? "" : value);
  }
  key.add_sized(architecture);
  key.add_sized(std::to_string(static_cast<int>(code.kind)));
  key.add_sized(code.name);
  key.add_sized(code.text);
  key.add_sized(code.entry);
  for (const std::string& option : code.options) {
    key.add_sized("option");
    key.add_sized(option);
  }
  for (const std::filesystem::path& folder : code.include) {
    key.add_sized("include");
    key.add_sized(folder.string());
  }
  key.add_sized(code.headers);
  return key.digits();
}

/// What the compiler made, and the state of its file.
std::string encode_entry(const compile_reply& reply) {
  return framed(state_of(reply.compiler)) + encode_reply(reply);
}

/// Nothing if the compiler is another by now.
std::optional<machine_code> decode_entry(std::string_view text) {
  const std::optional<std::string_view> state = framed_text(text);
  if (!state) {
    return std::nullopt;
  }
  text.remove_prefix(framed(*state).size());
  std::optional<compile_reply> reply = decode_reply(text);
  return reply && state_of(reply->compiler) == *state ? std::optional(std::move(reply->code)) : std::nullopt;
}

/// Sockets: a write to one whose other end is closed need not end the process.
struct socket_pair {
  file_descriptor own;
  file_descriptor child;

  socket_pair() {
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw compiler_error(std::string("the compiler's process can't be started: ") + std::strerror(errno));
    }
    own = file_descriptor(ends[0]);
    child = file_descriptor(ends[1]);
  }
};

/// A compiler in a process of its own, for one request after the other. Thread: one.
class compiler_process {
 public:
  explicit compiler_process(const compiler_settings& settings) : settings_(settings) {}

  /// A process that has ended is replaced, and so is one that was given up. An earlier kernel may have hurt it: only a
  /// kernel that ends a fresh one is at fault.
  compile_reply compile(const compile_request& request) {
    for (bool is_used = child_.has_value();; is_used = false) {
      if (!child_) {
        start();
      }
      std::optional<compile_reply> reply;
      try {
        reply = ask(request);
      } catch (...) {
        child_.reset();
        throw;
      }
      if (reply) {
        return std::move(*reply);
      }
      question_.close();
      const int status = child_->wait();
      child_.reset();
      if (!is_used) {
        refuse(request, status);
      }
    }
  }

 private:
  void start() {
    socket_pair question;
    socket_pair answer;
    const std::array words{std::string(compile_word)};
    try {
      child_.emplace(settings_.program, words, question.child.number(), answer.child.number());
    } catch (const std::system_error& error) {
      throw compiler_error(std::string("the compiler's process, ") + error.what());
    }
    question_ = std::move(question.own);
    answer_ = std::move(answer.own);
    ::fcntl(question_.number(), F_SETFL, O_NONBLOCK);
    ::fcntl(answer_.number(), F_SETFL, O_NONBLOCK);
  }

  [[noreturn]] static void refuse(const compile_request& request, int status) {
    if (WIFSIGNALED(status) && !was_ended_by_others(status)) {
      throw code_error(request.code.name + ": the compiler crashed on it (" + ::strsignal(WTERMSIG(status)) + ")");
    }
    throw compiler_error("the compiler's process " + ending_text(status) + " and gave no answer about " +
                         request.code.name);
  }

  /// Nothing if the process ended without an answer.
  std::optional<compile_reply> ask(const compile_request& request) {
    const std::string received = talk(request);
    const std::optional<std::string_view> text = framed_text(received);
    return text ? decode_reply(*text) : std::nullopt;
  }

  /// What came until the answer was whole, or the process closed its end.
  std::string talk(const compile_request& request) {
    const auto until = std::chrono::steady_clock::now() + settings_.time_limit;
    const std::string asked = framed(encode_request(request));
    std::string_view left = asked;
    std::string received;
    while (!framed_text(received)) {
      const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      if (rest.count() <= 0) {
        throw code_error(request.code.name + ": its compilation took longer than " +
                         std::to_string(settings_.time_limit.count()) + " s and was ended");
      }
      std::array<pollfd, 2> ends{{{answer_.number(), POLLIN, 0}, {question_.number(), POLLOUT, 0}}};
      if (::poll(ends.data(), left.empty() ? 1 : 2, static_cast<int>(std::min<std::int64_t>(rest.count(), 1000))) < 0) {
        continue;
      }
      if (!left.empty() && ends[1].revents != 0) {
        const ssize_t count = ::send(question_.number(), left.data(), left.size(), MSG_NOSIGNAL);
        const bool closed = count < 0 && errno != EAGAIN && errno != EINTR;
        left.remove_prefix(closed ? left.size() : count < 0 ? 0 : static_cast<std::size_t>(count));
      }
      if (ends[0].revents != 0 && !take(received)) {
        break;
      }
    }
    return received;
  }

  /// False at the end.
  bool take(std::string& received) {
    std::array<char, 65536> piece{};
    const ssize_t count = ::read(answer_.number(), piece.data(), piece.size());
    received.append(piece.data(), count < 0 ? 0 : static_cast<std::size_t>(count));
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  }

  const compiler_settings& settings_;
  std::optional<child_process> child_;
  file_descriptor question_;
  file_descriptor answer_;
};

/// The kernel that is meant, if the compiler has not said.
void choose_kernel(machine_code& made, const user_code& code) {
  if (!made.symbol.empty() && code.kind == code_kind::cuda) {
    return;
  }
  const std::vector<kernel_usage> kernels = usage_of(made.binary);
  std::string names;
  for (const kernel_usage& each : kernels) {
    names += (names.empty() ? "" : ", ") + printable(readable_name(each.symbol));
  }
  if (code.entry.empty() && kernels.size() != 1) {
    throw code_error(code.name + ": it has " + (kernels.empty() ? "no kernel" : "several kernels: " + names) +
                     (kernels.empty() ? "" : "; say which in entry"));
  }
  const auto meant = std::find_if(kernels.begin(), kernels.end(), [&](const kernel_usage& each) {
    return code.entry.empty() || each.symbol == code.entry || readable_name(each.symbol) == code.entry;
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
    throw code_error(code.name + ": it is for " + is + ", and the device is " + std::string(architecture) +
                     ": compile it for that (nvcc --cubin --gpu-architecture=" + std::string(architecture) +
                     "), or give the .cu or .ptx file");
  }
  machine_code made{code.text, code.entry, ""};
  choose_kernel(made, code);
  return made;
}

/// The same; an error names the file.
machine_code take_named_cubin(const user_code& code, std::string_view architecture) {
  try {
    return take_cubin(code, architecture);
  } catch (const code_error& error) {
    const std::string what = error.what();
    throw code_error(what.starts_with(code.name) ? what : code.name + ": " + what);
  }
}

/// Of CUDA C++ or PTX.
machine_code compile_source(const compile_request& request, const std::string& key, const code_cache& cache,
                            compiler_process& compiler) {
  if (const std::optional<std::string> kept = cache.find(key)) {
    if (std::optional<machine_code> found = decode_entry(*kept)) {
      return std::move(*found);
    }
  }
  compile_reply reply = compiler.compile({request.code, target_of(request.code, request.architecture)});
  switch (reply.status) {
    case compile_status::done:
      break;
    case compile_status::code_is_wrong:
      throw code_error(reply.message);
    default:
      throw compiler_error(reply.message);
  }
  choose_kernel(reply.code, request.code);
  cache.keep(key, encode_entry(reply));
  return std::move(reply.code);
}

std::size_t processors() {
  return std::max<std::size_t>(read_machine_share().processors, 1);
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

std::string readable_name(const std::string& symbol) {
  int failed = 0;
  char* const name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &failed);
  if (name == nullptr) {
    return symbol;
  }
  std::string text(name);
  std::free(name);  // NOLINT(cppcoreguidelines-no-malloc): it is malloc's
  // "void twice<float>(float const*, float*)": a template's return type comes with it.
  text = text.substr(0, text.find('('));
  constexpr std::string_view no_result = "void ";
  return text.starts_with(no_result) ? text.substr(no_result.size()) : text;
}

machine_code compile(const user_code& code, std::string_view architecture, const compiler_settings& settings) {
  if (code.kind == code_kind::cubin) {
    return take_named_cubin(code, architecture);
  }
  const std::string key = key_of(code, architecture);
  if (const compiled_code::result* const made = settings.ahead ? settings.ahead->find(key) : nullptr) {
    if (made->error) {
      std::rethrow_exception(made->error);
    }
    return made->code;
  }
  compiler_process compiler(settings);
  return compile_source({code, std::string(architecture)}, key, code_cache(settings.cache), compiler);
}

std::shared_ptr<const compiled_code> compile_ahead(std::span<const compile_request> requests,
                                                   const compiler_settings& settings) {
  std::vector<const compile_request*> asked;
  std::vector<compiled_code::result> results;
  for (const compile_request& each : requests) {
    const bool has_source = each.code.kind != code_kind::cubin;
    const std::string key = has_source ? key_of(each.code, each.architecture) : "";
    const bool is_new = std::none_of(results.begin(), results.end(), [&](const auto& one) { return one.key == key; });
    if (has_source && is_new) {
      asked.push_back(&each);
      results.push_back({key, {}, nullptr});
    }
  }
  std::atomic<std::size_t> next{0};
  const code_cache cache(settings.cache);
  const auto work = [&] {
    compiler_process compiler(settings);
    for (std::size_t at = next++; at < asked.size(); at = next++) {
      try {
        results[at].code = compile_source(*asked[at], results[at].key, cache, compiler);
      } catch (...) {
        results[at].error = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t more = 1; more < std::min(processors(), asked.size()); ++more) {
      others.emplace_back(work);
    }
    work();
  }
  return std::make_shared<const compiled_code>(std::move(results));
}

}  // namespace penstock
