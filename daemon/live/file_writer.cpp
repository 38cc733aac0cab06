#include "daemon/live/file_writer.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.hpp"
#include "base/sigmf.hpp"
#include "kernels/tensor.hpp"

namespace penstock::live {
namespace {

std::runtime_error file_failure(const std::string& what, const std::string& path) {
  return std::runtime_error(what + " " + path + ": " + std::generic_category().message(errno));
}

/// Raw results.
class raw_file {
 public:
  raw_file(const std::string& path, const result_message& first)
      : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666)) {
    struct stat facts {};
    if (!file_ || ::fstat(file_.number(), &facts) != 0) {
      throw file_failure("can't open", path_);
    }
    size_ = facts.st_size - facts.st_size % static_cast<off_t>(first.unit_bytes);
    // A pipe or device has no length.
    is_regular_ = S_ISREG(facts.st_mode);
    if (is_regular_ && !lock_file(file_.number())) {
      throw std::runtime_error("another sink or program writes " + path_);
    }
    cut();
  }

  write_progress write(const result_message& message) {
    while (written_ < message.bytes.size()) {
      const std::span<const std::byte> rest = message.bytes.subspan(written_);
      const ssize_t count = ::write(file_.number(), rest.data(), rest.size());
      if (count >= 0) {
        written_ += static_cast<std::size_t>(count);
      } else if (errno == EAGAIN) {
        return write_progress::full;  // a pipe whose reader is slow
      } else if (errno != EINTR) {
        const std::runtime_error failed = file_failure("can't write to", path_);
        written_ = 0;
        cut();
        throw failed;
      }
    }
    size_ += static_cast<off_t>(std::exchange(written_, 0));
    return write_progress::written;
  }

 private:
  // To whole results.
  void cut() {
    if (is_regular_ && (::ftruncate(file_.number(), size_) != 0 || ::lseek(file_.number(), size_, SEEK_SET) < 0)) {
      throw file_failure("can't continue", path_);
    }
  }

  std::string path_;
  file_descriptor file_;
  off_t size_ = 0;
  std::size_t written_ = 0;  // of a message that is not whole
  bool is_regular_ = true;
};

/// A recording.
class recording {
 public:
  recording(const std::string& path, const result_message& first) : path_(path) {
    sigmf_meta meta;
    meta.datatype = sigmf_of_element(first.element);
    const std::optional<element_type> type = element_type_of(first.element);
    meta.channels = static_cast<std::uint32_t>(first.item_bytes / size_of(type.value_or(element_type::u8)));
    meta.sample_rate = first.item_rate;
    meta.more = R"({"core:recorder":"penstock"})";
    try {
      file_.emplace(path, std::move(meta), true);
    } catch (const sigmf_error& error) {
      throw std::runtime_error(path + ": " + error.what());
    }
  }

  write_progress write(const result_message& message) {
    if (message.bytes.empty()) {
      return write_progress::written;
    }
    try {
      if (message.begins || is_new_) {
        sigmf_capture capture;
        if (message.knows_place) {
          capture.global_index = message.offset;
        }
        capture.time_ns = message.time_ns;
        file_->begin(std::move(capture));
        is_new_ = false;
      }
      file_->append(message.bytes);
      return write_progress::written;
    } catch (const sigmf_error& error) {
      throw std::runtime_error(path_ + ": " + error.what());
    }
  }

 private:
  std::string path_;
  std::optional<sigmf_writer> file_;
  bool is_new_ = true;
};

/// As many files as are in use, of one kind.
template <typename File>
class files_writer final : public result_writer {
 public:
  write_progress write(const result_message& message) override {
    try {
      return file_of(message).write(message);
    } catch (const std::runtime_error& error) {
      failure_ = error.what();
      return write_progress::failed;
    }
  }
  std::string_view failure() const override { return failure_; }

 private:
  struct open_file {
    std::unique_ptr<File> file;
    std::uint64_t used = 0;
  };

  File& file_of(const result_message& message) {
    const auto found = files_.find(message.name);
    if (found != files_.end()) {
      found->second.used = ++uses_;
      return *found->second.file;
    }
    if (files_.size() >= most_open_files) {
      files_.erase(std::min_element(files_.begin(), files_.end(), [](const auto& left, const auto& right) {
        return left.second.used < right.second.used;
      }));
    }
    const std::string path(message.name);
    std::error_code ignored;  // opening the file says what is wrong
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    auto made = std::make_unique<File>(path, message);
    return *files_.emplace(path, open_file{std::move(made), ++uses_}).first->second.file;
  }

  std::map<std::string, open_file, std::less<>> files_;
  std::uint64_t uses_ = 0;
  std::string failure_;
};

}  // namespace

std::unique_ptr<result_writer> make_file_writer() {
  return std::make_unique<files_writer<raw_file>>();
}

std::unique_ptr<result_writer> make_recording_writer() {
  return std::make_unique<files_writer<recording>>();
}

}  // namespace penstock::live
