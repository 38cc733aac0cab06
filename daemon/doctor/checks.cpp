#include "daemon/doctor/checks.hpp"

namespace penstock {

std::vector<finding> check_all(const doctor_facts& facts) {
  std::vector<finding> all{check_configuration(facts.configuration)};
  const bool is_valid = facts.configuration.error.empty();
  if (is_valid) {
    all.push_back(check_keys(facts.keys));
    all.push_back(check_device(facts.device, facts.driver));
    all.push_back(check_driver(facts.device, facts.driver));
  }
  if (is_valid && facts.device.error.empty()) {
    all.push_back(check_priorities(facts.device, facts.load));
  }
  if (is_valid && facts.memory) {
    all.push_back(check_device_memory(facts.device, *facts.memory));
    all.push_back(check_pinned_memory(*facts.memory));
    all.push_back(check_locked_memory(facts.device, *facts.memory, facts.limits));
  }
  if (is_valid) {
    all.push_back(check_open_files(facts.load, facts.limits));
    all.push_back(check_processors(facts.load));
    for (const endpoint_facts& each : facts.endpoints) {
      all.push_back(check_endpoint(each));
    }
  }
  all.push_back(check_shared_memory(facts.shared_memory));
  all.push_back(check_clock(facts.clock_source));
  if (is_valid && !facts.unit.file.empty()) {
    all.push_back(check_unit(facts.unit, facts.device, facts.memory, facts.load));
  }
  return all;
}

}  // namespace penstock
