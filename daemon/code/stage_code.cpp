#include "daemon/code/stage_code.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/sha256.hpp"
#include "kernels/kernel.hpp"
#include "kernels/plugin_library.hpp"
#include "penstock_version.hpp"

namespace penstock {
namespace {

constexpr std::array<std::pair<std::string_view, code_kind>, 3> kinds{
    {{".cu", code_kind::cuda}, {".ptx", code_kind::ptx}, {".cubin", code_kind::cubin}}};

/// Options that would read headers which nobody has judged.
constexpr std::array<std::string_view, 5> header_options{"-I", "--include-path", "-include", "--pre-include",
                                                         "-pre-include"};

/// Options of NVRTC and ptxas that read or write other files.
constexpr std::array<std::string_view, 12> file_options{
    "--pch",     "-pch",     "--create-pch",         "-create-pch",
    "--use-pch", "-use-pch", "--fdevice-time-trace", "-fdevice-time-trace",
    "--time=",   "-time=",   "--options-file",       "-optf"};

/// Options whose value is an option of ptxas's, or a file that it reads.
constexpr std::array<std::string_view, 2> ptxas_options{"-Xptxas", "--ptxas-options"};

template <std::size_t Size>
bool starts_with_one(std::string_view option, const std::array<std::string_view, Size>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return option.starts_with(prefix); });
}

/// Throws parameter_error if a compiler would read or write other files than the stage names.
void check_option(const std::string& given) {
  const std::string_view option =
      std::string_view(given).substr(std::min(given.find_first_not_of(" \t"), given.size()));
  if (starts_with_one(option, header_options)) {
    throw parameter_error("options", "has \"" + given + "\": name folders of headers in `include`");
  }
  bool names_file = starts_with_one(option, file_options);
  for (const std::string_view prefix : ptxas_options) {
    if (option == prefix) {
      throw parameter_error("options", "has \"" + given + "\" alone: give its value with it, as in \"-Xptxas=-v\"");
    }
    if (option.starts_with(prefix)) {
      const std::string_view value = option.substr(prefix.size() + 1);
      names_file = !value.starts_with('-') || starts_with_one(value, file_options);
    }
  }
  if (names_file) {
    throw parameter_error("options", "has \"" + given + "\": it lets the compiler read or write other files");
  }
}

}  // namespace

user_code code_of(const parameters& settings) {
  const code_file& file = settings.code("file");
  const auto* const kind =
      std::find_if(kinds.begin(), kinds.end(), [&](const auto& each) { return file.name.ends_with(each.first); });
  if (kind == kinds.end()) {
    throw parameter_error("file", "\"" + file.name + "\" is given; allowed are files that end in .cu, .ptx or .cubin");
  }
  user_code code;
  code.kind = kind->second;
  code.name = file.path;
  code.text = file.text;
  code.entry = settings.text("entry", "");
  code.options = settings.texts("options");
  code.headers = file.headers;
  for (const std::string& option : code.options) {
    check_option(option);
  }
  const std::filesystem::path folder = std::filesystem::path(file.path).parent_path();
  for (const std::string& each : settings.texts("include")) {
    code.include.push_back(folder / each);
  }
  return code;
}

std::optional<compile_request> request_of(const parameters& settings, const std::string& architecture) {
  try {
    return settings.has("file") ? std::optional(compile_request{code_of(settings), architecture}) : std::nullopt;
  } catch (const parameter_error&) {
    return std::nullopt;
  }
}

namespace {

/// Throws parameter_error if the kernel takes other parameters than the stage's `args` are.
void check_arguments(const std::vector<kernel_argument>& arguments, const kernel_usage& kernel) {
  if (kernel.parameters.size() != arguments.size()) {
    throw parameter_error("args", "has " + std::to_string(arguments.size()) + ", and the kernel takes " +
                                      std::to_string(kernel.parameters.size()) + " parameters");
  }
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    if (arguments[at].bytes != kernel.parameters[at]) {
      throw parameter_error("args", "has \"" + arguments[at].text + "\", of " + std::to_string(arguments[at].bytes) +
                                        " bytes, as its number " + std::to_string(at + 1) +
                                        "; that parameter of the kernel has " + std::to_string(kernel.parameters[at]));
    }
  }
}

}  // namespace

