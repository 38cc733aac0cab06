#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/child_process.hpp"
#include "base/descriptors.hpp"
#include "daemon/code/compiler.hpp"
#include "daemon/code/compiler_messages.hpp"
#include "penstock_cuh.hpp"

namespace penstock {
namespace {

std::vector<std::string> folders() {
  std::vector<std::string> all{""};
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"}) {
    if (const char* toolkit = std::getenv(variable); toolkit != nullptr && *toolkit != '\0') {
      all.push_back(std::string(toolkit) + "/lib64/");
      all.push_back(std::string(toolkit) + "/targets/x86_64-linux/lib/");
    }
  }
  all.emplace_back("/usr/local/cuda/lib64/");
  all.emplace_back("/usr/local/cuda/targets/x86_64-linux/lib/");
  return all;
}

/// One of CUDA's compilers, opened at run time: a user installs it, or not.
class compiler_library {
 public:
  /// `variable` may name the file. Throws compiler_error.
  compiler_library(const std::string& name, const char* variable, const std::string& package,
                   const std::string& beside = {}) {
    std::vector<std::string> paths;
    if (const char* chosen = std::getenv(variable); chosen != nullptr && *chosen != '\0') {
      paths.emplace_back(chosen);
    } else {
      for (const std::string& folder : folders()) {
        for (const char* major : {".so.13", ".so.12"}) {
          paths.push_back(folder + name + major);
        }
      }
    }
    std::string failure;
    for (const std::string& path : paths) {
      if (!beside.empty()) {
        open_beside(path, beside);
      }
      library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
      if (library_ != nullptr) {
        return;
      }
      const char* const reason = ::dlerror();
      if (failure.empty() && reason != nullptr) {
        failure = reason;
      }
    }
    throw compiler_error("code for the GPU needs " + name + ", which could not be loaded (" + failure +
                         "): install it (Debian: " + package + "; PyPI has it too), or name its file in " + variable);
  }

  /// The name of its file.
  [[nodiscard]] std::string file() const {
    const link_map* loaded = nullptr;
    return ::dlinfo(library_, RTLD_DI_LINKMAP, &loaded) == 0 && loaded != nullptr ? loaded->l_name : "";
  }

  template <class Function>
  void resolve(const char* symbol, Function& function) const {
    void* const address = ::dlsym(library_, symbol);
    if (address == nullptr) {
      throw compiler_error(std::string("the library of the compiler has no ") + symbol);
    }
    function = reinterpret_cast<Function>(address);
  }

 private:
  // A library opened by its path does not find what it opens itself, unless that is loaded already.
  static void open_beside(const std::string& path, const std::string& name) {
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    for (const char* version : {".so.13.0", ".so.13.1", ".so.13.2", ".so.13", ".so.12.9", ".so.12.8", ".so.12"}) {
      if (::dlopen((folder + name + version).c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) {
        return;
      }
    }
  }

  void* library_ = nullptr;
};

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\0' || text.back() == '\n' || text.back() == ' ')) {
    text.pop_back();
  }
  return text;
}

/// "gain.ptx(3): what" of nvJitLink's "ptxas application ptx input, line 3; error   : what"; other lines as they are,
/// but for those that say nothing.
std::string readable_log(const std::string& name, const std::string& log) {
  static const std::regex placed(R"(^ptxas .*, line (\d+); *(\w+) *: *(.*)$)");
  static const std::regex empty(R"(^(ERROR NVJITLINK_.*|ptxas fatal *: Ptx assembly aborted due to errors|\s*)$)");
  static const std::regex no_ptx(R"(^ERROR 1: bad input: does not match type NVJITLINK_INPUT_PTX.*$)");
  std::string text;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::erase(line, '\0');
    std::smatch found;
    if (std::regex_match(line, found, placed)) {
      line = name + "(" + found[1].str() + "): " + found[2].str() + ": " + found[3].str();
      if (line.find("Unsupported .version") != std::string::npos) {
        line += ": it is newer than this nvJitLink; install a newer one, or make PTX of an older version";
      }
    } else if (std::regex_match(line, no_ptx)) {
      line = name + ": it is no PTX";
    } else if (std::regex_match(line, empty)) {
      continue;
    }
    text += (text.empty() ? "" : "\n") + line;
  }
  return text.starts_with(name) ? text : name + ": " + text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

