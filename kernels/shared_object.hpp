#pragma once

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptors.hpp"

namespace penstock {

/// A shared library can't be used. what() says why, without its name.
class library_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How long a library is loaded: for good, or until its shared_object is gone.
enum class library_life { of_process, of_object };

/// A shared library in memory, in a file without a name, so that what was judged is what runs. Nothing of it has run.
class library_image {
 public:
  /// Copies the bytes. Throws library_error if they are no shared library of this machine, or not all of one. One that
  /// lives as long as an object calls destroy_at_thread_exit in the place of libstdc++'s function, and has to be given
  /// it: a shared_object does.
  library_image(std::string_view bytes, library_life life);

  [[nodiscard]] const file_descriptor& file() const noexcept { return file_; }
  /// The libraries that it names, such as "libc.so.6".
  [[nodiscard]] const std::vector<std::string>& needed() const noexcept { return needed_; }
  /// What other libraries must provide: functions and variables that have no version, as those of the libraries of GCC
  /// and glibc do. Sorted.
  [[nodiscard]] const std::vector<std::string>& wanted() const noexcept { return wanted_; }
  /// Whether it has a function or variable of this name for others.
  [[nodiscard]] bool defines(std::string_view name) const noexcept;

 private:
  file_descriptor file_;
  std::vector<std::string> needed_;
  std::vector<std::string> wanted_;
  std::vector<std::string> defined_;
};

/// A function of this process that a library may call by a name.
struct given_function {
  std::string name;
  const void* address = nullptr;
};

/// A loaded library.
///
/// The functions that it is given are its own: neither the process nor another library sees them, so that libraries
/// which want different functions of one name live side by side. For this the library is loaded as what a second one
/// needs, a small one that is made in memory, which has the given functions as absolute symbols: the loader looks for
/// what a library wants in the process, then in what was opened and all that it needs. (Symbols that the process
/// exported would be taken by every library that it ever loads, libtorch among them.)
///
/// An image that is loaded already is not loaded again: both are one library, with the functions that it got first.
class shared_object {
 public:
  /// Runs the library's own initializers. Throws library_error. Threads: any.
  shared_object(const library_image& image, std::span<const given_function> given);
  shared_object(const shared_object&) = delete;
  shared_object& operator=(const shared_object&) = delete;
  /// Unloads it.
  ~shared_object();

  /// Its function or variable of this name; nullptr if it has none.
  [[nodiscard]] void* find(const char* name) const noexcept;

 private:
  void* handle_ = nullptr;
};

/// Loads a library for the life of the process, with dlopen's `flags`; gives its handle. Throws library_error.
[[nodiscard]] void* load_for_good(const library_image& image, int flags);

}  // namespace penstock
