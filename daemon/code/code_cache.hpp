#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// Machine code between starts: a folder with a file for each key. Several daemons may share one.
///
/// Who can write to the folder can have his code run. So the folder, its files and all folders above must belong to
/// root or to this process's user, and nobody else may write to them. What is cut or changed by accident is not found.
/// The files that were not used for the longest are removed once all together are larger than `most_bytes`.
class code_cache {
 public:
  static constexpr std::size_t most_bytes = std::size_t{256} << 20U;

  /// "": nothing is found or kept.
  explicit code_cache(std::filesystem::path folder, std::size_t most = most_bytes);

  /// Makes the folder where there is none. Returns why it can't be used, for people; "" if it can. Call it once, before
  /// others use the folder.
  [[nodiscard]] static std::string prepare(const std::filesystem::path& folder);

  /// Nothing also if the file is not to be trusted.
  [[nodiscard]] std::optional<std::string> find(std::string_view key) const;
  /// A text that can't be kept costs time at the next start, no more.
  void keep(std::string_view key, std::string_view text) const noexcept;

 private:
  [[nodiscard]] std::filesystem::path file_of(std::string_view key) const;
  void write(const std::filesystem::path& file, std::string_view text) const;
  void trim() const;

  std::filesystem::path folder_;
  std::size_t most_;
};

}  // namespace penstock
