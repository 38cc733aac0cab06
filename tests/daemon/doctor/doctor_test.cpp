#include "daemon/doctor/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

opened_facts cuda() {
  return {.asked = backend_choice::cuda,
          .backend = "cuda",
          .name = "NVIDIA H200",
          .devices = 1,
          .memory_bytes = 1000 * mebibyte,
          .priorities = stream_priority_range{0, -5}};
}

opened_facts host(backend_choice asked) {
  return {.asked = asked, .backend = "host", .name = "a processor", .devices = 1, .memory_bytes = 1000 * mebibyte};
}

const driver_facts whole_driver{.version = "580.82", .has_uvm = true};

/// A finding that is not good says why it matters and what to do.
void expect(const finding& made, severity level) {
  EXPECT_EQ(made.level, level) << made.check << ": " << made.found;
  EXPECT_FALSE(made.check.empty());
  EXPECT_FALSE(made.found.empty());
  EXPECT_FALSE(made.needed.empty());
  EXPECT_EQ(made.why.empty(), level == severity::good) << made.check;
  EXPECT_EQ(made.todo.empty(), level == severity::good) << made.check;
}

TEST(DoctorChecks, AWrongConfigurationIsAnError) {
  expect(check_configuration({.file = "a.toml", .pipelines = 2}), severity::good);
  const finding wrong = check_configuration({.file = "a.toml", .error = "a.toml:3: unknown key 'slot'"});
  expect(wrong, severity::error);
  EXPECT_EQ(wrong.found, "a.toml:3: unknown key 'slot'");
}

TEST(DoctorChecks, KeysThatOthersCanReadAreAnError) {
  expect(check_keys({}), severity::good);
  expect(check_keys({.encrypts = true}), severity::good);
  expect(check_keys({.encrypts = true, .error = "server.key: mode 0644"}), severity::error);
}

TEST(DoctorChecks, ADeviceThatCantBeOpenedIsAnError) {
  expect(check_device(cuda(), whole_driver), severity::good);
  opened_facts broken = cuda();
  broken.error = "cudaErrorInsufficientDriver";
  expect(check_device(broken, whole_driver), severity::error);
}

TEST(DoctorChecks, TheHostInsteadOfAGpuThatIsThereIsAWarning) {
  expect(check_device(host(backend_choice::automatic), {}), severity::good);
  opened_facts fallen = host(backend_choice::automatic);
  fallen.reason = "host, because CUDA does not work";
  const finding made = check_device(fallen, whole_driver);
  expect(made, severity::warning);
  EXPECT_EQ(made.found, fallen.reason);
  expect(check_device(host(backend_choice::host), whole_driver), severity::good);
}

TEST(DoctorChecks, CudaNeedsTheDriverAndItsMemoryModule) {
  expect(check_driver(cuda(), whole_driver), severity::good);
  expect(check_driver(cuda(), {.version = "580.82", .has_uvm = false}), severity::warning);
  expect(check_driver(cuda(), {}), severity::error);
  expect(check_driver(host(backend_choice::automatic), {}), severity::good);
}

TEST(DoctorChecks, FewerPrioritiesThanThePipelinesHaveIsAWarning) {
  expect(check_priorities(cuda(), {.priorities = 3}), severity::good);
  opened_facts flat = cuda();
  flat.priorities = stream_priority_range{0, -1};
  expect(check_priorities(flat, {.priorities = 2}), severity::good);
  expect(check_priorities(flat, {.priorities = 3}), severity::warning);
  expect(check_priorities(host(backend_choice::host), {.priorities = 3}), severity::good);
}

TEST(DoctorChecks, SlotsThatDoNotFitIntoTheDeviceAreAnError) {
  expect(check_device_memory(cuda(), {.device_bytes = 1000 * mebibyte}), severity::good);
  expect(check_device_memory(cuda(), {.device_bytes = 1000 * mebibyte + 1}), severity::error);
}

TEST(DoctorChecks, PinnedMemoryThatCouldNotBeHadIsAnError) {
  expect(check_pinned_memory({.pinned_bytes = mebibyte, .was_tried = true}), severity::good);
  const finding refused =
      check_pinned_memory({.pinned_bytes = mebibyte, .was_tried = true, .error = "no pinned memory"});
  expect(refused, severity::error);
  EXPECT_EQ(refused.found, "no pinned memory");
  expect(check_pinned_memory({.pinned_bytes = mebibyte, .available_bytes = 7, .was_tried = false}), severity::error);
}

TEST(DoctorChecks, LessLockedMemoryThanIsPinnedIsAWarning) {
  const memory_facts pinned{.pinned_bytes = 64 * mebibyte};
  expect(check_locked_memory(cuda(), pinned, {.locked_bytes = 64 * mebibyte}), severity::good);
  expect(check_locked_memory(cuda(), pinned, {.locked_bytes = no_limit}), severity::good);
  expect(check_locked_memory(cuda(), pinned, {.locked_bytes = 8 * mebibyte}), severity::warning);
  for (const backend_choice asked : {backend_choice::host, backend_choice::automatic}) {
    expect(check_locked_memory(host(asked), pinned, {.locked_bytes = 0}), severity::good);
  }
}

