#include "daemon/request/tuning.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/configuration_error.hpp"
#include "daemon/pipeline/map_fusion.hpp"
#include "kernels/operation.hpp"
#include "kernels/parameters.hpp"

namespace penstock {
namespace {

using number_map = std::map<std::size_t, std::optional<double>>;
using own_numbers = std::map<std::size_t, double>;

tuning_verdict refuse(wire::status code, std::string reason) {
  return {code, std::move(reason)};
}

bool names(const std::vector<std::string>& all, const std::string& name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

const stage_declaration& declaration_of(const plan& pipeline, std::size_t stage) {
  return pipeline.declaration.stages[stage];
}

/// The place of a number among those of a frame; why there is none.
tuning_verdict find(const plan& pipeline, const wire::number_setting& wanted, std::size_t& place) {
  const auto& stages = pipeline.declaration.stages;
  const auto found = std::find_if(stages.begin(), stages.end(),
                                  [&](const stage_declaration& each) { return each.name == wanted.stage; });
  if (found == stages.end()) {
    std::vector<std::string_view> known;
    for (const plan_stage& each : pipeline.stages) {
      if (names(each.fused, wanted.stage)) {
        return refuse(wire::status::not_tunable, "no number of stage '" + wanted.stage + "' is tunable");
      }
      known.emplace_back(each.name);
    }
    return refuse(wire::status::unknown_value, "pipeline '" + pipeline.declaration.name + "' has no stage '" +
                                                   wanted.stage + "'" + suggestion(wanted.stage, known));
  }
  const auto number = std::find_if(found->numbers.begin(), found->numbers.end(),
                                   [&](const tunable_number& each) { return each.name == wanted.name; });
  if (number != found->numbers.end() && names(found->tunable, wanted.name)) {
    const plan_stage& stage = pipeline.stages[static_cast<std::size_t>(found - stages.begin())];
    place = stage.first_number + static_cast<std::size_t>(number - found->numbers.begin());
    return {};
  }
  const operator_definition& definition = *find_operator(found->op);
  const bool exists = number != found->numbers.end() ||
                      std::find(definition.keys.begin(), definition.keys.end(), wanted.name) != definition.keys.end();
  if (exists) {
    return refuse(wire::status::not_tunable, "'" + wanted.name + "' of stage '" + wanted.stage +
                                                 "' can't change: `tunable` of the stage does not name it");
  }
  const std::vector<std::string_view> known(found->tunable.begin(), found->tunable.end());
  return refuse(wire::status::unknown_value,
                "stage '" + wanted.stage + "' has no number '" + wanted.name + "'" + suggestion(wanted.name, known));
}

/// Changes that a message asks for; nullopt for a number that is given up.
tuning_verdict find_all(const plan& pipeline, std::span<const wire::number_setting> wanted, number_map& found) {
  for (const wire::number_setting& each : wanted) {
    std::size_t place = 0;
    if (tuning_verdict refused = find(pipeline, each, place); !refused.accepted()) {
      return refused;
    }
    found[place] = each.value;
  }
  return {};
}

void change(const number_map& wanted, own_numbers& to) {
  for (const auto& [place, value] : wanted) {
    if (value) {
      to[place] = *value;
    } else {
      to.erase(place);
    }
  }
}

number_map joined(number_map lower, const own_numbers& upper) {
  for (const auto& [place, value] : upper) {
    lower[place] = value;
  }
  return lower;
}

parameters without(const parameters& all, const std::string& name) {
  parameters made;
  for (const auto& [key, value] : all) {
    if (key != name) {
      made.set(key, value);
    }
  }
  return made;
}

/// The numbers of one stage. Throws parameter_error.
void append_numbers(const plan& pipeline, std::size_t index, const number_map& changed, std::vector<double>& to) {
  const stage_declaration& stage = declaration_of(pipeline, index);
  const std::size_t first = pipeline.stages[index].first_number;
  const operator_definition& definition = *find_operator(stage.op);
  parameters settings = operator_settings(stage);
  for (auto each = changed.lower_bound(first); each != changed.end() && each->first < first + stage.numbers.size();
       ++each) {
    const std::string& name = stage.numbers[each->first - first].name;
    if (each->second) {
      set_number(settings, name, *each->second);
    } else {
      settings = without(settings, name);
    }
  }
  for (const tunable_number& each : definition.tunable(settings, stage.inputs)) {
    to.push_back(each.value);
  }
}

/// nullptr, and why, if the stages do not take them.
tuned_numbers make_numbers(const plan& pipeline, const number_map& changed, std::string& reason) {
  auto made = std::make_shared<std::vector<double>>();
  for (const std::size_t index : pipeline.tuned) {
    try {
      append_numbers(pipeline, index, changed, *made);
    } catch (const parameter_error& error) {
      reason = "'" + error.field + "' of stage '" + declaration_of(pipeline, index).name + "' " + error.what();
      return nullptr;
    }
  }
  return made;
}

/// The pipeline's numbers with a session's own. Where the two do not go together, with what the session holds of the
/// pipeline's earlier ones too; else it holds nothing any more. nullptr, and why, if neither do.
tuned_numbers fitting_numbers(const plan& pipeline, const number_map& shared, const own_numbers& own, own_numbers& held,
                              std::string& reason) {
  tuned_numbers made = make_numbers(pipeline, joined(shared, own), reason);
  if (made != nullptr) {
    held.clear();
    return made;
  }
  return make_numbers(pipeline, joined(joined(shared, held), own), reason);
}

}  // namespace

void tuning::add(const plan& later) {
  by_plan_.resize(std::max<std::size_t>(by_plan_.size(), later.place + std::size_t{1}));
  std::string reason;
  by_plan_[later.place].numbers = later.is_tuned() ? make_numbers(later, {}, reason) : nullptr;
}

void tuning::remove(const plan& gone) noexcept {
  by_plan_[gone.place] = {};
}

tuning::changes tuning::of_pipeline(const plan& pipeline) const {
  const pipeline_numbers& own = by_plan_[pipeline.place];
  return joined(own.configured, own.set);
}

tuning_verdict tuning::set(session_record& session, std::span<const wire::number_setting> wanted) const {
  const plan& pipeline = *session.pipeline;
  number_map found;
  if (tuning_verdict refused = find_all(pipeline, wanted, found); !refused.accepted()) {
    return refused;
  }
  own_numbers own = session.own_numbers;
  change(found, own);
  own_numbers held = session.held_numbers;
  std::string reason;
  tuned_numbers numbers = fitting_numbers(pipeline, of_pipeline(pipeline), own, held, reason);
  if (numbers == nullptr) {
    return refuse(wire::status::out_of_range, std::move(reason));
  }
  session.own_numbers = std::move(own);
  session.held_numbers = std::move(held);
  session.numbers = std::move(numbers);
  return {};
}

tuning_verdict tuning::set(const plan& pipeline, std::span<const wire::number_setting> wanted, bool everywhere) {
  number_map found;
  if (tuning_verdict refused = find_all(pipeline, wanted, found); !refused.accepted()) {
    return refused;
  }
  pipeline_numbers& own = by_plan_[pipeline.place];
  own_numbers set = own.set;
  change(found, set);
  std::string reason;
  tuned_numbers numbers = make_numbers(pipeline, joined(own.configured, set), reason);
  if (numbers == nullptr) {
    return refuse(wire::status::out_of_range, std::move(reason));
  }
  own.set = std::move(set);
  own.numbers = std::move(numbers);
  changes changed;
  for (const auto& [place, value] : found) {
    changed[place] = (*own.numbers)[place];
  }
  follow(pipeline, changed, everywhere);
  return {};
}

void tuning::adopt(const plan& pipeline, std::span<const wire::number_setting> changed) {
  number_map found;
  if (!find_all(pipeline, changed, found).accepted()) {
    return;
  }
  pipeline_numbers& own = by_plan_[pipeline.place];
  for (const auto& [place, value] : found) {
    own.configured[place] = value;
    own.set.erase(place);
  }
  std::string reason;
  tuned_numbers numbers = make_numbers(pipeline, joined(own.configured, own.set), reason);
  if (numbers == nullptr) {
    own.set.clear();
    numbers = make_numbers(pipeline, own.configured, reason);
  }
  if (numbers == nullptr) {
    return;
  }
  own.numbers = std::move(numbers);
  changes places;
  for (const auto& [place, value] : found) {
    places[place] = (*own.numbers)[place];
  }
  follow(pipeline, places, false);
}

// What does not go together with a session's own numbers stays in that session as it was, until a later change does.
void tuning::follow(const plan& pipeline, const changes& wanted, bool everywhere) {
  const changes shared = of_pipeline(pipeline);
  sessions_.for_each_of(pipeline, [&](session_record& session) {
    const own_numbers before = session.own_numbers;
    for (const auto& [place, value] : wanted) {
      if (everywhere) {
        session.own_numbers.erase(place);
      }
    }
    if (session.own_numbers.empty()) {  // most have none, and there may be many
      session.held_numbers.clear();
      session.numbers = of(pipeline);
      return;
    }
    own_numbers held = session.held_numbers;
    std::erase_if(held, [&](const auto& each) { return wanted.contains(each.first); });
    std::string reason;
    tuned_numbers numbers = fitting_numbers(pipeline, shared, session.own_numbers, held, reason);
    if (numbers != nullptr) {
      session.held_numbers = std::move(held);
      session.numbers = std::move(numbers);
      return;
    }
    session.own_numbers = before;
    for (const auto& [place, value] : wanted) {
      session.held_numbers[place] = (*session.numbers)[place];
    }
  });
}

namespace {

wire::values_report report_of(const plan& pipeline, const tuned_numbers& numbers, const own_numbers& own) {
  wire::values_report made;
  for (const std::size_t index : pipeline.tuned) {
    const stage_declaration& stage = declaration_of(pipeline, index);
    for (std::size_t each = 0; each < stage.numbers.size(); ++each) {
      const std::string& name = stage.numbers[each].name;
      if (names(stage.tunable, name)) {
        const std::size_t place = pipeline.stages[index].first_number + each;
        made.values.push_back({stage.name, name, (*numbers)[place], own.contains(place)});
      }
    }
  }
  return made;
}

}  // namespace

wire::values_report tuning::report(const session_record& session) const {
  return report_of(*session.pipeline, session.numbers, session.own_numbers);
}

wire::values_report tuning::report(const plan& pipeline) const {
  return report_of(pipeline, of(pipeline), by_plan_[pipeline.place].set);
}

}  // namespace penstock
