#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/code/compiler.hpp"
#include "daemon/device/device.hpp"
#include "daemon/pipeline/declaration.hpp"
#include "daemon/pipeline/schedule.hpp"

namespace penstock {

/// Where one buffer of a plan lies in the device memory of a slot.
struct plan_buffer {
  std::string name;  ///< "input", or as plan_output::name
  tensor_spec spec;
  step_rates rate;         ///< between the input's leading dimension and its own; of a variable spec
  std::size_t offset = 0;  ///< from the start of that memory, a multiple of 256 bytes
  std::size_t bytes = 0;   ///< for the most frames of a batch
  std::size_t writer = 0;  ///< the node of plan::order that writes it

  /// Bytes from one frame to the next, in a batch whose input has that leading extent.
  [[nodiscard]] std::size_t pitch(std::int64_t input_leading) const noexcept {
    return spec.bytes(spec.variable ? rate.most(input_leading) : 0);
  }
};

/// What a stage that keeps state needs to know of it.
struct plan_state {
  std::size_t offset = 0;  ///< bytes from the start of a session's half
  session_traits traits;
  std::int64_t fixed_steps = 0;  ///< of each frame, where that is always the same; else 0
  step_rates rate;               ///< between the input's steps and this stage's, where it is not

  /// Steps that the stage has had once the session has had so many frames, or steps of the pipeline's input.
  [[nodiscard]] std::int64_t position(std::int64_t frames, std::int64_t steps) const noexcept {
    return fixed_steps != 0 ? frames * fixed_steps : rate.total(steps);
  }
};

/// One stage, compiled. Buffers are indices into plan::buffers.
struct plan_stage {
  std::string name;
  std::string op;
  std::vector<std::size_t> inputs;
  std::size_t output = 0;  ///< the first; the others follow it
  std::size_t scratch_offset = 0;
  std::size_t scratch_bytes = 0;
  std::unique_ptr<operation> compiled;
  std::optional<plan_state> state;   ///< of a stage that keeps some
  std::vector<std::string> fused{};  ///< stages that this one took in
  std::string code{};                ///< operation::note, or what the compiler made of users' code, for people
  std::size_t outputs = 1;
  std::size_t numbers = 0;       ///< of each frame, of a tuned stage: stage_declaration::numbers
  std::size_t first_number = 0;  ///< among those of all stages
  bool users_code = false;       ///< runs_users_code
  std::string code_key{};        ///< of users' code: stands for all that its results depend on
};

/// One output of a pipeline and where its batch lies in a slot's pinned output region.
struct plan_output {
  std::string name;  ///< the stage that makes it, with the output's name where it has several
  std::string op;
  std::size_t buffer = 0;         ///< index into plan::buffers
  std::size_t pinned_offset = 0;  ///< a multiple of 256
  std::uint64_t steps = 1;        ///< of the input that `indices` of its first dimension cover, where that is time
  std::uint64_t indices = 1;
  step_timing timing{};  ///< where its time lies among the input's steps
};

/// A pipeline, compiled for a device: what a batch of it copies, launches and gives back. Immutable once made.
struct plan {
  std::uint32_t id = 0;     ///< the number that SUBMIT carries: of the pipeline's name, for the daemon's life
  std::uint32_t place = 0;  ///< among all plans that the shard has had: a name gets another one with each reload
  pipeline_declaration declaration;
  std::int64_t max_frames = 0;       ///< frames a batch, after max_frames, max_bytes and what their steps can fill
  std::vector<plan_buffer> buffers;  ///< first the inputs; the sole one is at offset 0
  std::size_t inputs = 1;
  std::vector<std::size_t> inputs_pinned{0};  ///< where each lies in a slot's pinned input; multiples of 256
  std::vector<plan_stage> stages;             ///< in an order in which they can run
  std::vector<plan_output> outputs;
  /// The copy in (node 0), then the stages, then a copy out for each output.
  schedule order;
  std::size_t pinned_input_bytes = 0;
  std::size_t pinned_output_bytes = 0;
  std::size_t device_bytes = 0;  ///< of a slot: buffers, scratch and the frame table
  /// The frame table has what each frame of a batch has of its own: a session_frame for each keeper and frame, then for
  /// each tuned stage and frame its numbers. It comes to the device with the frames.
  std::size_t frame_table_offset = 0;  ///< in device memory
  std::size_t frame_table_pinned = 0;  ///< the same in the pinned input
  std::vector<std::size_t> tuned;      ///< the stages with tunable numbers, in their order
  std::size_t numbers = 0;             ///< of a frame, of all of these
  /// The input is read once, each output is written once and never read, all by operations that are single_pass, and no
  /// stage keeps state.
  bool single_pass = false;
  /// Its one stage blocks and works on host memory (penstock::blocks): the slots' pinned memory, or a client's arena.
  /// It has no device memory.
  bool blocks = false;
  /// There is one output, as large as the input at every length, and nothing reads the input after it is written: it
  /// may overwrite the input. No stage keeps state.
  bool rewrites_input = false;

