#include "tests/support/operation_runner.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr std::size_t guard_bytes = 256;

void require(fault outcome, const std::string& step) {
  if (outcome) {
    throw std::runtime_error(step + ": " + outcome.name);
  }
}

/// Memory for an operation between two guards. On the device it is filled from pinned memory and read into it.
class guarded_memory {
 public:
  guarded_memory(device& owner, memory_kind kind, std::size_t bytes)
      : bytes_{bytes}, pinned_{owner.allocate_pinned(bytes + 2 * guard_bytes)} {
    if (kind == memory_kind::device) {
      device_ = owner.allocate(bytes + 2 * guard_bytes);
    }
  }

  [[nodiscard]] std::byte* place() const noexcept {
    return (device_ != nullptr ? device_.get() : pinned_.get()) + guard_bytes;
  }

  void fill(stream& through, std::byte poison) {
    std::memset(pinned_.get(), std::to_integer<int>(poison), bytes_ + 2 * guard_bytes);
    upload(through);
  }
  void fill(stream& through, std::byte poison, std::span<const std::byte> contents) {
    std::memset(pinned_.get(), std::to_integer<int>(poison), bytes_ + 2 * guard_bytes);
    std::copy(contents.begin(), contents.end(), pinned_.get() + guard_bytes);
    upload(through);
  }
  [[nodiscard]] std::vector<std::byte> read(stream& through) {
    if (device_ != nullptr) {
      require(through.copy_out(pinned_.get(), device_.get(), bytes_ + 2 * guard_bytes), "copy_out");
    }
    require(through.synchronize(), "synchronize");
    const std::byte* const first = pinned_.get() + guard_bytes;
    return {first, first + bytes_};
  }
  /// Whether both guards, as last read, hold nothing but the poison.
  [[nodiscard]] bool is_guarded(std::byte poison) const {
    const auto clean = [poison](const std::byte* first) {
      return std::all_of(first, first + guard_bytes, [poison](std::byte held) { return held == poison; });
    };
    return clean(pinned_.get()) && clean(pinned_.get() + guard_bytes + bytes_);
  }

 private:
  /// Synchronized, as the pinned side is used again at once.
  void upload(stream& through) {
    if (device_ != nullptr) {
      require(through.copy_in(device_.get(), pinned_.get(), bytes_ + 2 * guard_bytes), "copy_in");
      require(through.synchronize(), "synchronize");
    }
  }

  std::size_t bytes_;
  device_memory pinned_;
  device_memory device_;
};

}  // namespace

std::vector<tensor_spec> operation_case::inputs() const {
  std::vector<tensor_spec> all{input};
  all.insert(all.end(), further_inputs.begin(), further_inputs.end());
  return all;
}

tensor_spec operation_case::output() const {
  const operator_definition* const definition = find_operator(op);
  if (definition == nullptr) {
    throw std::invalid_argument("no operator '" + op + "'");
  }
  return definition->infer(settings, inputs());
}

std::string operation_case::text() const {
  std::ostringstream written;
  written << op << " on " << extent.frames << " frames of " << input.text();
  for (const tensor_spec& further : further_inputs) {
    written << " and " << further.text();
  }
  written << ", leading " << extent.leading;
  return written.str();
}

operation_runner::operation_runner(std::unique_ptr<device> target)
    : device_{std::move(target)}, stream_{device_->open_stream(stream_priority::normal)} {}

std::vector<std::byte> operation_runner::run(const operation_case& setup, std::span<const std::byte> input) {
  return run(setup, input_bytes{&input, 1});
}

std::vector<std::byte> operation_runner::run(const operation_case& setup, input_bytes inputs) {
  const std::vector<tensor_spec> specs = setup.inputs();
  if (inputs.size() != specs.size()) {
    throw std::invalid_argument(setup.text() + ": given " + std::to_string(inputs.size()) + " inputs");
  }
  for (std::size_t input = 0; input < specs.size(); ++input) {
    EXPECT_EQ(inputs[input].size(),
              static_cast<std::size_t>(setup.extent.frames) * specs[input].bytes(setup.extent.leading));
  }
  static_cast<void>(setup.output());
  const operation_request request{.settings = setup.settings,
                                  .inputs = specs,
                                  .max_frames = setup.extent.frames + setup.spare_frames,
                                  .tuned = !setup.numbers.empty()};
  const std::unique_ptr<operation> compiled = device_->compile(setup.op, request);
  const memory_kind again = compiled->single_pass() ? memory_kind::pinned : memory_kind::device;
  std::vector<std::byte> result = run_once(setup, *compiled, inputs, {std::byte{0xA5}, memory_kind::device});
  EXPECT_TRUE(result == run_once(setup, *compiled, inputs, {std::byte{0x5A}, again}))
      << setup.text() << ": a byte of the output was not written, or depends on more than the input";
  return result;
}

std::vector<std::byte> operation_runner::run_once(const operation_case& setup, operation& compiled, input_bytes inputs,
                                                  const surroundings& in) {
  const std::byte poison = in.poison;
  const std::size_t output_bytes =
      static_cast<std::size_t>(setup.extent.frames) * setup.output().bytes(setup.extent.leading);
  std::vector<std::unique_ptr<guarded_memory>> sources;
  std::vector<const void*> addresses;
  for (const std::span<const std::byte> input : inputs) {
    sources.push_back(std::make_unique<guarded_memory>(*device_, in.kind, input.size()));
    sources.back()->fill(*stream_, poison, input);
    addresses.push_back(sources.back()->place());
  }
  guarded_memory result{*device_, in.kind, output_bytes};
  guarded_memory scratch{*device_, memory_kind::device, compiled.scratch_bytes()};
  result.fill(*stream_, poison);
  scratch.fill(*stream_, poison);

  const std::span<const std::byte> table = std::as_bytes(std::span(setup.numbers));
  guarded_memory numbers{*device_, in.kind, table.size()};
  numbers.fill(*stream_, poison, table);
  const operation_arguments arguments{
      .inputs = addresses,
      .output = result.place(),
      .scratch = scratch.place(),
      .extent = setup.extent,
      .session = {},
      .numbers = setup.numbers.empty() ? nullptr : reinterpret_cast<const double*>(numbers.place())};
  require(stream_->launch(compiled, arguments), "launch");
  require(stream_->synchronize(), "synchronize");

  std::vector<std::byte> produced = result.read(*stream_);
  EXPECT_TRUE(result.is_guarded(poison)) << setup.text() << ": wrote beside the output";
  static_cast<void>(scratch.read(*stream_));
  EXPECT_TRUE(scratch.is_guarded(poison)) << setup.text() << ": wrote beside the scratch";
  for (std::size_t input = 0; input < inputs.size(); ++input) {
    const std::vector<std::byte> left = sources[input]->read(*stream_);
    EXPECT_TRUE(std::equal(left.begin(), left.end(), inputs[input].begin(), inputs[input].end()))
        << setup.text() << ": changed input " << input;
  }
  return produced;
}

}  // namespace penstock
