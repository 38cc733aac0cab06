#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "client/cli/input_stream.hpp"

namespace penstock::test {

/// A regular file of these bytes, without a name.
inline int file_of(std::string_view bytes) {
  const int file = ::memfd_create("input", MFD_CLOEXEC);
  if (file < 0 || ::write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      ::lseek(file, 0, SEEK_SET) != 0) {
    throw std::runtime_error("can't make a file for a test");
  }
  return file;
}

/// A pipe with these bytes, as many as it holds, and without a writer.
inline int pipe_of(std::string_view bytes) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe(ends.data()) != 0 || ::write(ends[1], bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("can't make a pipe for a test");
  }
  ::close(ends[1]);
  return ends[0];
}

/// An input stream with a stop of its own.
struct given_input {
  explicit given_input(int descriptor, std::string name = "input") : stream(descriptor, std::move(name), stop) {}

  cli::stop_event stop;
  cli::input_stream stream;
};

}  // namespace penstock::test
