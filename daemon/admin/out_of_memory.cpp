#include "daemon/admin/out_of_memory.hpp"

#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include <unistd.h>

#include "daemon/exit_code.hpp"

namespace penstock {
namespace {

constexpr std::string_view farewell = "penstockd: out of memory\n";

std::terminate_handler otherwise = nullptr;

[[noreturn]] void end_by_exception() noexcept {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) {
      std::rethrow_exception(thrown);
    }
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (...) {
    otherwise();  // which names it
  }
  std::abort();
}

}  // namespace

void end_without_memory() noexcept {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, farewell.data(), farewell.size());
  std::_Exit(static_cast<int>(exit_code::out_of_memory));
}

void end_when_out_of_memory() noexcept {
  std::set_new_handler(end_without_memory);
  otherwise = std::set_terminate(end_by_exception);
}

void let_allocations_throw() noexcept {
  std::set_new_handler(nullptr);
}

}  // namespace penstock
