#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/device/device.hpp"

namespace penstock {

/// A device that compiles and does nothing else: it keeps what it was asked for. Memory, streams and events are not
/// to be had.
class fake_device : public device {
 public:
  fake_device() { facts_.backend = facts_.name = "fake"; }

  struct request {
    std::string op;
    std::vector<tensor_spec> inputs;
    std::int64_t max_frames = 0;
  };
  std::vector<request> compiled;
  std::map<std::string, std::size_t, std::less<>> scratch;  ///< bytes that operations of that name ask for
  std::map<std::string, std::size_t, std::less<>> state;    ///< the same of a session's state
  std::set<std::string, std::less<>> single_pass;           ///< operations that are
  std::set<std::string, std::less<>> overwrites;            ///< the same
  std::string broken;                                       ///< an operator that the device can't do
  std::string refused;                                      ///< an operator whose parameter "field" it refuses

  const device_facts& facts() const noexcept override { return facts_; }
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
    const auto bytes_of = [&](const auto& wanted) {
      const auto bytes = wanted.find(name);
      return bytes == wanted.end() ? 0 : bytes->second;
    };
    return std::make_unique<idle>(bytes_of(scratch), bytes_of(state), single_pass.contains(name),
                                  overwrites.contains(name));
  }

 private:
  class idle : public operation {
   public:
    idle(std::size_t scratch, std::size_t state, bool single_pass, bool overwrites)
        : scratch_(scratch), state_(state), single_pass_(single_pass), overwrites_(overwrites) {}
    std::size_t scratch_bytes() const noexcept override { return scratch_; }
    std::size_t state_bytes() const noexcept override { return state_; }
    bool single_pass() const noexcept override { return single_pass_; }
    bool overwrites() const noexcept override { return overwrites_; }
    fault run(void*, const operation_arguments&) noexcept override { return {}; }

   private:
    std::size_t scratch_;
    std::size_t state_;
    bool single_pass_;
    bool overwrites_;
  };

  std::byte* take_pinned(std::size_t) override { throw device_error("no memory here"); }
  void free_pinned(std::byte*) noexcept override {}
  std::byte* take_device(std::size_t) override { throw device_error("no memory here"); }
  void free_device(std::byte*) noexcept override {}

  device_facts facts_;
};

}  // namespace penstock
