// Makes one call to the system fail, be short, or hang, in a program that is started with this preloaded: the file that
// PENSTOCK_INJECT names is mapped, and says which call (inject.py writes it, and reads what came of it). Calls that
// glibc makes by itself are not seen. Everything here calls the kernel directly.
// Else the headers define read and open themselves.
#undef _FORTIFY_SOURCE
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/limits.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

enum class call : std::uint32_t { open, read, write, fstat, close, mmap };
constexpr const char* call_names[] = {"open", "read", "write", "fstat", "close", "mmap"};
enum class fault : std::uint32_t { none, error, less, hang, full };

// As CONTROL of faults.py.
struct control {
  std::uint32_t armed;  // 0: nothing is looked at
  std::uint32_t kind;   // a call
  std::uint32_t nth;    // of those whose path ends with `path`, counted from 1
  std::uint32_t fault;  // a fault
  std::int32_t error;
  std::uint32_t seen;     // calls that fitted, since it was armed
  std::uint32_t hit;      // faults that were made
  std::uint32_t log;      // 1: every call is written to the file beside this one, NAME.log
  std::uint32_t lasting;  // 1: from the nth on
  char unused[60];
  char path[256];
};

control* mapped() {
  static control* const made = []() -> control* {
    const char* const name = std::getenv("PENSTOCK_INJECT");
    const long file = name == nullptr ? -1 : ::syscall(SYS_openat, -100, name, 2, 0);
    if (file < 0) {
      return nullptr;
    }
    const long at = ::syscall(SYS_mmap, 0, sizeof(control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::syscall(SYS_close, file);
    control* found = nullptr;
    if (at > 0) {
      std::memcpy(&found, &at, sizeof found);
    }
    return found;
  }();
  return made;
}

void write_down(const char* name, const char* path) {
  static const long log = [] {
    char file[PATH_MAX];
    std::snprintf(file, sizeof file, "%s.log", std::getenv("PENSTOCK_INJECT"));
    return ::syscall(SYS_openat, -100, file, 02 | 0100 | 02000 | 02000000, 0600);  // RDWR, CREAT, APPEND, CLOEXEC
  }();
  char line[PATH_MAX + 16];
  const int length = std::snprintf(line, sizeof line, "%s %s\n", name, path);
  ::syscall(SYS_write, log, line, length);
}

// From now on, and for good, no connection can be taken and no eventfd made, as where the system's table of files is
// full. By a filter: the daemon makes these calls without the C library.
void fill_file_table() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_accept4, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_eventfd2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENFILE),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof rules / sizeof *rules, rules};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    mapped()->error = errno;
  }
}

fault fault_of(call kind, const char* path) {
  control* const given = mapped();
  if (given == nullptr || __atomic_load_n(&given->armed, __ATOMIC_ACQUIRE) == 0) {
    return fault::none;
  }
  if (given->log != 0) {
    write_down(call_names[static_cast<std::uint32_t>(kind)], path);
  }
  const std::size_t length = std::strlen(path);
  const std::size_t wanted = std::strlen(given->path);
  if (given->kind != static_cast<std::uint32_t>(kind) || wanted > length ||
      std::strcmp(path + length - wanted, given->path) != 0) {
    return fault::none;
  }
  const std::uint32_t seen = __atomic_add_fetch(&given->seen, 1, __ATOMIC_ACQ_REL);
  if (given->lasting != 0 ? seen < given->nth : seen != given->nth) {
    return fault::none;
  }
  __atomic_add_fetch(&given->hit, 1, __ATOMIC_ACQ_REL);
  const auto made = static_cast<fault>(given->fault);
  while (made == fault::hang && __atomic_load_n(&given->armed, __ATOMIC_ACQUIRE) != 0) {
    ::usleep(1000);
  }
  if (made == fault::full) {
    fill_file_table();
    return fault::none;
  }
  errno = given->error;
  return made;
}

