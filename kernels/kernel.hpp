#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/size_expression.hpp"
#include "kernels/waves.hpp"

namespace penstock {

/// What a kernel gets for one of its parameters.
struct kernel_argument {
  enum class source : std::uint8_t {
    input,       ///< a pointer to the batch's frames of an input
    output,      ///< a pointer to those of an output
    session,     ///< session_arguments, or one of its members, by value
    expression,  ///< a whole number, by value
    number,      ///< a number of `values`, by value
    array,       ///< a pointer to an array of `values`, in device memory
    null,        ///< a null pointer
    numbers,     ///< operation_arguments::numbers
  };

  std::string text;  ///< as the configuration gives it
  source from = source::input;
  std::size_t index = 0;   ///< of `input` or `output`
  std::size_t offset = 0;  ///< of `session`: where the member lies
  std::size_t bytes = sizeof(void*);
  std::array<std::byte, 8> number{};  ///< of `number`
  size_expression expression;
  std::int64_t least = std::numeric_limits<std::int64_t>::min();  ///< of `expression`: what its type holds
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::vector<std::byte> array;

  [[nodiscard]] bool holds(std::int64_t value) const noexcept { return value >= least && value <= most; }
};

/// An argument of the kernel that a tuned map becomes, which says so by the parameter `tuned`:
/// operation_arguments::numbers. A user's kernel has neither.
inline constexpr std::string_view kernel_numbers = "<numbers>";

/// kernel: a CUDA kernel of the user's own, run once for each batch.
///
/// Inputs: 1 to 8, of any type. Output: what `output` says.
/// Parameters:
///   file     CUDA C++ (.cu), PTX (.ptx) or machine code (.cubin), beside the configuration; see [code]
///   entry    the kernel, such as "agc<float>"; may be left out if the file has one
///   output   { dtype, shape }; an extent may be an expression; default: the first input's
///   outputs  { NAME = { dtype, shape }, … } instead: up to 8 outputs, which others read as "STAGE.NAME"
///   grid     1 to 3 expressions: blocks
///   block    1 to 3 expressions: threads
///   cluster  1 to 3 whole numbers: blocks of a thread block cluster, at most 8; `grid` is a multiple of them
///   shared   an expression: bytes of dynamic shared memory, default 0
///   args     what the kernel's parameters get, in order:
///              in, in1, in2, …    T const*: the frames of an input, one after the other
///              out                T*: room for as many frames of the output
///              out.NAME           the same, of one of `outputs`
///              session            penstock::session, for a kernel with state in order = "links"; its members alone are
///                                 session.frames, session.pool, session.stride, for languages that pass no struct
///              state, new_state   T const*, T*: of as many sessions as frames; in order = "waves"
///              frames, n0, n1, …  long long; with a type ("i32 frames") as that
///              TYPE EXPRESSION    a whole number: "i32 n0 * n1"; in every batch the type must hold it
///              TYPE NAME          a number of `values`: "f32 gain"
///              NAME, TYPE* NAME   T const*: an array of `values`, as f32 or as that type
///              null               a null pointer, for parameters that a compiler adds and the kernel does not use
///   values   numbers, and arrays of numbers (or .npy files)
///   state    { bytes, steps, order }: bytes of each session, an expression; steps = "rows" (default) or "frames";
///            order = "links" (default): the kernel follows a session's frames; "waves": it gets one frame of each
///            session, with its state (waves.hpp); steps are "frames" then
///   single_pass  true if a launch reads its inputs once and writes its output once, both in order: small batches then
///            come over the link without a copy; default false
///   options  of the compiler; include: folders of its headers
///   host     a plug-in (plugin.hpp) that does the same on the host backend, with the same `values`: its operator
///            of the name `entry`, or its only one
///   tolerance  how much the two may differ on made-up frames, as a part of the largest number; default 1e-4
/// Expressions (size_expression.hpp) know `frames`, and n0, n1, …: the extents of a frame of the first input; n0 of
/// "max N" frames is their length in this batch. A variable first extent goes on to the output as "n0".
struct kernel_settings {
  std::vector<operator_output> outputs;  ///< in the order of their names; the sole output has the name ""
  std::array<size_expression, 3> grid{size_expression(1), size_expression(1), size_expression(1)};
  std::array<size_expression, 3> block{size_expression(1), size_expression(1), size_expression(1)};
  std::array<std::int64_t, 3> cluster{1, 1, 1};
  size_expression shared{0};
  std::vector<kernel_argument> arguments;
  std::vector<tensor_spec> inputs;
  std::size_t state_bytes = 0;
  bool single_pass = false;
  bool whole_frames = false;
  bool waves = false;
};

/// Values of the variables of a kernel's expressions.
class kernel_extents {
 public:
  kernel_extents(const tensor_spec& input, const batch_extent& extent) noexcept;
  [[nodiscard]] std::span<const std::int64_t> values() const noexcept { return std::span(values_).first(count_); }

 private:
  std::array<std::int64_t, 9> values_{};
  std::size_t count_ = 0;
};

/// What the device and the kernel allow.
struct kernel_limits {
  std::int64_t threads = 1024;  ///< of a block
  std::int64_t shared = 0;      ///< bytes of dynamic shared memory of a block
};

/// How a kernel is launched for a batch.
struct kernel_launch {
  std::array<std::int64_t, 3> grid{};
  std::array<std::int64_t, 3> block{};
  std::int64_t shared = 0;
};

/// `extents`: of kernel_extents. Never allocates.
[[nodiscard]] kernel_launch launch_of(const kernel_settings& settings, std::span<const std::int64_t> extents) noexcept;
[[nodiscard]] bool fits(const kernel_launch& launch, const kernel_settings& settings,
                        const kernel_limits& limits) noexcept;
/// Checks the launches and the arguments of the batches of up to `max_frames` frames: of every number of frames with
/// the shortest and with the longest frames, and of every length of frames alone and in a full batch. At most 65,536
/// batches are checked, evenly spaced where there are more. Throws parameter_error, which names the batch.
void check_launches(const kernel_settings& settings, const kernel_limits& limits, std::int64_t max_frames);

/// Throws parameter_error.
[[nodiscard]] kernel_settings parse_kernel(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] tensor_spec infer_kernel(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::vector<operator_output> kernel_outputs(const parameters& settings,
                                                          std::span<const tensor_spec> inputs);
[[nodiscard]] std::optional<session_traits> kernel_session(const parameters& settings,
                                                           std::span<const tensor_spec> inputs);

/// What `host` names. Throws parameter_error.
[[nodiscard]] std::unique_ptr<operation> make_kernel_host(const operation_request& request);
/// Its `code` is machine code, and `symbol` the kernel in it. Throws parameter_error and std::runtime_error.
[[nodiscard]] std::unique_ptr<operation> make_kernel_cuda(const operation_request& request);

}  // namespace penstock
