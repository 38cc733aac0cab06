#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptors.hpp"

namespace penstock {

/// A SigMF recording can't be read or written. what() says what is wrong with it, without its name.
class sigmf_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Samples of a recording that follow each other: from `sample_start` to the next capture.
struct sigmf_capture {
  std::uint64_t sample_start = 0;               ///< in the file
  std::optional<std::uint64_t> global_index{};  ///< in the stream that was recorded: a gap where it jumps
  std::optional<std::int64_t> time_ns{};        ///< of the first sample, since 1970 UTC
  std::optional<double> frequency{};            ///< Hz
  std::optional<std::uint64_t> epoch{};         ///< of the indices and times: "penstock:epoch"
  std::optional<std::uint64_t> lost_before{};   ///< samples, where no index says it: "penstock:lost_before"
  std::string more{};                           ///< a JSON object of the other keys; "" for none

  bool operator==(const sigmf_capture&) const = default;
};

/// What a .sigmf-meta file says.
struct sigmf_meta {
  std::string datatype;  ///< "cf32_le"
  std::uint32_t channels = 1;
  double sample_rate = 0;  ///< 0: it does not say
  std::vector<sigmf_capture> captures;
  std::vector<std::string> annotations;  ///< JSON objects, as they are
  std::string more;                      ///< a JSON object of the other keys of "global"; "" for none

  bool operator==(const sigmf_meta&) const = default;
};

/// Reads the text of a .sigmf-meta file. Captures are in order. Throws sigmf_error.
[[nodiscard]] sigmf_meta parse_sigmf(std::string_view text);
/// Reads a .sigmf-meta file. Throws sigmf_error.
[[nodiscard]] sigmf_meta read_sigmf(const std::filesystem::path& meta_file);
/// The captures with index, epoch and lost_before: what a recording does not say follows on, from 0. Where its index
/// falls back another epoch begins, and where it jumps samples were lost. From the first sample on.
[[nodiscard]] std::vector<sigmf_capture> complete_captures(const sigmf_meta& meta);
/// The text of a .sigmf-meta file, which parse_sigmf reads back to the same.
[[nodiscard]] std::string print_sigmf(const sigmf_meta& meta);

/// The name that the daemon has for a datatype: "cf32" for "cf32_le"; "" for one that it does not have, as of
/// big-endian numbers.
[[nodiscard]] std::string_view element_of_sigmf(std::string_view datatype) noexcept;
/// The other way: "" for an element that SigMF does not have.
[[nodiscard]] std::string_view sigmf_of_element(std::string_view element) noexcept;

/// NAME.sigmf-data beside NAME.sigmf-meta.
[[nodiscard]] std::filesystem::path sigmf_data_path(std::filesystem::path meta);

/// Writes a recording: samples go to NAME.sigmf-data at once, and NAME.sigmf-meta is written anew, as a whole, with
/// each capture and by `close`; from the 1024th capture on with every 1024th. So a recording that was cut off can be
/// read up to where it was written.
class sigmf_writer {
 public:
  /// Creates both files, or overwrites them. `meta` without captures. With `continues`, a recording that is there goes
  /// on behind its last whole sample; it must have the same datatype, channels and rate. Throws sigmf_error.
  sigmf_writer(const std::filesystem::path& meta_file, sigmf_meta meta, bool continues = false);
  sigmf_writer(const sigmf_writer&) = delete;
  sigmf_writer& operator=(const sigmf_writer&) = delete;
  ~sigmf_writer();

  /// Begins a capture with the next sample; its sample_start is filled in.
  void begin(sigmf_capture capture);
  /// Whole samples, of all channels. Throws sigmf_error.
  void append(std::span<const std::byte> samples);
  void annotate(std::string json) { meta_.annotations.push_back(std::move(json)); }
  /// Says the rate, and the time of the capture that was begun last, of which it became known only now.
  void describe(double sample_rate, std::optional<std::int64_t> time_ns = std::nullopt);
  /// Throws sigmf_error. The destructor closes too, and can't.
  void close();

  [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }
  /// Of all channels.
  [[nodiscard]] std::size_t sample_bytes() const noexcept { return sample_bytes_; }

 private:
  void take_over();
  void cut();
  void write_meta() const;

  std::filesystem::path meta_file_;
  sigmf_meta meta_;
  std::size_t sample_bytes_;
  file_descriptor data_;
  std::uint64_t samples_ = 0;
};

}  // namespace penstock