// Of a file; what has none (sockets, eventfds) can't fail like this, and is left alone.
fault fault_of(call kind, int file) {
  const control* const given = mapped();
  struct stat found {};
  if (given == nullptr || given->armed == 0 || ::syscall(SYS_fstat, file, &found) != 0 ||
      !(S_ISREG(found.st_mode) || S_ISCHR(found.st_mode))) {
    return fault::none;
  }
  char name[64];
  char path[PATH_MAX + 1];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  const long length = ::syscall(SYS_readlink, name, path, PATH_MAX);
  path[length > 0 ? length : 0] = '\0';
  // A process's own files have the same name in each run.
  char own[32];
  const int own_length = std::snprintf(own, sizeof own, "/proc/%d/", ::getpid());
  if (std::strncmp(path, own, static_cast<std::size_t>(own_length)) == 0) {
    char same[PATH_MAX + 1];
    std::snprintf(same, sizeof same, "/proc/self/%.*s", PATH_MAX - 16, path + own_length);
    return fault_of(kind, same);
  }
  return fault_of(kind, path);
}

template <class Function>
Function next(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  Function made = nullptr;
  std::memcpy(&made, &found, sizeof made);
  return made;
}

int open_at(int folder, const char* path, int flags, unsigned mode) {
  return fault_of(call::open, path) == fault::error
             ? -1
             : static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}

ssize_t read_from(int file, void* into, std::size_t bytes) {
  const fault made = fault_of(call::read, file);
  return made == fault::error ? -1
                              : ::syscall(SYS_read, file, into, made == fault::less && bytes > 1 ? bytes / 2 : bytes);
}

ssize_t write_to(int file, const void* data, std::size_t bytes) {
  const fault made = fault_of(call::write, file);
  return made == fault::error ? -1
                              : ::syscall(SYS_write, file, data, made == fault::less && bytes > 1 ? bytes / 2 : bytes);
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int open(const char* path, int flags, unsigned mode) {
  return open_at(-100, path, flags, mode);
}
EXPORTED int open64(const char* path, int flags, unsigned mode) {
  return open_at(-100, path, flags, mode);
}
EXPORTED int __open_2(const char* path, int flags) {
  return open_at(-100, path, flags, 0);
}
EXPORTED int __open64_2(const char* path, int flags) {
  return open_at(-100, path, flags, 0);
}
EXPORTED int openat(int folder, const char* path, int flags, unsigned mode) {
  return open_at(folder, path, flags, mode);
}
EXPORTED int openat64(int folder, const char* path, int flags, unsigned mode) {
  return open_at(folder, path, flags, mode);
}
EXPORTED FILE* fopen(const char* path, const char* mode) {
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen");
  return fault_of(call::open, path) == fault::error ? nullptr : real(path, mode);
}
EXPORTED FILE* fopen64(const char* path, const char* mode) {
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen64");
  return fault_of(call::open, path) == fault::error ? nullptr : real(path, mode);
}
EXPORTED ssize_t read(int file, void* into, std::size_t bytes) {
  return read_from(file, into, bytes);
}
EXPORTED ssize_t __read_chk(int file, void* into, std::size_t bytes, std::size_t /*room*/) {
  return read_from(file, into, bytes);
}
EXPORTED ssize_t write(int file, const void* data, std::size_t bytes) {
  return write_to(file, data, bytes);
}
// What a log writes through: glibc writes by itself.
EXPORTED std::size_t fwrite(const void* data, std::size_t bytes, std::size_t count, FILE* into) {
  static const auto real = next<std::size_t (*)(const void*, std::size_t, std::size_t, FILE*)>("fwrite");
  return fault_of(call::write, ::fileno(into)) == fault::error ? 0 : real(data, bytes, count, into);
}
EXPORTED int fstat(int file, struct stat* into) noexcept {
  return fault_of(call::fstat, file) == fault::error ? -1 : static_cast<int>(::syscall(SYS_fstat, file, into));
}
EXPORTED int fstat64(int file, struct stat64* into) noexcept {
  return fault_of(call::fstat, file) == fault::error ? -1 : static_cast<int>(::syscall(SYS_fstat, file, into));
}
// The descriptor is gone whatever it says, as with the kernel's.
EXPORTED int close(int file) {
  const bool fails = fault_of(call::close, file) == fault::error;
  const int said = errno;
  const int done = static_cast<int>(::syscall(SYS_close, file));
  errno = fails ? said : errno;
  return fails ? -1 : done;
}
EXPORTED void* mmap(void* where, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  if (fault_of(call::mmap, file < 0 ? "nowhere" : "file") == fault::error) {
    return MAP_FAILED;
  }
  static const auto real = next<void* (*)(void*, std::size_t, int, int, int, off_t)>("mmap");
  return real(where, bytes, protection, flags, file, offset);
}