  // Of a pipeline that keeps state.
  std::vector<std::size_t> keepers;  ///< the stages that keep some, in their order
  std::size_t state_bytes = 0;       ///< of one half of a session's state, a multiple of 256
  std::int64_t period = 1;           ///< session requests of several frames: their leading extent's divisor
  /// Frames of different lengths may share a batch, because every stage works step by step.
  bool mixes_lengths = false;

  /// The streams that its batches run on.
  [[nodiscard]] stream_class streams() const noexcept { return {declaration.priority, blocks}; }
  [[nodiscard]] bool keeps_state() const noexcept { return !keepers.empty(); }
  [[nodiscard]] bool is_tuned() const noexcept { return numbers != 0; }
  /// Bytes of the frame table of a batch of so many frames.
  [[nodiscard]] std::size_t frame_table_bytes(std::int64_t frames) const noexcept {
    return static_cast<std::size_t>(frames) * (keepers.size() * sizeof(session_frame) + numbers * sizeof(double));
  }
  /// Where in it the numbers of the first tuned stage begin.
  [[nodiscard]] std::size_t numbers_offset(std::int64_t frames) const noexcept {
    return static_cast<std::size_t>(frames) * keepers.size() * sizeof(session_frame);
  }
  /// Of several, the first.
  [[nodiscard]] const tensor_spec& input() const noexcept { return buffers.front().spec; }
  /// Samples of a frame of the input with that leading extent.
  [[nodiscard]] std::int64_t frame_steps(std::int64_t leading) const noexcept {
    return declaration.time_axis == 0 ? leading : declaration.frame_steps();
  }
  /// Bytes of one frame of all inputs, where that of the first has that leading extent.
  [[nodiscard]] std::size_t frame_bytes(std::int64_t leading) const noexcept {
    std::size_t sum = 0;
    for (std::size_t input = 0; input < inputs; ++input) {
      sum += buffers[input].pitch(leading);
    }
    return sum;
  }
  [[nodiscard]] const plan_buffer& output_buffer(std::size_t index) const noexcept {
    return buffers[outputs[index].buffer];
  }
  [[nodiscard]] const tensor_spec& output_spec(std::size_t index) const noexcept { return output_buffer(index).spec; }
};

/// Whether a stage runs code that the configuration brings.
[[nodiscard]] bool runs_users_code(const stage_declaration& stage);

/// Whether a stage blocks its thread and works on host memory on a GPU: a product by cuBLAS-Xt.
[[nodiscard]] bool blocks(const stage_declaration& stage);
/// The streams that a pipeline's batches run on, as plan::streams.
[[nodiscard]] stream_class streams_of(const pipeline_declaration& pipeline);

/// How users' code is compiled.
struct compile_options {
  compiler_settings compiler{};
  /// For a check without the device: users' code is compiled for this architecture, "" for none, and never run.
  std::optional<std::string> checks_for{};
  /// Of such a check: the device may be a GPU, so that a library that only the host needs may be missing.
  bool may_be_gpu = false;
};

/// Compiles a checked declaration for a device. A batch runs on at most `max_lanes` streams at once. Throws
/// device_error, or configuration_error when the device can't run a stage.
[[nodiscard]] plan compile_plan(const pipeline_declaration& declaration, std::uint32_t id, device& target,
                                std::uint32_t max_lanes = 8, const compile_options& options = {});

/// The pipelines that a shard serves, as clients know them. Thread: the shard.
struct served_pipelines {
  std::vector<const plan*> in_order;             ///< as the configuration lists them
  std::vector<const plan*> by_id;                ///< nullptr for an id that is not in use
  std::map<std::uint32_t, std::string> removed;  ///< by id: why it is gone
  std::vector<refused_pipeline> refused{};       ///< that the configuration has too

  /// nullptr when there is none of that id.
  [[nodiscard]] const plan* find(std::uint32_t id) const noexcept { return id < by_id.size() ? by_id[id] : nullptr; }
  void put(const plan& made) {
    if (by_id.size() <= made.id) {
      by_id.resize(made.id + 1);
    }
    by_id[made.id] = &made;
    removed.erase(made.id);
  }
  /// `why` is what clients are told that still ask for it.
  void remove(std::uint32_t id, std::string why) {
    by_id[id] = nullptr;
    removed[id] = std::move(why);
  }
  /// "" when that id was never in use, or is in use.
  [[nodiscard]] std::string why_removed(std::uint32_t id) const {
    const auto found = removed.find(id);
    return found == removed.end() ? "" : found->second;
  }
};

}  // namespace penstock
