#pragma once

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include <stdlib.h>
#include <sys/stat.h>
#include <zmq.h>

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
  key_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-keys-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  key_folder(const key_folder&) = delete;
  key_folder& operator=(const key_folder&) = delete;
  ~key_folder() { std::filesystem::remove_all(path_); }

  std::filesystem::path write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream(file) << text;
    ::chmod(file.c_str(), mode);
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock::testing