/// A new folder of this process alone, which goes with the object. Throws compiler_error.
class temporary_folder {
 public:
  temporary_folder() {
    std::error_code unknown;
    for (const std::filesystem::path& parent :
         {std::filesystem::temp_directory_path(unknown), std::filesystem::path("/dev/shm")}) {
      std::string name = parent / "penstock-XXXXXX";
      if (!parent.empty() && ::mkdtemp(name.data()) != nullptr) {
        path_ = name;
        return;
      }
    }
    throw compiler_error("the compiler can make a temporary folder neither in TMPDIR or /tmp nor in /dev/shm");
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// The headers in a trace of NVRTC's. It escapes no names, so it need not be JSON.
std::vector<std::string> headers_in(std::string_view trace) {
  constexpr std::string_view kind = R"("name":"Processing Header File")";
  constexpr std::string_view before = R"({"args":{"detail":")";
  constexpr std::string_view after = R"("},"dur":)";
  std::vector<std::string> names;
  for (std::size_t at = trace.find(kind); at != std::string_view::npos; at = trace.find(kind, at + 1)) {
    const std::size_t begin = trace.rfind(before, at);
    const std::size_t end = trace.rfind(after, at);
    if (begin != std::string_view::npos && end != std::string_view::npos && begin + before.size() <= end) {
      names.emplace_back(trace.substr(begin + before.size(), end - begin - before.size()));
    }
  }
  return names;
}

bool starts_with(const std::vector<std::string>& path, const std::vector<std::string>& folder) {
  return path.size() > folder.size() && std::equal(folder.begin(), folder.end(), path.begin());
}

/// Whether the daemon has judged a header: by its name it lies in a folder of `include`, whose links were followed, or
/// it really does.
bool lies_in(const std::string& header, const std::filesystem::path& folder) {
  const auto parts = [](const std::filesystem::path& path) {
    std::vector<std::string> all;
    for (const std::filesystem::path& each : path) {
      if (!each.empty() && each != ".") {
        all.push_back(each);
      }
    }
    return all;
  };
  const std::vector<std::string> name = parts(header);
  const std::vector<std::string> start = parts(folder);
  if (starts_with(name, start) &&
      std::find(name.begin() + static_cast<std::ptrdiff_t>(start.size()), name.end(), "..") == name.end()) {
    return true;
  }
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(header, failed);
  const std::filesystem::path real_folder = std::filesystem::canonical(folder, failed);
  return !failed && starts_with(parts(real), parts(real_folder));
}

/// Refuses headers that NVRTC read elsewhere than in the folders of `include`. A name that is no file's is NVRTC's own,
/// or penstock.cuh.
void check_headers(const user_code& code, const std::vector<std::string>& headers) {
  for (const std::string& header : headers) {
    std::error_code unknown;
    if (header.find('/') != std::string::npos && std::filesystem::exists(header, unknown) &&
        std::none_of(code.include.begin(), code.include.end(),
                     [&](const std::filesystem::path& folder) { return lies_in(header, folder); })) {
      throw code_error(code.name + ": includes " + header + ", which is in none of the folders of `include`");
    }
  }
}

/// For an NVRTC that does not tell what it read: looks at names that lead out of a folder, in the source alone.
void check_names_of_headers(const user_code& code) {
  static const std::regex include(R"(^[ \t]*#[ \t]*include[ \t]*["<]([^">]*)[">])");
  std::istringstream lines(code.text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (!std::regex_search(line, found, include, std::regex_constants::match_continuous)) {
      continue;
    }
    const std::string header = found[1].str();
    if (header.find("..") != std::string::npos) {
      throw code_error(code.name + ": includes " + header + "; before NVRTC 13 a name can't have \"..\" in it");
    }
    if (header.starts_with('/')) {
      check_headers(code, {header});
    }
  }
}

