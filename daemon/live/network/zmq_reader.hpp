#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "daemon/live/network/socket_keys.hpp"
#include "daemon/live/network/zmq_socket.hpp"
#include "daemon/live/sample_stream.hpp"
#include "daemon/live/wire/gnuradio_tags.hpp"

namespace penstock::live {

struct zmq_settings {
  enum class pattern_of : std::uint8_t { sub, pull };

  pattern_of pattern = pattern_of::sub;
  std::vector<std::string> connect{};
  std::vector<std::string> bind{};
  std::vector<std::string> topics{};  ///< prefixes that a SUB asks for; none: everything
  zmq_framing framing = zmq_framing::raw;
  std::size_t sample_bytes = 8;
  double sample_rate = 0;  ///< 0: not known
  int high_water_mark = 1000;
  std::int64_t max_message_bytes = std::int64_t{64} << 20U;
  std::optional<socket_keys> keys{};
  std::string stream_name = "zmq";  ///< of messages without a topic
};

/// Reads a SUB or PULL socket of its own. Where the messages say at which sample they begin, what a PUB dropped is a
/// gap of known length, and a smaller number the beginning of a new epoch. Where they don't, a reconnection is
/// suspected of having lost samples. libzmq reconnects by itself.
class zmq_reader final : public sample_reader {
 public:
  /// Throws std::runtime_error; what() names the endpoint.
  explicit zmq_reader(const zmq_settings& settings);
  zmq_reader(const zmq_reader&) = delete;
  zmq_reader& operator=(const zmq_reader&) = delete;
  ~zmq_reader() override;

  void descriptors(std::vector<pollfd>& wanted) const override;
  [[nodiscard]] read_progress read(sample_receiver& receiver, time_point now, time_point until) override;
  [[nodiscard]] std::string_view failure() const override { return failure_; }

  /// As bound, with real ports.
  [[nodiscard]] const std::vector<std::string>& endpoints() const noexcept { return endpoints_; }

 private:
  struct topic_stream {
    std::string name;
    stream_number number = 0;
    bool begun = false;
    std::uint64_t next = 0;  // offset expected
    double sample_rate = 0;
    std::optional<double> frequency{};
    std::uint32_t epoch = 0;
    // Of a PUBLISHED: the one that is expected, and what the last one had.
    std::uint64_t sequence = 0;
    std::size_t samples = 0;
    std::int64_t index = 0;
    std::int64_t apart = 0;  // from one index to the next, where nothing was missing; 0: not known
  };

  void set_up(const zmq_settings& settings);
  void watch();
  void give_senders_room();
  void hear_of_connections(sample_receiver& receiver);
  [[nodiscard]] bool receive(sample_receiver& receiver);
  void take(sample_receiver& receiver, std::size_t parts);
  void take_raw(sample_receiver& receiver, topic_stream& stream, std::span<const std::byte> samples);
  void take_tagged(sample_receiver& receiver, topic_stream& stream, std::span<const std::byte> message);
  void take_tag(sample_receiver& receiver, topic_stream& stream, const radio_tag& tag, sample_run& next);
  void take_penstock(sample_receiver& receiver, topic_stream& stream, std::span<const std::byte> head,
                     std::span<const std::byte> body);
  static void find_missing(sample_receiver& receiver, topic_stream& stream, std::uint64_t sequence,
                           std::optional<std::int64_t> index, std::size_t samples);
  [[nodiscard]] topic_stream* stream_of(sample_receiver& receiver, std::string_view name);

  zmq_settings settings_;
  zmq::context_t context_;
  std::optional<key_check> keys_;  // ends behind its socket: without it libzmq would admit everybody
  zmq::socket_t socket_;
  zmq::socket_t events_;  // of its connections
  int descriptor_ = -1;
  int event_descriptor_ = -1;
  std::vector<std::string> endpoints_;
  std::vector<zmq::message_t> parts_;
  std::deque<topic_stream> streams_;
  topic_stream* last_stream_ = nullptr;  // almost always the one of the next message too
  bool was_connected_ = false;
  std::string failure_;
};

}  // namespace penstock::live
