#include "daemon/doctor/doctor.hpp"

#include <set>

#include "daemon/doctor/checks.hpp"
#include "daemon/doctor/device_trial.hpp"
#include "daemon/doctor/endpoint_probe.hpp"
#include "daemon/doctor/machine_facts.hpp"
#include "daemon/files/whole_file.hpp"
#include "daemon/machine/machine_share.hpp"
#include "daemon/security/keyring.hpp"
#include "daemon/settings/machine_fit.hpp"
#include "daemon/shard/shard_directory.hpp"

namespace penstock {
namespace {

load_facts load_of(const settings& how) {
  std::set<stream_priority> priorities;
  for (const pipeline_declaration& each : how.pipelines) {
    priorities.insert(each.priority);
  }
  return {.shards = 0,
          .max_clients = how.clients.max_clients,
          .priorities = priorities.size(),
          .polls = how.wheel.completion == completion_mode::poll,
          .processors = read_machine_share().processors};
}

key_facts keys_of(const security_settings& given) {
  key_facts made{.encrypts = given.encrypts()};
  try {
    if (given.encrypts()) {
      const keyring good(given.secret_key_file, given.authorized_keys_file);
    }
  } catch (const configuration_error& wrong) {
    made.error = wrong.what();
  } catch (const file_unreadable& failed) {
    made.error = failed.what();
  }
  return made;
}

std::vector<endpoint_facts> endpoints_of(const settings& how, std::size_t shards) {
  std::vector<endpoint_facts> all;
  for (const std::vector<std::string>& of_shard : endpoints_of_all(how.daemon.listen, shards)) {
    for (const std::string& each : of_shard) {
      all.push_back(probe_data_endpoint(each));
    }
  }
  for (const std::string& each : how.admin.listen) {
    all.push_back(probe_admin_endpoint(each));
  }
  return all;
}

}  // namespace

std::vector<finding> examine(const std::string& name, const std::function<settings()>& read) {
  doctor_facts facts{.configuration = {.file = name},
                     .driver = read_driver(),
                     .limits = read_limits(),
                     .unit = read_unit(),
                     .shared_memory = read_shared_memory(),
                     .clock_source = read_clock_source()};
  try {
    const settings how = read();
    facts.configuration.pipelines = how.pipelines.size();
    facts.load = load_of(how);
    facts.keys = keys_of(how.security);
    try_device(how, facts);
    facts.load.io_threads =
        static_cast<std::size_t>(fitted(how, facts.load.shards, facts.load.processors).daemon.io_threads);
    facts.endpoints = endpoints_of(how, facts.load.shards);
  } catch (const configuration_error& wrong) {
    facts.configuration.error = wrong.what();
  } catch (const file_unreadable& failed) {
    facts.configuration.error = failed.what();
  }
  return check_all(facts);
}

}  // namespace penstock