/// NVRTC, with the types of its C interface.
class nvrtc {
 public:
  nvrtc() : library_("libnvrtc", "PENSTOCK_NVRTC", "libnvrtc13 or cuda-nvrtc-13-0", "libnvrtc-builtins") {
    library_.resolve("nvrtcCreateProgram", create_);
    library_.resolve("nvrtcDestroyProgram", destroy_);
    library_.resolve("nvrtcAddNameExpression", add_name_);
    library_.resolve("nvrtcCompileProgram", compile_);
    library_.resolve("nvrtcGetLoweredName", lowered_);
    library_.resolve("nvrtcGetProgramLogSize", log_size_);
    library_.resolve("nvrtcGetProgramLog", log_);
    library_.resolve("nvrtcGetCUBINSize", cubin_size_);
    library_.resolve("nvrtcGetCUBIN", cubin_);
    library_.resolve("nvrtcGetErrorString", error_text_);
    library_.resolve("nvrtcVersion", version_);
  }

  [[nodiscard]] std::string file() const { return library_.file(); }

  [[nodiscard]] machine_code compile(const user_code& code, const std::string& architecture) const {
    program made;
    const std::string name = source_name(code.name);
    create(code, name, made);
    if (!code.entry.empty() && add_name_(made.handle, code.entry.c_str()) != success) {
      throw code_error(code.name + ": '" + code.entry + "' can't be the name of a kernel");
    }
    std::vector<std::string> words{"--gpu-architecture=" + architecture, "--std=c++20",
                                   "--device-as-default-execution-space"};
    if (leaves_out_folder_of_source()) {
      words.emplace_back("--no-source-include");  // headers come from `include`, where they are judged
    }
    for (const std::filesystem::path& folder : code.include) {
      words.push_back("--include-path=" + folder.string());
    }
    words.insert(words.end(), code.options.begin(), code.options.end());
    const int compiled = run(made, words);
    const std::string log = with_name(log_of(made.handle), name, code.name);
    if (compiled != success) {
      // An entry that is unknown is an error in a file of NVRTC's own.
      if (log.starts_with("__nv_name_map")) {
        throw code_error(code.name + ": there is no kernel '" + code.entry + "'; " + kernels_in(code, architecture));
      }
      throw code_error(readable_log(code.name, log.empty() ? error_text_(compiled) : log));
    }
    if (const std::vector<std::string> headers = headers_of(code, words); headers.empty()) {
      check_names_of_headers(code);
    } else {
      check_headers(code, headers);
    }
    machine_code result;
    result.log = log;
    std::size_t size = 0;
    require(cubin_size_(made.handle, &size), "tell the size of the machine code");
    result.binary.resize(size);
    require(cubin_(made.handle, result.binary.data()), "give the machine code");
    if (!code.entry.empty()) {
      const char* symbol = nullptr;
      if (lowered_(made.handle, code.entry.c_str(), &symbol) != success) {
        throw code_error(code.name + ": there is no kernel '" + code.entry + "'");
      }
      result.symbol = symbol;
    }
    return result;
  }

 private:
  static constexpr int success = 0;
  struct program {
    void* handle = nullptr;
    int (*destroy)(void**) = nullptr;
    ~program() {
      if (destroy != nullptr) {
        destroy(&handle);
      }
    }
  };

  void create(const user_code& code, const std::string& name, program& made) const {
    const char* const headers[] = {penstock_cuh};
    const char* const names[] = {"penstock.cuh"};
    require(create_(&made.handle, code.text.c_str(), name.c_str(), 1, headers, names), "begin");
    made.destroy = destroy_;
  }

  [[nodiscard]] int run(const program& made, const std::vector<std::string>& words) const {
    std::vector<const char*> options;
    for (const std::string& word : words) {
      options.push_back(word.c_str());
    }
    return compile_(made.handle, static_cast<int>(options.size()), options.data());
  }

