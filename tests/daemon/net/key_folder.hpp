#pragma once

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/stat.h>
#include <zmq.h>

#include "tests/support/temporary_folder.hpp"

namespace penstock::testing {

struct key_pair {
  std::array<char, 41> public_text{};
  std::array<char, 41> secret_text{};

  key_pair() { ::zmq_curve_keypair(public_text.data(), secret_text.data()); }
  [[nodiscard]] std::string public_key() const { return public_text.data(); }
  [[nodiscard]] std::string secret_key() const { return secret_text.data(); }
};

/// A folder of its own, for files of keys.
class key_folder {
 public:
  std::filesystem::path write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    const std::filesystem::path file = folder_.path() / name;
    std::ofstream(file) << text;
    ::chmod(file.c_str(), mode);
    return file;
  }

 private:
  temporary_folder folder_;
};

}  // namespace penstock::testing
