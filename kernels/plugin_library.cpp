#include "kernels/plugin_library.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include <dlfcn.h>

#include "base/sha256.hpp"
#include "kernels/model_package.hpp"
#include "kernels/shared_object.hpp"

namespace penstock {
namespace {

constexpr std::uint32_t most_operators = 1024;

bool is_name(const char* name) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  const std::string_view text = name == nullptr ? "" : name;
  return !text.empty() && text.size() <= 64 && text.find_first_not_of(letters) == text.npos;
}

void check_operator(const ps_operator& given, const std::vector<const ps_operator*>& others) {
  if (given.abi != PENSTOCK_PLUGIN_ABI) {
    throw plugin_error("is built for ABI " + std::to_string(given.abi) + " of plug-ins; this daemon has ABI " +
                       std::to_string(PENSTOCK_PLUGIN_ABI) + ": build it with this version's penstock/plugin.h");
  }
  if (given.size < sizeof(ps_operator)) {
    throw plugin_error("has an operator of " + std::to_string(given.size) + " bytes, where ABI 1 has " +
                       std::to_string(sizeof(ps_operator)));
  }
  if (!is_name(given.name)) {
    throw plugin_error("has an operator without a name of 1 to 64 of A-Z a-z 0-9 _ . -");
  }
  if (given.infer == nullptr || given.make == nullptr || given.run == nullptr || given.drop == nullptr) {
    throw plugin_error("has an operator '" + std::string(given.name) + "' that lacks infer, make, run or drop");
  }
  if (std::any_of(others.begin(), others.end(),
                  [&](const ps_operator* other) { return std::string_view(other->name) == given.name; })) {
    throw plugin_error("has two operators '" + std::string(given.name) + "'");
  }
}

plugin_library open_library(std::string_view bytes) {
  // Never unloaded: names of errors are its own, and so may be threads and what runs at the process's end.
  void* const handle = load_for_good(library_image(bytes, library_life::of_process), RTLD_NOW | RTLD_LOCAL);
  void* const symbol = ::dlsym(handle, "penstock_plugin_v1");
  if (symbol == nullptr) {
    throw plugin_error("has no function penstock_plugin_v1: it is not a plug-in, or does not export it");
  }
  const auto list = reinterpret_cast<const ps_operator* (*)(std::uint32_t)>(symbol);
  plugin_library made;
  for (const ps_operator* each = list(0); each != nullptr;
       each = list(static_cast<std::uint32_t>(made.operators.size()))) {
    check_operator(*each, made.operators);
    if (made.operators.size() == most_operators) {
      throw plugin_error("has more than " + std::to_string(most_operators) +
                         " operators: penstock_plugin_v1 must give NULL beyond the last");
    }
    made.operators.push_back(each);
  }
  if (made.operators.empty()) {
    throw plugin_error("has no operator");
  }
  return made;
}

}  // namespace

std::shared_ptr<const plugin_library> load_plugin(std::string_view bytes) {
  // What is loaded is the process's, and so is the list of it.
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const plugin_library>> loaded;
  const std::string key = sha256_of(bytes);
  const std::lock_guard lock(mutex);
  std::shared_ptr<const plugin_library>& library = loaded[key];
  if (library == nullptr) {
    try {
      plugin_library opened = open_library(bytes);
      opened.sha256 = key;
      library = std::make_shared<const plugin_library>(std::move(opened));
    } catch (const library_error& error) {
      loaded.erase(key);
      throw plugin_error(error.what());
    } catch (...) {
      loaded.erase(key);
      throw;
    }
  }
  return library;
}

std::string digest_of(const code_file& file) {
  sha256 digest;
  digest.add_sized(file.text);
  digest.add_sized(file.headers);
  digest.add_sized(file.library == nullptr ? "" : file.library->sha256);
  digest.add_sized(file.package == nullptr ? "" : file.package->sha256);
  return digest.digits();
}

}  // namespace penstock