  /// All headers that NVRTC reads for code that compiles, one of its own among them; none if this NVRTC does not tell
  /// (12 and older). Only a trace tells, and a trace of ptxas's work is not sound in each version: so this parses
  /// again.
  [[nodiscard]] std::vector<std::string> headers_of(const user_code& code, std::vector<std::string> words) const {
    const temporary_folder folder;
    words.emplace_back("--fdevice-syntax-only");
    words.push_back("--fdevice-time-trace=" + (folder.path() / "trace").string());
    program made;
    create(code, source_name(code.name), made);
    if (run(made, words) != success) {
      return {};
    }
    std::ifstream trace(folder.path() / "trace.json", std::ios::binary);
    return headers_in(std::string(std::istreambuf_iterator<char>(trace), {}));
  }

  /// Which kernels a file has beside templates, for people.
  [[nodiscard]] std::string kernels_in(user_code code, const std::string& architecture) const {
    std::string names;
    try {
      code.entry.clear();
      for (const kernel_usage& each : usage_of(compile(code, architecture).binary)) {
        names += (names.empty() ? "it has " : ", ") + readable_name(each.symbol);
      }
    } catch (const std::exception&) {
      return "it does not compile without that entry either";
    }
    return names.empty() ? "it has none, or templates alone, whose entry needs its types: \"agc<float>\"" : names;
  }

  /// What NVRTC is told. Before it had an option for it, nothing but another folder keeps it from looking for headers
  /// in the source's own, where nobody has judged them.
  [[nodiscard]] std::string source_name(const std::string& file) const {
    return leaves_out_folder_of_source() ? file : "/no such folder/" + file.substr(file.rfind('/') + 1);
  }

  static std::string with_name(std::string log, const std::string& told, const std::string& file) {
    for (std::size_t at = log.find(told); told != file && at != std::string::npos; at = log.find(told, at)) {
      log.replace(at, told.size(), file);
      at += file.size();
    }
    return log;
  }

  [[nodiscard]] bool leaves_out_folder_of_source() const noexcept {
    int major = 0;
    int minor = 0;
    return version_(&major, &minor) == success && (major > 12 || (major == 12 && minor >= 8));
  }

  void require(int met, const char* action) const {
    if (met != success) {
      throw compiler_error(std::string("NVRTC can't ") + action + ": " + error_text_(met));
    }
  }

  [[nodiscard]] std::string log_of(void* handle) const {
    std::size_t size = 0;
    require(log_size_(handle, &size), "tell the size of its log");
    std::string log(size, '\0');
    require(log_(handle, log.data()), "give its log");
    return trimmed(std::move(log));
  }

  compiler_library library_;
  int (*create_)(void**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy_)(void**) = nullptr;
  int (*add_name_)(void*, const char*) = nullptr;
  int (*compile_)(void*, int, const char* const*) = nullptr;
  int (*lowered_)(void*, const char*, const char**) = nullptr;
  int (*log_size_)(void*, std::size_t*) = nullptr;
  int (*log_)(void*, char*) = nullptr;
  int (*cubin_size_)(void*, std::size_t*) = nullptr;
  int (*cubin_)(void*, char*) = nullptr;
  const char* (*error_text_)(int) = nullptr;
  int (*version_)(int*, int*) = nullptr;
};

/// nvJitLink, with the types of its C interface. Each name carries the library's version.
class nvjitlink {
 public:
  nvjitlink() : library_("libnvJitLink", "PENSTOCK_NVJITLINK", "libnvjitlink13 or libnvjitlink-13-0") {
    library_.resolve("nvJitLinkCreate", create_);
    library_.resolve("nvJitLinkDestroy", destroy_);
    library_.resolve("nvJitLinkAddData", add_);
    library_.resolve("nvJitLinkComplete", complete_);
    library_.resolve("nvJitLinkGetLinkedCubinSize", cubin_size_);
    library_.resolve("nvJitLinkGetLinkedCubin", cubin_);
    library_.resolve("nvJitLinkGetErrorLogSize", log_size_);
    library_.resolve("nvJitLinkGetErrorLog", log_);
  }

