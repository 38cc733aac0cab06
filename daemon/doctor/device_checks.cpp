#include "daemon/doctor/amount_text.hpp"
#include "daemon/doctor/checks.hpp"

namespace penstock {

finding check_device(const opened_facts& given, const driver_facts& driver) {
  finding made{.check = "device", .found = given.backend + ": " + given.name};
  made.needed = given.asked == backend_choice::host ? "the host backend" : "a CUDA device that takes work";
  if (!given.error.empty()) {
    made.how = severity::error;
    made.found = given.error;
    made.why = "the daemon ends with 69 when it can't open its device";
    made.todo = "do what the message says, or take the host with backend = \"host\"";
  } else if (given.asked == backend_choice::automatic && given.backend == "host" && !driver.version.empty()) {
    made.how = severity::warning;
    made.found = given.reason;
    made.why = "an NVIDIA driver is loaded, and yet the work would run on the processors";
    made.todo = "mend CUDA, and set backend = \"cuda\" so that the host is never taken instead";
  }
  return made;
}

finding check_driver(const opened_facts& device, const driver_facts& given) {
  finding made{.check = "NVIDIA driver",
               .found = given.version.empty() ? "none is loaded" : "version " + given.version};
  const bool uses_cuda = device.asked == backend_choice::cuda || device.backend == "cuda";
  if (!given.version.empty()) {
    made.found += given.has_uvm ? ", nvidia-uvm is loaded" : ", nvidia-uvm is not loaded";
  }
  made.needed = uses_cuda ? "the driver and nvidia-uvm" : "nothing, for the host backend";
  if (uses_cuda && given.version.empty()) {
    made.how = severity::error;
    made.why = "without the driver there is no CUDA device";
    made.todo = "install NVIDIA's driver and check with nvidia-smi; in a container, give it the GPU";
  } else if (uses_cuda && !given.has_uvm) {
    made.how = severity::warning;
    made.why = "CUDA loads it when it is missing, which a service without new privileges may not";
    made.todo = "modprobe nvidia-uvm at boot: a line \"nvidia-uvm\" in /etc/modules-load.d/nvidia.conf";
  }
  return made;
}

finding check_priorities(const opened_facts& device, const load_facts& load) {
  finding made{.check = "stream priorities", .found = "kept by the host backend itself"};
  made.needed = counted(load.priorities, "level") + ", as the pipelines have";
  if (!device.priorities) {
    return made;
  }
  const auto levels = static_cast<std::size_t>(device.priorities->lowest - device.priorities->highest + 1);
  made.found = counted(levels, "level") + " (" + std::to_string(device.priorities->highest) + " to " +
               std::to_string(device.priorities->lowest) + ")";
  if (levels < load.priorities) {
    made.how = severity::warning;
    made.why = "pipelines of different priorities share one, and wait for each other on the device";
    made.todo = "expect less of priorities on this device, or use fewer of them";
  }
  return made;
}

finding check_device_memory(const opened_facts& device, const memory_facts& given) {
  finding made{.check = "device memory", .found = amount_text(device.memory_bytes)};
  made.needed = amount_text(given.device_bytes) + " on each device, for slots and the states of sessions";
  if (given.device_bytes > device.memory_bytes) {
    made.how = severity::error;
    made.why = "all of it is allocated at start-up, which would fail";
    made.todo = "fewer device.slots, device.shards or sessions.max_sessions, or smaller batches";
  } else {
    made.found += ", " + amount_text(given.device_bytes) + " needed";
  }
  return made;
}

finding check_pinned_memory(const memory_facts& given) {
  finding made{.check = "pinned memory", .found = amount_text(given.pinned_bytes) + " allocated and given back"};
  made.needed = amount_text(given.pinned_bytes) + ", for the slots of all shards";
  if (!given.was_tried) {
    made.found = "not tried: " + amount_text(given.available_bytes) + " of memory are available";
  } else if (!given.error.empty()) {
    made.found = given.error;
  } else {
    return made;
  }
  made.how = severity::error;
  made.why = "all of it is allocated at start-up, which would fail";
  made.todo = "fewer device.slots or device.shards, smaller batches, or stop what else uses the memory";
  return made;
}

}  // namespace penstock
