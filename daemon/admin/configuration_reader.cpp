#include "daemon/admin/configuration_reader.hpp"

#include <atomic>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <pthread.h>

namespace penstock {

/// What the thread shares with its reader, and keeps when that is gone.
struct configuration_reader::reading {
  std::atomic<bool> over{false};
  std::mutex mutex;
  configuration_reader* reader = nullptr;  // nullptr once it is gone
};

configuration_reader::configuration_reader(boost::asio::io_context& admin, std::function<read_configuration()> read,
                                           std::chrono::seconds patience)
    : admin_(admin), read_(std::move(read)), patience_(patience), too_late_(admin) {}

configuration_reader::~configuration_reader() {
  if (reading_ != nullptr) {
    const std::lock_guard lock(reading_->mutex);
    reading_->reader = nullptr;
  }
}

bool configuration_reader::is_reading() const noexcept {
  return reading_ != nullptr && !reading_->over.load();
}

void configuration_reader::read(callback done) {
  done_ = std::move(done);
  if (is_reading()) {
    boost::asio::post(admin_, [this, held = reading_] {
      finish(held, {.error = "the files of an earlier reload are still being read: a file system does not answer"});
    });
    return;
  }
  reading_ = std::make_shared<reading>();
  reading_->reader = this;
  too_late_.expires_after(patience_);
  too_late_.async_wait([this, which = reading_](const boost::system::error_code& error) {
    if (!error) {
      finish(which, {.error = fmt::format("the files were not read within {} s: a file system does not answer",
                                          patience_.count())});
    }
  });
  const auto work = [which = reading_, read = read_] {
    ::pthread_setname_np(::pthread_self(), "reload files");
    sigset_t all;  // signals are the admin's
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    try {
      const auto found = std::make_shared<read_configuration>(read());
      which->over.store(true);
      const std::lock_guard lock(which->mutex);
      if (which->reader != nullptr) {
        boost::asio::post(which->reader->admin_, [which, found] {
          if (which->reader != nullptr) {
            which->reader->finish(which, std::move(*found));
          }
        });
      }
    } catch (...) {  // no memory even to say so: the reload is refused when its time is over
      which->over.store(true);
    }
  };
  try {
    std::thread(work).detach();
  } catch (const std::system_error& error) {
    reading_->over.store(true);
    boost::asio::post(admin_, [this, which = reading_, why = std::string(error.what())] {
      finish(which, {.error = "no thread to read the files: " + why});
    });
  }
}

// What comes when nobody waits for it any more is too late.
void configuration_reader::finish(const std::shared_ptr<reading>& which, read_configuration found) {
  if (which != reading_ || !done_) {
    return;
  }
  too_late_.cancel();
  std::exchange(done_, nullptr)(std::move(found));
}

}  // namespace penstock
