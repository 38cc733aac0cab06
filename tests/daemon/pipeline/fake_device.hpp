#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/device/device.hpp"

namespace penstock {

/// A device that compiles and does nothing else: it keeps what it was asked for. Memory, streams and events are not
/// to be had.
class fake_device : public device {
 public:
  struct request {
    std::string op;
    std::vector<tensor_spec> inputs;
    std::int64_t max_frames = 0;
  };
  std::vector<request> compiled;
  std::map<std::string, std::size_t, std::less<>> scratch;  ///< bytes that operations of that name ask for
  std::string broken;                                       ///< an operator that the device can't do
  std::string refused;                                      ///< an operator whose parameter "field" it refuses

  const device_facts& facts() const noexcept override { return facts_; }
  device_memory allocate_pinned(std::size_t) override { throw device_error("no memory here"); }
  device_memory allocate(std::size_t) override { throw device_error("no memory here"); }
  std::unique_ptr<stream> open_stream(stream_priority) override { throw device_error("no streams here"); }
  std::unique_ptr<event> open_event(bool) override { throw device_error("no events here"); }
  fault health() noexcept override { return {}; }

  std::unique_ptr<operation> compile(std::string_view name, const operation_request& asked) override {
    if (name == broken) {
      throw device_error("no such kernel");
    }
    if (name == refused) {
      throw parameter_error("field", "not on this device");
    }
    compiled.push_back({std::string(name), {asked.inputs.begin(), asked.inputs.end()}, asked.max_frames});
    const auto bytes = scratch.find(name);
    return std::make_unique<idle>(bytes == scratch.end() ? 0 : bytes->second);
  }

 private:
  class idle : public operation {
   public:
    explicit idle(std::size_t bytes) : bytes_(bytes) {}
    std::size_t scratch_bytes() const noexcept override { return bytes_; }
    fault run(void*, const operation_arguments&) noexcept override { return {}; }

   private:
    std::size_t bytes_;
  };

  void free_pinned(std::byte*) noexcept override {}
  void free_device(std::byte*) noexcept override {}

  device_facts facts_{"fake", "fake", "", 0};
};

}  // namespace penstock
