#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/configuration_error.hpp"
#include "daemon/pipeline/declaration.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

enum class source_type : std::uint8_t { zmq_sub, zmq_pull, udp, tcp, file, standard_input };

/// How messages of a wire hold samples.
enum class source_framing : std::uint8_t {
  raw,
  gnuradio_tags,
  penstock,
  sequence,
  gnuradio_seq,
  vita49,
  difi,
  rtl_tcp
};

enum class gap_policy : std::uint8_t {
  fill,  ///< with zeros
  new_epoch,
  splice,
  nan  ///< filled with NaN
};

[[nodiscard]] constexpr bool fills(gap_policy policy) noexcept {
  return policy == gap_policy::fill || policy == gap_policy::nan;
}

/// What becomes of samples that are known to be missing.
struct gap_settings {
  gap_policy policy = gap_policy::fill;
  std::chrono::nanoseconds max_fill = std::chrono::milliseconds{50};  ///< a longer gap is treated as `beyond` says
  gap_policy beyond = gap_policy::new_epoch;                          ///< one that does not fill
  bool discard = false;  ///< results that touch filled samples are not handed on

  bool operator==(const gap_settings&) const = default;
};

enum class overrun_policy : std::uint8_t { block, drop_oldest, drop_newest };

/// Packets that may come out of order.
struct reorder_settings {
  std::uint32_t window = 0;  ///< packets; 0: none is waited for
  std::chrono::nanoseconds max_wait = std::chrono::milliseconds{2};

  bool operator==(const reorder_settings&) const = default;
};

/// How fast a file is read.
struct source_pace {
  double times = 1;  ///< of sample_rate; 0: as fast as the pipeline takes it

  bool operator==(const source_pace&) const = default;
};

/// One [[source]] of the configuration, checked: it fits its pipeline, and has the keys that its type needs and no
/// others.
struct source_declaration {
  std::string name;
  source_type type = source_type::file;
  std::vector<std::string> connect;
  std::vector<std::string> bind;
  std::string listen;               ///< of udp
  std::string path;                 ///< of a file, relative to the configuration's folder
  std::vector<std::string> topics;  ///< prefixes that a SUB asks for; none: everything
  std::string interface;            ///< of a multicast group
  bool kernel_times = false;
  std::string server_key;  ///< of zmq: the public key of who it connects to
  std::filesystem::path secret_key_file;
  std::filesystem::path authorized_keys_file;  ///< of those who may connect to it
  source_framing framing = source_framing::raw;
  element_type dtype = element_type::cf32;  ///< that of the pipeline's input
  double sample_rate = 0;                   ///< 0: the file's own, or not known
  std::string pipeline;
  std::string session = "{topic}";  ///< "{topic}" stands for the stream's name
  std::int64_t block = 0;           ///< samples of a request
  gap_settings gap;
  overrun_policy overrun = overrun_policy::drop_oldest;
  std::size_t queue = std::size_t{64} << 20U;                ///< bytes that wait for the pipeline
  std::chrono::nanoseconds stall = std::chrono::seconds{2};  ///< 0: never
  source_pace pace;
  reorder_settings reorder;
  std::size_t socket_buffer = std::size_t{4} << 20U;
  std::uint32_t max_streams = 16;
  source_position position;

  // Filled in by the check.
  tensor_spec input;             ///< of the pipeline
  std::size_t sample_bytes = 0;  ///< of one index of its leading dimension

  /// `path`, as the configuration's folder has it.
  [[nodiscard]] std::filesystem::path file() const { return std::filesystem::path(position.file).parent_path() / path; }
  /// Its blocks: those that wait, one of each stream that is not full, and one to fill a gap with.
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return queue + (1U + (is_live() ? max_streams : 1U)) * sample_bytes * static_cast<std::size_t>(block);
  }
  [[nodiscard]] bool encrypts() const noexcept { return !secret_key_file.empty(); }
  /// Live sources lose what nobody takes; a file waits.
  [[nodiscard]] bool is_live() const noexcept {
    return type != source_type::file && type != source_type::standard_input;
  }
};

}  // namespace penstock