TEST(DoctorChecks, SourceThatGetsLessBufferThanItAsksForIsAWarning) {
  const source_facts enough{.name = "box", .type = "udp", .buffer_asked = 4 * mebibyte, .buffer_given = 4 * mebibyte};
  expect(check_source(enough), severity::good);
  const finding made =
      check_source({.name = "box", .type = "udp", .buffer_asked = 4 * mebibyte, .buffer_given = 208 * 1024});
  expect(made, severity::warning);
  EXPECT_EQ(made.found, "box (udp): the kernel gives its socket 208 KiB of 4.0 MiB");
  EXPECT_EQ(made.todo, "sysctl -w net.core.rmem_max=4194304, or a smaller socket_buffer");
}

TEST(DoctorChecks, EachClientNeedsAnOpenFileAndTheDaemonItsOwn) {
  const load_facts load{.shards = 2, .max_clients = 256};
  expect(check_open_files(load, {.open_files = no_limit}), severity::good);
  expect(check_open_files(load, {.open_files = 736}), severity::good);
  expect(check_open_files(load, {.open_files = 735}), severity::warning);
  expect(check_open_files(load, {.open_files = 100}), severity::error);
  const load_facts fed{.shards = 2, .max_clients = 256, .sources = 2, .source_files = 16};
  expect(check_open_files(fed, {.open_files = 752}), severity::good);
  expect(check_open_files(fed, {.open_files = 751}), severity::warning);
}

TEST(DoctorChecks, ShardsThatShareProcessorsAreAWarning) {
  expect(check_processors({.shards = 2, .processors = 4}), severity::good);
  expect(check_processors({.shards = 2, .processors = 3}), severity::warning);
  expect(check_processors({.shards = 2, .processors = 8, .io_threads = 3}), severity::good);
  expect(check_processors({.shards = 2, .processors = 7, .io_threads = 3}), severity::warning);
  expect(check_processors({.shards = 1, .polls = true, .processors = 2}), severity::good);
  const finding polling = check_processors({.shards = 1, .polls = true, .processors = 1});
  expect(polling, severity::warning);
  EXPECT_THAT(polling.todo, HasSubstr("callback"));
}

TEST(DoctorChecks, AnEndpointHasToBeFreeOrTheDaemons) {
  expect(check_endpoint({"tcp://127.0.0.1:7600", endpoint_state::free}), severity::good);
  expect(check_endpoint({"tcp://127.0.0.1:7600", endpoint_state::served}), severity::good);
  expect(check_endpoint({"tcp://127.0.0.1:7600", endpoint_state::taken}), severity::error);
  const finding refused = check_endpoint({"tcp://127.0.0.1:80", endpoint_state::refused, "Permission denied"});
  expect(refused, severity::error);
  EXPECT_EQ(refused.found, "tcp://127.0.0.1:80: Permission denied");
}

TEST(DoctorChecks, SharedMemoryHasToBeThereAndRoomy) {
  expect(check_shared_memory({.is_writable = true, .free_bytes = 64 * mebibyte}), severity::good);
  expect(check_shared_memory({.is_writable = false, .free_bytes = 64 * mebibyte}), severity::warning);
  expect(check_shared_memory({.is_writable = true, .free_bytes = mebibyte}), severity::warning);
}

TEST(DoctorChecks, ASlowClockIsAWarning) {
  for (const char* const quick : {"tsc", "kvm-clock", "arch_sys_counter", ""}) {
    expect(check_clock(quick), severity::good);
  }
  for (const char* const slow : {"hpet", "acpi_pm", "xen"}) {
    expect(check_clock(slow), severity::warning);
  }
}

TEST(DoctorChecks, TheUnitsLimitsCountForTheService) {
  const load_facts load{.shards = 1, .max_clients = 256};
  const memory_facts pinned{.pinned_bytes = 64 * mebibyte};
  const unit_facts bare{.file = "/etc/systemd/system/penstockd.service"};
  unit_facts whole = bare;
  whole.locked_bytes = no_limit;
  whole.open_files = 4096;
  expect(check_unit(whole, cuda(), pinned, load), severity::good);
  expect(check_unit(bare, cuda(), pinned, load), severity::warning);
  expect(check_unit(bare, host(backend_choice::host), pinned, load), severity::good);
  whole.open_files = 300;
  expect(check_unit(whole, cuda(), pinned, load), severity::warning);
}

TEST(DoctorChecks, WithoutAConfigurationOnlyTheMachineIsJudged) {
  doctor_facts facts{.configuration = {.file = "a.toml", .error = "wrong"}};
  facts.shared_memory = {.is_writable = true, .free_bytes = 64 * mebibyte};
  EXPECT_EQ(check_all(facts).size(), 3U);
  facts.configuration.error.clear();
  facts.device = cuda();
  facts.memory = memory_facts{.was_tried = true};
  facts.unit.file = "penstockd.service";
  facts.endpoints = {{"tcp://127.0.0.1:7600"}, {"admin 127.0.0.1:7680"}};
  EXPECT_EQ(check_all(facts).size(), 15U);
}

TEST(DoctorChecks, AmountsAreShort) {
  EXPECT_EQ(amount_text(0), "0 B");
  EXPECT_EQ(amount_text(1536), "1.5 KiB");
  EXPECT_EQ(amount_text(128 * mebibyte), "128 MiB");
  EXPECT_EQ(amount_text(no_limit), "no limit");
  EXPECT_EQ(counted(1, "shard"), "1 shard");
  EXPECT_EQ(counted(0, "shard"), "0 shards");
}

}  // namespace

}  // namespace penstock
