#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/configuration_error.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

enum class sink_type : std::uint8_t { zmq_pub, zmq_push, udp, file, sigmf };

/// How messages of a wire hold results.
enum class sink_framing : std::uint8_t { raw, gnuradio_tags, penstock, sequence };

/// What a sink does with results that nobody takes.
enum class full_policy : std::uint8_t { drop, block };

/// An output of a pipeline that a sink hands on, as items: an item is one index of its first dimension where that is
/// time, and else a whole frame.
struct sink_output {
  std::string name;
  tensor_spec spec;         ///< of a frame
  bool is_in_time = false;  ///< the first dimension is time
  std::int64_t steps = 0;   ///< samples of the pipeline's input that `indices` items cover; 0: that varies
  std::int64_t indices = 1;

  bool operator==(const sink_output&) const = default;
  /// Of an item; for a frame of variable length that is not in time, of its smallest part.
  [[nodiscard]] std::size_t item_bytes() const noexcept {
    return is_in_time || spec.variable ? spec.bytes() / static_cast<std::size_t>(spec.shape.front()) : spec.bytes();
  }
  /// Items of `frames` frames whose first extent is `leading`.
  [[nodiscard]] std::int64_t items(std::int64_t frames, std::int64_t leading) const noexcept {
    return is_in_time ? frames * leading : frames;
  }
};

/// What a sink gets of one pipeline.
struct sink_feed {
  std::string pipeline;
  std::string source;                ///< only of this source; "": of everybody
  std::vector<std::string> sources;  ///< of the daemon, that feed it
  double sample_rate = 0;            ///< of the pipeline's input; 0: not known
  double gain = 0;                   ///< bytes of its results for each byte of the pipeline's input, at most
  std::vector<sink_output> outputs;

  bool operator==(const sink_feed&) const = default;
};

/// One [[sink]] of the configuration, checked: what it is fed from is there, and it has the keys that its type needs
/// and no others.
struct sink_declaration {
  std::string name;
  sink_type type = sink_type::zmq_pub;
  std::vector<std::string> connect;
  std::vector<std::string> bind;
  std::string to;    ///< of udp
  std::string path;  ///< of file and sigmf, relative to the configuration's folder; with "{session}" and the like
  std::vector<std::string> from;
  std::vector<std::string> sessions;  ///< patterns; none: all
  sink_framing framing = sink_framing::raw;
  std::string topic;  ///< of a zmq message; "": it has none
  double sample_rate = 0;
  std::size_t datagram = 1472;  ///< bytes of results in one, at most
  std::size_t queue = std::size_t{64} << 20U;
  full_policy on_full = full_policy::drop;
  std::string server_key;  ///< of zmq: the public key of who it connects to
  std::filesystem::path secret_key_file;
  std::filesystem::path authorized_keys_file;  ///< of those who may connect to it
  source_position position;

  // Filled in by the check.
  std::vector<sink_feed> feeds;  ///< one for each pipeline, or source, that `from` names

  [[nodiscard]] bool encrypts() const noexcept { return !secret_key_file.empty(); }
  /// `path`, as the configuration's folder has it.
  [[nodiscard]] std::string file() const {
    return (std::filesystem::path(position.file).parent_path() / path).string();
  }
};

}  // namespace penstock
