#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/plugin.h>

#include "kernels/operation.hpp"
#include "kernels/waves.hpp"

namespace penstock {

/// What a plug-in's operator says of a stage before it is made.
struct plugin_inference {
  std::vector<operator_output> outputs;  ///< the name of a sole one may be ""
  std::size_t state_bytes = 0;
  std::uint32_t flags = 0;  ///< PS_SINGLE_PASS | …

  [[nodiscard]] std::optional<session_traits> session() const noexcept {
    return state_bytes == 0
               ? std::nullopt
               : std::optional(session_traits{.whole_frames = (flags & (PS_WHOLE_FRAMES | PS_WAVES)) != 0, .rate = {}});
  }
};

/// An operation that a plug-in's operator has made.
class plugin_operation : public operation {
 public:
  /// `device`: a CUDA device, which is current, or −1 for the host. Throws parameter_error.
  plugin_operation(const ps_operator& made_by, const operation_request& request, std::int32_t device);
  ~plugin_operation() override;

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return inferred_.state_bytes; }
  [[nodiscard]] bool single_pass() const noexcept override { return (inferred_.flags & PS_SINGLE_PASS) != 0; }
  [[nodiscard]] bool overwrites() const noexcept override { return (inferred_.flags & PS_OVERWRITES) != 0; }
  [[nodiscard]] std::uint32_t flags() const noexcept { return inferred_.flags; }
  [[nodiscard]] bool in_waves() const noexcept { return (inferred_.flags & PS_WAVES) != 0; }
  /// Of an operator that runs in waves.
  [[nodiscard]] wave_layout layout(const operation_request& request) const;
  /// On the host.
  fault run(void* stream, const operation_arguments& arguments) noexcept override;

 protected:
  /// Without a stream and a queue. The arguments must outlive it.
  [[nodiscard]] static ps_run run_over(const operation_arguments& arguments) noexcept;
  fault call(const ps_run& run) noexcept;

 private:
  const ps_operator& made_by_;
  plugin_inference inferred_;
  void* made_ = nullptr;
  std::size_t scratch_bytes_ = 0;
};

/// The operator of the library in code file `key` that `entry` names, or the only one. Throws parameter_error.
[[nodiscard]] const ps_operator& plugin_operator(const parameters& settings, std::string_view key);
/// What the operator makes of these inputs with the stage's `values`. Throws parameter_error.
[[nodiscard]] plugin_inference infer_with(const ps_operator& asked, const parameters& settings,
                                          std::span<const tensor_spec> inputs);

/// plugin: an operator of a shared library that the user brings (penstock/plugin.h).
///
/// Inputs: 1 to 8, of any type. Output: what the plug-in says.
/// Parameters:
///   file    the library, beside the configuration; see [code]
///   entry   the operator; may be left out if the library has one
///   tolerance  how much its results on the host and on a GPU may differ, as a part of the largest number; default 1e-4
///   values  flags, numbers, texts, lists of them, and .npy files: the plug-in's own parameters
[[nodiscard]] tensor_spec infer_plugin(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::optional<session_traits> plugin_session(const parameters& settings,
                                                           std::span<const tensor_spec> inputs);
[[nodiscard]] std::vector<operator_output> plugin_outputs(const parameters& settings,
                                                          std::span<const tensor_spec> inputs);
/// What the operator makes of a stage on the host; with PS_WAVES it runs in waves (waves.hpp).
[[nodiscard]] std::unique_ptr<operation> make_plugin(const ps_operator& asked, const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_plugin_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_plugin_cuda(const operation_request& request);

}  // namespace penstock
