#include "daemon/doctor/device_trial.hpp"

#include <algorithm>

#include "daemon/machine/machine_share.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/ring/ring.hpp"

namespace penstock {
namespace {

std::vector<plan> compile_all(const settings& how, device& on) {
  std::vector<plan> plans;
  for (const pipeline_declaration& each : how.pipelines) {
    const auto id = static_cast<std::uint32_t>(plans.size());
    plans.push_back(compile_plan(each, id, on, static_cast<std::uint32_t>(how.wheel.streams)));
  }
  return plans;
}

opened_facts facts_of(const std::vector<opened_device>& opened, backend_choice asked) {
  const device_facts& first = opened.front().device->facts();
  opened_facts made{.asked = asked,
                    .backend = first.backend,
                    .name = first.name + ", " + first.detail,
                    .reason = opened.front().reason,
                    .devices = opened.size(),
                    .memory_bytes = first.memory_bytes};
  for (const opened_device& each : opened) {
    made.memory_bytes = std::min(made.memory_bytes, each.device->facts().memory_bytes);
  }
  return made;
}

/// Of one shard, beside what it needs on the device.
struct shard_need {
  std::size_t slots = 0;
  slot_size slot;
  std::size_t state_bytes = 0;
};

shard_need need_of(const settings& how, std::span<const plan> plans) {
  shard_need need{.slots = static_cast<std::size_t>(how.wheel.slots), .slot = size_for(plans)};
  for (const plan& each : plans) {
    need.state_bytes += 2 * each.state_bytes * how.sessions.max_sessions;
  }
  return need;
}

std::string pin(const std::vector<opened_device>& opened, std::size_t shards, const shard_need& need) {
  std::vector<device_memory> held;
  try {
    for (const opened_device& each : opened) {
      for (std::size_t slot = 0; slot < shards * need.slots; ++slot) {
        held.push_back(each.device->allocate_pinned(need.slot.pinned_input));
        held.push_back(each.device->allocate_pinned(need.slot.pinned_output));
      }
    }
  } catch (const device_error& error) {
    return error.what();
  }
  return "";
}

memory_facts try_memory(const std::vector<opened_device>& opened, std::size_t shards, const shard_need& need) {
  memory_facts made;
  const std::size_t slots = shards * need.slots;
  made.pinned_bytes = opened.size() * slots * (need.slot.pinned_input + need.slot.pinned_output);
  made.device_bytes = slots * need.slot.arena + shards * need.state_bytes;
  made.available_bytes = read_machine_share().available_bytes;
  made.was_tried = made.pinned_bytes <= made.available_bytes;
  made.error = made.was_tried ? pin(opened, shards, need) : "";
  return made;
}

}  // namespace

void try_device(const settings& how, doctor_facts& into) {
  const auto shards = static_cast<std::size_t>(how.device.shards);
  into.load.shards = shards * (how.device.every_device ? 1 : how.device.ids.size());
  try {
    const std::vector<opened_device> opened = open_devices(how.device);
    into.device = facts_of(opened, how.device.backend);
    into.load.shards = shards * opened.size();
    if (into.device.backend == "cuda") {
      into.device.priorities = cuda_priorities(how.device.every_device ? 0 : how.device.ids.front());
    }
    const std::vector<plan> plans = compile_all(how, *opened.front().device);
    into.memory = try_memory(opened, shards, need_of(how, plans));
  } catch (const std::runtime_error& error) {
    into.device.asked = how.device.backend;
    into.device.error = error.what();
  }
}

}  // namespace penstock
