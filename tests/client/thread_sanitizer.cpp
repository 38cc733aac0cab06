/// What ThreadSanitizer reads before the program begins, where it is there at all. An exception that a future hands
/// from one thread to another, and the text that copies of an exception share, are counted in libstdc++, whose atomics
/// it does not see.
extern "C" __attribute__((visibility("default"), used)) const char* __tsan_default_suppressions();

const char* __tsan_default_suppressions() {
  return "race:std::__exception_ptr::exception_ptr::_M_release\n"
         "race:std::runtime_error::~runtime_error\n";
}