  [[nodiscard]] std::string file() const { return library_.file(); }

  [[nodiscard]] machine_code compile(const user_code& code, const std::string& architecture) const {
    linker made;
    std::vector<std::string> words{"-arch=" + architecture};
    words.insert(words.end(), code.options.begin(), code.options.end());
    std::vector<const char*> options;
    for (const std::string& word : words) {
      options.push_back(word.c_str());
    }
    if (create_(&made.handle, static_cast<std::uint32_t>(options.size()), options.data()) != success) {
      throw code_error(code.name + ": nvJitLink does not take one of these: " + joined(words));
    }
    made.destroy = destroy_;
    // `complete` returns success even after an `add` that failed.
    const std::string text = code.text + '\0';
    if (add_(made.handle, input_ptx, text.data(), text.size(), code.name.c_str()) != success ||
        complete_(made.handle) != success) {
      throw code_error(readable_log(code.name, log_of(made.handle)));
    }
    std::size_t size = 0;
    machine_code result;
    if (cubin_size_(made.handle, &size) != success) {
      throw compiler_error("nvJitLink made no machine code");
    }
    result.binary.resize(size);
    if (cubin_(made.handle, result.binary.data()) != success) {
      throw compiler_error("nvJitLink does not give its machine code");
    }
    result.symbol = code.entry;
    return result;
  }

 private:
  static constexpr int success = 0;
  static constexpr int input_ptx = 2;
  struct linker {
    void* handle = nullptr;
    int (*destroy)(void**) = nullptr;
    ~linker() {
      if (destroy != nullptr) {
        destroy(&handle);
      }
    }
  };

  [[nodiscard]] std::string log_of(void* handle) const {
    std::size_t size = 0;
    if (log_size_(handle, &size) != success || size == 0) {
      return "it can't be linked";
    }
    std::string log(size, '\0');
    return log_(handle, log.data()) == success ? trimmed(std::move(log)) : "it can't be linked";
  }

  compiler_library library_;
  int (*create_)(void**, std::uint32_t, const char**) = nullptr;
  int (*destroy_)(void**) = nullptr;
  int (*add_)(void*, int, const void*, std::size_t, const char*) = nullptr;
  int (*complete_)(void*) = nullptr;
  int (*cubin_size_)(void*, std::size_t*) = nullptr;
  int (*cubin_)(void*, void*) = nullptr;
  int (*log_size_)(void*, std::size_t*) = nullptr;
  int (*log_)(void*, char*) = nullptr;
};

/// Both compilers, each once it is needed.
class compilers {
 public:
  compile_reply compile(const compile_request& request) noexcept {
    compile_reply reply;
    try {
      if (request.code.kind == code_kind::cuda) {
        run(nvrtc_, request, reply);
      } else {
        run(nvjitlink_, request, reply);
      }
    } catch (const code_error& error) {
      reply.status = compile_status::code_is_wrong;
      reply.message = error.what();
    } catch (const std::exception& error) {
      reply.status = compile_status::no_compiler;
      reply.message = error.what();
    }
    return reply;
  }

 private:
  template <class Library>
  static void run(std::optional<Library>& library, const compile_request& request, compile_reply& reply) {
    if (!library) {
      library.emplace();
    }
    reply.code = library->compile(request.code, request.architecture);
    reply.compiler = library->file();
  }

  std::optional<nvrtc> nvrtc_;
  std::optional<nvjitlink> nvjitlink_;
};

}  // namespace

int run_compiler_process() {
  const int answer = become_child();
  compilers all;
  while (const std::optional<std::string> asked = read_framed(STDIN_FILENO)) {
    const std::optional<compile_request> request = decode_request(*asked);
    if (answer < 0 || !request || !write_all(answer, framed(encode_reply(all.compile(*request))))) {
      return 1;
    }
  }
  return 0;
}

}  // namespace penstock
