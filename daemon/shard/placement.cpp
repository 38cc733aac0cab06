#include "daemon/shard/placement.hpp"

#include <memory>

#include <hwloc.h>

namespace penstock {
namespace {

struct topology_deleter {
  void operator()(hwloc_topology_t made) const noexcept { hwloc_topology_destroy(made); }
};
using topology = std::unique_ptr<hwloc_topology, topology_deleter>;

topology read_topology() {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) {
    return nullptr;
  }
  topology owned(made);
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  return hwloc_topology_load(made) == 0 ? std::move(owned) : nullptr;
}

}  // namespace

std::string stay_near(const std::string& pci_bus_id) {
  const topology machine = pci_bus_id.empty() ? nullptr : read_topology();
  if (machine == nullptr || hwloc_get_nbobjs_by_type(machine.get(), HWLOC_OBJ_NUMANODE) < 2) {
    return "";
  }
  hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(machine.get(), pci_bus_id.c_str());
  hwloc_obj_t near = device != nullptr ? hwloc_get_non_io_ancestor_obj(machine.get(), device) : nullptr;
  if (near == nullptr || near->nodeset == nullptr) {
    return "";
  }
  const int processors = hwloc_set_cpubind(machine.get(), near->cpuset, HWLOC_CPUBIND_THREAD);
  const int memory = hwloc_set_membind(machine.get(), near->nodeset, HWLOC_MEMBIND_BIND,
                                       HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
  if (processors != 0 && memory != 0) {
    return "";
  }
  return "near " + pci_bus_id + ", NUMA node " + std::to_string(hwloc_bitmap_first(near->nodeset)) +
         (memory != 0 ? " (processors only)" : "");
}

}  // namespace penstock
