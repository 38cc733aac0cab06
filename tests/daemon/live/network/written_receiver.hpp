#pragma once

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/live/sample_stream.hpp"

namespace penstock::live {

/// Writes down what a reader hands over, and does the account of a source: samples that were delivered, lost and late.
class written_receiver final : public sample_receiver {
 public:
  struct one_stream {
    std::string name;
    std::vector<std::byte> bytes;                              // what was delivered, one behind the other
    std::vector<std::pair<std::int64_t, std::size_t>> places;  // of each run: index, sample in `bytes`
    std::optional<std::int64_t> next;
    std::uint64_t delivered = 0;
    std::uint64_t gaps = 0;        // samples
    std::uint64_t kernel = 0;      // samples, said
    std::uint64_t late = 0;        // samples
    std::uint64_t duplicates = 0;  // samples
    std::uint64_t restored = 0;    // samples
    std::uint64_t suspected = 0;
    std::vector<std::string> epochs;
    std::int64_t time_ns = 0;  // of the last run that had one
    time_quality quality = time_quality::none;
    std::size_t runs = 0;
  };

  explicit written_receiver(std::size_t sample_bytes) : sample_bytes_(sample_bytes) {}
  /// From now on there is memory for so many bytes at a time.
  void give_room(std::size_t bytes) { room_.assign(bytes, std::byte{0xEE}); }

  std::optional<stream_number> stream(std::string_view name) override {
    for (std::size_t number = 0; number < streams.size(); ++number) {
      if (streams[number].name == name) {
        return static_cast<stream_number>(number);
      }
    }
    streams.emplace_back().name = name;
    return static_cast<stream_number>(streams.size() - 1);
  }
  void samples(stream_number number, const sample_run& run) override {
    one_stream& to = streams[number];
    ++to.runs;
    const auto count = static_cast<std::int64_t>(run.bytes.size() / sample_bytes_);
    if (run.at && to.next && *run.at < *to.next) {
      to.late += static_cast<std::uint64_t>(count);
      return;
    }
    if (run.at && to.next) {
      to.gaps += static_cast<std::uint64_t>(*run.at - *to.next);
    }
    if (!room_.empty() && run.bytes.data() == room_.data()) {
      in_room += run.bytes.size();
    }
    to.restored += run.restored ? static_cast<std::uint64_t>(count) : 0;
    to.next = run.at.value_or(to.next.value_or(0)) + count;
    to.places.emplace_back(*to.next - count, to.bytes.size() / sample_bytes_);
    to.bytes.insert(to.bytes.end(), run.bytes.begin(), run.bytes.end());
    to.delivered += static_cast<std::uint64_t>(count);
    if (run.quality != time_quality::none) {
      to.time_ns = run.time_ns;
      to.quality = run.quality;
    }
    // The memory is used again at once.
    std::fill(room_.begin(), room_.end(), std::byte{0xEE});
  }
  std::span<std::byte> room(stream_number) override { return room_; }
  void loss(stream_number number, loss_kind kind, std::uint64_t samples) override {
    (kind == loss_kind::kernel ? streams[number].kernel : lost_in_network) += samples;
  }
  void epoch(stream_number number, std::string_view why) override {
    streams[number].epochs.emplace_back(why);
    streams[number].next.reset();
  }
  void duplicate(stream_number number, std::uint64_t samples) override { streams[number].duplicates += samples; }
  void suspect(stream_number number) override { ++streams[number].suspected; }
  void malformed(std::string_view why) override { ++complaints[std::string(why)]; }
  void connected(bool stands, std::string_view what) override {
    connections.emplace_back((stands ? "+" : "-") + std::string(what));
  }

  /// Delivered samples as numbers.
  template <class Number>
  [[nodiscard]] std::vector<Number> numbers(std::size_t number = 0) const {
    std::vector<Number> values(streams.at(number).bytes.size() / sizeof(Number));
    std::memcpy(values.data(), streams.at(number).bytes.data(), values.size() * sizeof(Number));
    return values;
  }

  std::vector<one_stream> streams;
  std::map<std::string, std::size_t> complaints;
  std::vector<std::string> connections;
  std::uint64_t lost_in_network = 0;
  std::size_t in_room = 0;  // bytes that were not copied

 private:
  std::size_t sample_bytes_;
  std::vector<std::byte> room_;
};

}  // namespace penstock::live
