#include "daemon/service/quarantine.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include "base/guarded_file.hpp"
#include "base/sha256.hpp"
#include "daemon/config/pipeline_text.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/service/start.hpp"
#include "kernels/plugin_library.hpp"

namespace penstock {
namespace {

constexpr std::size_t largest_file = std::size_t{1} << 20U;
constexpr std::size_t key_digits = 16;

/// Stands for a pipeline with the contents of its files.
std::string key_of(const pipeline_declaration& declared) {
  sha256 key;
  key.add_sized(print_pipeline(declared));
  for (const stage_declaration& stage : declared.stages) {
    for (const auto& [name, value] : stage.settings) {
      if (const auto* const code = std::get_if<std::shared_ptr<const code_file>>(&value)) {
        key.add_sized(digest_of(**code));
      }
    }
  }
  return key.digits().substr(0, key_digits);
}

}  // namespace

std::string users_stages(const pipeline_declaration& declared) {
  std::vector<std::string> names;
  for (const stage_declaration& stage : declared.stages) {
    if (runs_users_code(stage)) {
      names.push_back("'" + stage.name + "'");
    }
  }
  std::string text = names.empty() ? "" : names.size() == 1 ? "stage " : "stages ";
  for (std::size_t at = 0; at < names.size(); ++at) {
    text += (at == 0 ? "" : at + 1 == names.size() ? " and " : ", ") + names[at];
  }
  return text;
}

quarantine::quarantine(std::filesystem::path folder)
    : file_(folder.empty() ? std::filesystem::path{} : folder / "suspects.json") {}

std::filesystem::path quarantine::default_folder() {
  for (const char* const name : {"STATE_DIRECTORY", "RUNTIME_DIRECTORY"}) {
    if (std::filesystem::path folder = systemd_folder(name); !folder.empty()) {
      return folder;
    }
  }
  return {};
}

// A file that is not as it should be is no reason not to serve.
void quarantine::read() {
  std::error_code unknown;
  if (file_.empty() || !std::filesystem::exists(file_, unknown)) {
    suspects_.clear();
    return;
  }
  try {
    const auto all = nlohmann::json::parse(read_guarded_file(file_, file_guard::trusted, largest_file));
    std::vector<suspect> found;
    for (const nlohmann::json& each : all.at("suspects")) {
      found.push_back({.pipeline = each.at("pipeline"),
                       .stages = each.at("stages"),
                       .key = each.at("key"),
                       .error = each.at("error"),
                       .deaths = each.at("deaths")});
    }
    suspects_ = std::move(found);
  } catch (const std::exception& error) {
    spdlog::warn("{} is left out, so no pipeline is in quarantine: {}", file_.string(), error.what());
    suspects_.clear();
  }
}

void quarantine::write() const {
  if (file_.empty()) {
    return;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const suspect& each : suspects_) {
    list.push_back({{"pipeline", each.pipeline},
                    {"stages", each.stages},
                    {"key", each.key},
                    {"error", each.error},
                    {"deaths", each.deaths}});
  }
  const std::filesystem::path part = file_.string() + ".part";
  {
    std::ofstream out(part, std::ios::trunc);
    ::chmod(part.c_str(), S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
    out << nlohmann::ordered_json{{"suspects", list}}.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
        << '\n';
    if (!out.flush()) {
      spdlog::warn("{} can't be written: deaths of the daemon are not counted", part.string());
      return;
    }
  }
  std::filesystem::rename(part, file_);
}

const quarantine::suspect* quarantine::find(const pipeline_declaration& declared) const {
  const auto found = std::find_if(suspects_.begin(), suspects_.end(),
                                  [&](const suspect& each) { return each.pipeline == declared.name; });
  return found == suspects_.end() || found->key != key_of(declared) ? nullptr : &*found;
}

void quarantine::apply(settings& wanted) {
  const std::lock_guard lock(mutex_);
  read();
  wanted.refused.clear();
  std::erase_if(wanted.pipelines, [&](const pipeline_declaration& each) {
    const suspect* const found = find(each);
    if (found == nullptr || found->deaths < most_deaths) {
      return false;
    }
    wanted.refused.push_back(
        {each.name, found->stages, found->deaths, found->error,
         fmt::format("pipeline '{}' is in quarantine: the device was lost {} times in a row while {} of it ran ({}); "
                     "change its code or its configuration, or remove {}, and reload",
                     each.name, found->deaths, found->stages, found->error, file_.string())});
    return true;
  });
  if (wanted.pipelines.empty() && !wanted.refused.empty()) {
    throw configuration_error("no pipeline is left to serve: " + wanted.refused.front().reason);
  }
}

void quarantine::blame(const std::vector<pipeline_declaration>& served, std::span<const std::string> suspects,
                       const std::string& error) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    bool changed = false;
    for (const pipeline_declaration& each : served) {
      const std::string stages = users_stages(each);
      if (stages.empty() || std::find(suspects.begin(), suspects.end(), each.name) == suspects.end() ||
          !counted_.insert(each.name).second) {
        continue;
      }
      const suspect* const before = find(each);
      const std::uint32_t deaths = before == nullptr ? 1 : before->deaths + 1;
      std::erase_if(suspects_, [&](const suspect& one) { return one.pipeline == each.name; });
      suspects_.push_back({each.name, stages, key_of(each), error, deaths});
      changed = true;
      spdlog::error("suspect: {} of pipeline '{}' was with the device ({}); {}", stages, each.name, error,
                    file_.empty()
                        ? "it is not counted, as there is no STATE_DIRECTORY"
                        : fmt::format("that is death {} in a row, and after {} the pipeline is not served any more",
                                      deaths, most_deaths));
    }
    if (changed) {
      write();
    }
  } catch (const std::exception& failed) {
    spdlog::warn("the suspects can't be kept: {}", failed.what());
  }
}

void quarantine::acquit(std::span<const std::string> pipelines) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const std::size_t gone = std::erase_if(suspects_, [&](const suspect& each) {
      return each.deaths < most_deaths && !counted_.contains(each.pipeline) &&
             std::find(pipelines.begin(), pipelines.end(), each.pipeline) != pipelines.end();
    });
    if (gone != 0) {
      write();
    }
  } catch (const std::exception& failed) {
    spdlog::warn("the suspects can't be kept: {}", failed.what());
  }
}

bool quarantine::has_suspects() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(suspects_.begin(), suspects_.end(), [](const suspect& each) { return each.deaths < most_deaths; });
}

}  // namespace penstock
