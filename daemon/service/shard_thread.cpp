#include "daemon/service/shard_thread.hpp"

#include <memory>
#include <optional>
#include <utility>

#include <hwloc.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "daemon/pipeline/plan.hpp"
#include "daemon/service/start.hpp"

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

namespace {

// What the compiler made of users' code, and its warnings.
void log_code(const std::vector<plan>& plans) {
  for (const plan& each : plans) {
    for (const plan_stage& stage : each.stages) {
      if (!stage.code.empty()) {
        spdlog::info("pipeline '{}', stage '{}': {}", each.declaration.name, stage.name, stage.code);
      }
    }
  }
}

}  // namespace

shard_thread::shard_thread(std::uint32_t number, settings settings, device& device, memory_budget& memory,
                           const keyring* keys, start_progress& progress, std::function<void()> ended,
                           compile_options code)
    : tell_ended_(std::move(ended)) {
  thread_ = std::thread(
      [this, number, settings = std::move(settings), &device, &memory, keys, &progress,
       code = std::move(code)]() mutable { run(number, settings, device, memory, keys, progress, std::move(code)); });
}

shard_thread::~shard_thread() {
  if (!thread_.joinable()) {
    return;
  }
  if (!told_to_serve_) {
    may_serve_.set_value(nullptr);
  } else {
    stop();
    stop();
  }
  join();
}

void shard_thread::run(std::uint32_t number, const settings& settings, device& device, memory_budget& memory,
                       const keyring* keys, start_progress& progress, compile_options code) {
  ::pthread_setname_np(::pthread_self(), ("shard-" + std::to_string(number)).c_str());
  bool made = false;
  try {
    if (const std::string where = stay_near(device.facts().pci_bus_id); !where.empty()) {
      spdlog::info("shard {} stays {}", number, where);
    }
    std::vector<plan> plans;
    for (const pipeline_declaration& each : settings.pipelines) {
      const start_progress::step compiles(progress, number, "pipeline '" + each.name + "' is compiled");
      plans.push_back(compile_plan(each, static_cast<std::uint32_t>(plans.size()), device,
                                   static_cast<std::uint32_t>(settings.stream_pool.streams), code));
    }
    if (number == 0) {
      log_code(plans);
    }
    code = {};  // the plans have what they need of it
    check_memory(settings, plans, device.facts().backend == "host");
    std::optional<start_progress::step> doing;
    doing.emplace(progress, number, "the slots and the states of sessions are allocated");
    shard running(settings, device, plans, memory, number, keys, [&](const std::string& what) {
      doing.reset();
      doing.emplace(progress, number, what);
    });
    doing.reset();
    made = true;
    made_.set_value(&running);
    serve_until_the_end(running);
  } catch (...) {
    if (!made) {
      made_.set_exception(std::current_exception());
    }
  }
}

// The shard lives until the admin has let go of it, however it ends: the admin may still call stop.
void shard_thread::serve_until_the_end(shard& running) {
  shard_directory* const directory = may_serve_.get_future().get();
  if (directory == nullptr) {
    return;  // another shard could not start
  }
  try {
    ending_ = running.run();
  } catch (...) {
    failure_ = std::current_exception();
  }
  ended_.store(true, std::memory_order_release);
  [this]() noexcept { tell_ended_(); }();  // an exception here would leave the admin waiting
  let_go_.get_future().wait();
}

std::vector<std::string> shard_thread::wait_until_made() {
  shard_ = made_in_future_.get();
  return shard_->endpoints();
}

void shard_thread::join_directory(shard_directory& directory, shm_server* shm,
                                  const configuration_report& configuration, source_board* sources, sink_board* sinks) {
  directory_ = &directory;
  shard_->join(directory, shm, configuration, sources, sinks);
}

void shard_thread::serve() {
  told_to_serve_ = true;
  may_serve_.set_value(directory_);
}

void shard_thread::stop() {
  if (!has_ended()) {
    shard_->stop();
  }
}

void shard_thread::ask(std::function<void(shard&)> question) {
  if (!has_ended()) {
    shard_->ask(std::move(question));
  }
}

bool shard_thread::lost_its_device() const noexcept {
  return has_ended() && failure_ == nullptr && ending_ == shard_ending::device_lost;
}

shard_ending shard_thread::ending() const {
  if (failure_ != nullptr) {
    std::rethrow_exception(failure_);
  }
  return ending_;
}

void shard_thread::join() {
  let_go_.set_value();
  thread_.join();
}

}  // namespace penstock
