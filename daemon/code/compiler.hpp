#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// What a file of users' code holds.
enum class code_kind : std::uint8_t { cuda, ptx, cubin };

/// A file of users' code, as it was read.
struct user_code {
  code_kind kind = code_kind::cuda;
  std::string name;                            ///< of the file, as messages call it
  std::string text;                            ///< its bytes
  std::string entry;                           ///< the kernel, such as "agc<float>"; "" if the file has one
  std::vector<std::string> options;            ///< of the compiler, such as "--use_fast_math"
  std::vector<std::filesystem::path> include;  ///< folders of headers
  std::string headers{};                       ///< their state (guarded_folder_state), for the cache
};

/// A kernel for one architecture.
struct machine_code {
  std::string binary;  ///< a cubin: an ELF file of one architecture
  std::string symbol;  ///< of the kernel
  std::string log;     ///< the compiler's warnings
};

/// What ptxas made of a kernel.
struct kernel_usage {
  std::string symbol;
  std::vector<std::size_t> parameters;  ///< bytes of each
  int registers = 0;                    ///< of a thread
  std::size_t shared = 0;               ///< static shared memory of a block, in bytes
  std::size_t stack = 0;                ///< local memory of a thread, spilled registers included, in bytes
};

/// Users' code does not compile. what() is the compiler's message, with the user's file and line.
class code_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The compiler can't be had, or did not end well. what() says what is missing.
class compiler_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class compiled_code;

struct compiler_settings {
  /// The program that becomes the compiler's process when it is started with `compile_word`.
  std::filesystem::path program = "/proc/self/exe";
  std::filesystem::path cache{};                 ///< a folder for machine code (code_cache); "" for none
  std::chrono::seconds time_limit{60};           ///< of one kernel
  std::shared_ptr<const compiled_code> ahead{};  ///< what compile_ahead made, or nullptr
};

/// The argument that makes penstockd the compiler's process.
inline constexpr std::string_view compile_word = "--compile-code";

/// Variables of the environment that choose the compilers' libraries.
inline constexpr std::array<const char*, 4> compiler_variables{"PENSTOCK_NVRTC", "PENSTOCK_NVJITLINK", "CUDA_PATH",
                                                               "CUDA_HOME"};

/// Machine code of a kernel for `architecture`, such as "sm_90": from `ahead`, from the cache, or made in a process of
/// its own, so that a compiler which crashes or never ends does not take the daemon with it. NVRTC compiles CUDA C++,
/// nvJitLink PTX; a cubin is only looked at. Needs no GPU. Threads: any. Throws code_error and compiler_error.
[[nodiscard]] machine_code compile(const user_code& code, std::string_view architecture,
                                   const compiler_settings& settings);

/// What to compile `code` for where the device is `architecture`: "sm_90a" for sm_90 if that is what the PTX's .target
/// says, as its instructions are of that one architecture alone. A device of that number runs both.
[[nodiscard]] std::string target_of(const user_code& code, std::string_view architecture);

/// What the compiler's process is asked.
struct compile_request {
  user_code code;
  std::string architecture;
};

/// Compiles as `compile` does, in as many processes at once as there are processors; what is asked for twice is
/// compiled once. An error is thrown by the `compile` that asks for the same.
[[nodiscard]] std::shared_ptr<const compiled_code> compile_ahead(std::span<const compile_request> requests,
                                                                 const compiler_settings& settings);

/// What each kernel of a cubin uses, in its order. Throws code_error if it is not a cubin.
[[nodiscard]] std::vector<kernel_usage> usage_of(std::string_view cubin);

/// The architecture of a cubin, such as "sm_90"; "" if it does not say. Throws as usage_of does.
[[nodiscard]] std::string architecture_of(std::string_view cubin);

/// A kernel's name for people: "agc" of "_Z3agcPKfPf".
[[nodiscard]] std::string readable_name(const std::string& symbol);

/// The compiler's process: reads what to compile from standard input, writes what came of it to standard output, until
/// the input ends. Returns the exit status.
[[nodiscard]] int run_compiler_process();

}  // namespace penstock
