#include "tests/bench/submit/submit_thread.hpp"

namespace penstock::bench {
namespace {

constexpr int patience_s = 30;

}  // namespace

submit_thread::submit_thread(rest between) : between_(between), thread_([this] { serve(); }) {}

submit_thread::~submit_thread() {
  hand(end_);
  thread_.join();
}

void submit_thread::hand(handed_batch& next) {
  next.submitted.store(false, std::memory_order_relaxed);
  handed_.put(&next);
  if (between_ == rest::asleep) {
    wake_.ring();
  }
}

void submit_thread::serve() {
  for (;;) {
    handed_batch* next = handed_.look();
    while (next == nullptr) {
      if (between_ == rest::asleep) {
        static_cast<void>(wake_.rest(patience_s));
      }
      next = handed_.look();
    }
    if (next == &end_) {
      return;
    }
    next->batch->submit();
    next->submitted.store(true, std::memory_order_release);
  }
}

}  // namespace penstock::bench
