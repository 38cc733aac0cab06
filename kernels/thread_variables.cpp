#include "kernels/thread_variables.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

#include <cxxabi.h>

namespace penstock {
namespace {

struct thread_variable {
  std::thread::id thread;
  void (*destroy)(void*) = nullptr;
  void* address = nullptr;
  void* library = nullptr;
};

/// Those of all threads, the newest last.
class thread_variables {
 public:
  /// Whether the variable's library had others.
  bool add(const thread_variable& made) {
    const std::lock_guard lock(mutex_);
    const bool had_others = std::any_of(all_.begin(), all_.end(),
                                        [&](const thread_variable& each) { return each.library == made.library; });
    all_.push_back(made);
    return had_others;
  }
  /// Holds the lock while destructors run: a library is not unloaded under those that a thread's end runs.
  template <class Matches>
  void destroy(const Matches& matches) noexcept {
    const std::lock_guard lock(mutex_);
    for (;;) {
      const auto newest = std::find_if(all_.rbegin(), all_.rend(), matches);
      if (newest == all_.rend()) {
        return;
      }
      const thread_variable taken = *newest;
      all_.erase(std::next(newest).base());
      taken.destroy(taken.address);
    }
  }

 private:
  std::recursive_mutex mutex_;  // a destructor may make a variable
  std::vector<thread_variable> all_;
};

// Threads end after static variables are gone.
thread_variables& variables() {
  static auto* const all = new thread_variables;
  return *all;
}

void unload(void* library) {
  variables().destroy([library](const thread_variable& each) { return each.library == library; });
}

/// A thread that has variables.
struct thread_end {
  ~thread_end() {
    variables().destroy(
        [thread = std::this_thread::get_id()](const thread_variable& each) { return each.thread == thread; });
  }
};

}  // namespace

int destroy_at_thread_exit(void (*destroy)(void*), void* variable, void* library) noexcept {
  try {
    static thread_local thread_end end;
    static_cast<void>(&end);  // it is made where it is first used
    const bool had_others = variables().add({std::this_thread::get_id(), destroy, variable, library});
    // The library itself calls it, when it is unloaded.
    return had_others ? 0 : abi::__cxa_atexit(&unload, library, library);
  } catch (...) {
    return -1;
  }
}

}  // namespace penstock