parameters with_machine_code(const parameters& settings, std::span<const tensor_spec> inputs,
                             std::string_view architecture, const compiler_settings& compiler) {
  machine_code made = compile(code_of(settings), architecture, compiler);
  for (const kernel_usage& each : usage_of(made.binary)) {
    if (each.symbol == made.symbol) {
      check_arguments(parse_kernel(settings, inputs).arguments, each);
    }
  }
  parameters result = settings;
  const code_file& file = settings.code("file");
  result.set("symbol", made.symbol);
  result.set("warnings", made.log);
  result.set("code", std::make_shared<const code_file>(code_file{file.name, file.path, std::move(made.binary)}));
  return result;
}

std::string code_text(const parameters& settings, std::string_view architecture) {
  const std::string symbol = settings.text("symbol");
  const std::string warnings = settings.text("warnings", "");
  for (const kernel_usage& each : usage_of(settings.code("code").text)) {
    if (each.symbol == symbol) {
      return "kernel " + readable_name(symbol) + " for " + std::string(architecture) + ": " +
             std::to_string(each.registers) + " registers, " + std::to_string(each.shared) +
             " bytes of shared memory, " + std::to_string(each.stack) + " bytes of stack and spilled registers" +
             (warnings.empty() ? "" : "\n" + warnings);
    }
  }
  return "";
}

namespace {

void add(sha256& digest, const parameters& settings);

void add(sha256& digest, const parameters::value& value) {
  digest.add_sized(std::to_string(value.index()));
  std::visit(
      [&digest](const auto& held) {
        using type = std::decay_t<decltype(held)>;
        if constexpr (std::is_arithmetic_v<type>) {
          std::array<char, sizeof held> bytes{};
          std::memcpy(bytes.data(), &held, sizeof held);
          digest.add_sized({bytes.data(), bytes.size()});
        } else if constexpr (std::is_same_v<type, std::string>) {
          digest.add_sized(held);
        } else if constexpr (std::is_same_v<type, std::vector<std::string>>) {
          digest.add_sized(std::to_string(held.size()));
          for (const std::string& each : held) {
            digest.add_sized(each);
          }
        } else if constexpr (std::is_same_v<type, std::vector<double>>) {
          digest.add_sized({reinterpret_cast<const char*>(held.data()), held.size() * sizeof(double)});
        } else if constexpr (std::is_same_v<type, std::shared_ptr<const parameters>>) {
          add(digest, *held);
        } else if constexpr (std::is_same_v<type, std::shared_ptr<const code_file>>) {
          digest.add_sized(digest_of(*held));
        }
      },
      value);
}

void add(sha256& digest, const parameters& settings) {
  for (const auto& [key, value] : settings) {
    digest.add_sized(key);
    add(digest, value);
  }
}

}  // namespace

std::string code_key(std::string_view op, const parameters& settings, std::span<const tensor_spec> inputs,
                     std::int64_t max_frames, std::string_view architecture) {
  sha256 digest;
  digest.add_sized(version);
  digest.add_sized(op);
  digest.add_sized(architecture);
  digest.add_sized(std::to_string(max_frames));
  for (const tensor_spec& each : inputs) {
    digest.add_sized(each.text());
  }
  const bool compiled = settings.has("code");
  for (const auto& [key, value] : settings) {
    // Machine code stands for its source and for what that includes.
    if (!compiled || key != "file") {
      digest.add_sized(key);
      add(digest, value);
    }
  }
  return digest.digits();
}

}  // namespace penstock
