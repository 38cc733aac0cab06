#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/pipeline/plan.hpp"
#include "daemon/request/request.hpp"
#include "daemon/request/sessions.hpp"
#include "proto/control.hpp"
#include "proto/status.hpp"

namespace penstock {

/// Why numbers were not changed; `ok` if they were.
struct tuning_verdict {
  wire::status code = wire::status::ok;
  std::string reason;

  [[nodiscard]] bool accepted() const noexcept { return code == wire::status::ok; }
};

/// The tunable numbers of a shard's pipelines: those of each pipeline, which hold for requests of no session, and those
/// of each session, which follow the pipeline's where the session has set none. A change makes another set of numbers;
/// requests keep the one that they were accepted with. Thread: the shard.
class tuning {
 public:
  explicit tuning(session_table& sessions) : sessions_(sessions) {}

  /// A plan that is served from now on.
  void add(const plan& later);
  /// A plan that nothing refers to any more.
  void remove(const plan& gone) noexcept;

  /// Numbers of the next request of no session; nullptr if the plan is not tuned.
  [[nodiscard]] const tuned_numbers& of(const plan& pipeline) const noexcept {
    return by_plan_[pipeline.place].numbers;
  }
  /// A session that was opened has the pipeline's.
  void begin(session_record& opened) const { opened.numbers = of(*opened.pipeline); }

  /// Changes numbers of a session; all or none.
  [[nodiscard]] tuning_verdict set(session_record& session, std::span<const wire::number_setting> wanted) const;
  /// Changes numbers of a pipeline, and of its sessions that have not set them; `everywhere`: of all its sessions. A
  /// session in which another number does not go with the new one keeps what it has until a change fits.
  [[nodiscard]] tuning_verdict set(const plan& pipeline, std::span<const wire::number_setting> wanted, bool everywhere);
  /// The same for what a reload has changed in the configuration, which the check of the configuration has let pass.
  /// What was set by `set` gives way where the two do not go together.
  void adopt(const plan& pipeline, std::span<const wire::number_setting> changed);

  /// What holds for the next request.
  [[nodiscard]] wire::values_report report(const session_record& session) const;
  [[nodiscard]] wire::values_report report(const plan& pipeline) const;

 private:
  /// Numbers by their places among those of a frame; nullopt for one that the stage makes of the others by default.
  using changes = std::map<std::size_t, std::optional<double>>;

  struct pipeline_numbers {
    changes configured;                 ///< by reloads, since the plan was compiled
    std::map<std::size_t, double> set;  ///< by `set`
    tuned_numbers numbers;
  };

  [[nodiscard]] changes of_pipeline(const plan& pipeline) const;
  void follow(const plan& pipeline, const changes& wanted, bool everywhere);

  session_table& sessions_;
  std::vector<pipeline_numbers> by_plan_;  // by plan::place
};

}  // namespace penstock
