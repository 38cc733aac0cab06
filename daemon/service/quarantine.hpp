#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/settings.hpp"
#include "daemon/pipeline/declaration.hpp"

namespace penstock {

/// Pipelines with users' code that were with the device when it was lost. After three such deaths of the daemon in a
/// row a pipeline is in quarantine: it is not served, the others are. A row ends once the pipeline has had batches done
/// by a daemon that then served on for a minute (`acquit`).
///
/// A count is of a pipeline as it is declared, its files' contents included: when one of them changes, it is another
/// pipeline. A file keeps the counts between processes; removing it ends every quarantine. Without a folder for the
/// file, deaths are logged but not counted. Threads: any.
class quarantine {
 public:
  static constexpr std::uint32_t most_deaths = 3;

  /// `folder` holds the file "suspects.json"; "" for none.
  explicit quarantine(std::filesystem::path folder);

  /// The folder for the file: systemd's STATE_DIRECTORY, else its RUNTIME_DIRECTORY, else none.
  [[nodiscard]] static std::filesystem::path default_folder();

  /// Reads the file, and moves pipelines that are in quarantine from `pipelines` to `refused`. Throws
  /// configuration_error if no pipeline is left.
  void apply(settings& wanted);
  /// The device was lost, or hung, with `error` while it had work of these pipelines of `served`, by name. Each is
  /// counted once in this process's life. Pipelines without users' code are left out.
  void blame(const std::vector<pipeline_declaration>& served, std::span<const std::string> suspects,
             const std::string& error) noexcept;
  /// These pipelines work.
  void acquit(std::span<const std::string> pipelines) noexcept;
  /// Whether a pipeline has a death that `acquit` could end.
  [[nodiscard]] bool has_suspects() const;

 private:
  struct suspect {
    std::string pipeline;
    std::string stages;  ///< of users' code, for people
    std::string key;     ///< of the declaration
    std::string error;   ///< of the last death
    std::uint32_t deaths = 0;
  };

  void read();
  void write() const;
  [[nodiscard]] const suspect* find(const pipeline_declaration& declared) const;

  std::filesystem::path file_;  // "" for none
  mutable std::mutex mutex_;
  std::vector<suspect> suspects_;
  std::set<std::string, std::less<>> counted_;  // pipelines, by this process
};

/// The stages with users' code of a pipeline, for people: "stage 'a'", "stages 'a' and 'b'"; "" if there is none.
[[nodiscard]] std::string users_stages(const pipeline_declaration& declared);

}  // namespace penstock
