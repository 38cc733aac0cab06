#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/pipeline/plan.hpp"

namespace penstock::testing {

/// A stage whose operator the test makes up. What it gives has the input's spec, unless it says otherwise.
struct made_up_stage {
  std::string name;
  std::vector<std::string> from;
  std::unique_ptr<operation> what;
  std::optional<tensor_spec> output;
  std::optional<session_traits> session;
};

/// Compiles, and nothing else: each operator once, by its name.
class made_up_compiler : public device {
 public:
  explicit made_up_compiler(std::map<std::string, std::unique_ptr<operation>> operators)
      : operators_(std::move(operators)) {}

  const device_facts& facts() const noexcept override { return facts_; }
  std::unique_ptr<stream> open_stream(stream_priority) override { throw device_error("no streams here"); }
  std::unique_ptr<event> open_event(bool) override { throw device_error("no events here"); }
  fault health() noexcept override { return {}; }
  std::unique_ptr<operation> compile(std::string_view name, const operation_request&) override {
    return std::move(operators_.at(std::string(name)));
  }

 private:
  std::byte* take_pinned(std::size_t) override { throw device_error("no memory here"); }
  void free_pinned(std::byte*) noexcept override {}
  std::byte* take_device(std::size_t) override { throw device_error("no memory here"); }
  void free_device(std::byte*) noexcept override {}

  std::map<std::string, std::unique_ptr<operation>> operators_;
  device_facts facts_;
};

/// The plan of such stages, laid on lanes and into an arena as every plan is.
inline plan made_up_plan(std::uint32_t id, const tensor_spec& input, std::int64_t max_frames,
                         std::vector<made_up_stage> stages, std::vector<std::string> outputs, std::uint32_t max_lanes) {
  pipeline_declaration declared;
  declared.name = "pipeline" + std::to_string(id);
  declared.input = input;
  declared.batch.max_frames = max_frames;
  declared.outputs = std::move(outputs);
  std::map<std::string, std::unique_ptr<operation>> operators;
  for (made_up_stage& each : stages) {
    stage_declaration& made = declared.stages.emplace_back();
    made.name = each.name;
    made.op = each.name;
    made.from = each.from;
    made.output = each.output.value_or(input);
    made.session = each.session;
    operators[each.name] = std::move(each.what);
  }
  made_up_compiler compiler(std::move(operators));
  return compile_plan(declared, id, compiler, max_lanes);
}

/// Does something else before, for a time that nobody can foresee: most often shortly, now and then for long.
class delayed_operation : public operation {
 public:
  delayed_operation(std::unique_ptr<operation> what, std::uint64_t seed) : what_(std::move(what)), seed_(seed) {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return what_->scratch_bytes(); }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return what_->state_bytes(); }
  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    // splitmix64
    std::uint64_t random = seed_ + turn_.fetch_add(1) * 0x9E3779B97F4A7C15ULL;
    random = (random ^ (random >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    random = (random ^ (random >> 27U)) * 0x94D049BB133111EBULL;
    random ^= random >> 31U;
    const std::uint64_t turns = random % 64 == 0 ? 40000 : random % 1000;
    for (std::atomic<std::uint64_t> turn{0}; turn.fetch_add(1, std::memory_order_relaxed) < turns;) {
    }
    return what_->run(stream, arguments);
  }

 private:
  std::unique_ptr<operation> what_;
  std::uint64_t seed_;
  std::atomic<std::uint64_t> turn_{0};
};

}  // namespace penstock::testing
