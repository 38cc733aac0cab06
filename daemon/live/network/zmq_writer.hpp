#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "daemon/live/network/socket_keys.hpp"
#include "daemon/live/network/zmq_socket.hpp"
#include "daemon/live/result_message.hpp"

namespace penstock::live {

struct zmq_writer_settings {
  enum class pattern_of : std::uint8_t { pub, push };

  pattern_of pattern = pattern_of::pub;
  std::vector<std::string> connect{};
  std::vector<std::string> bind{};
  zmq_framing framing = zmq_framing::raw;
  bool has_topic = false;   ///< a message's name is a part before it
  bool drops = true;        ///< what no receiver has room for
  int high_water_mark = 1;  ///< messages that wait for each receiver
  std::optional<socket_keys> keys{};
};

/// Writes to a PUB or PUSH socket of its own. A PUB hands each message to every receiver that has room. The first that
/// one has no room for is `dropped`, or `full`; libzmq does not tell how many more that one misses until it has room
/// again. New receivers are told time and rate with the next message. A PUSH waits until a receiver is there; what it
/// has given to a connection that breaks is lost with it.
class zmq_writer final : public result_writer {
 public:
  /// Throws std::runtime_error; what() names the endpoint.
  explicit zmq_writer(const zmq_writer_settings& settings);
  zmq_writer(const zmq_writer&) = delete;
  zmq_writer& operator=(const zmq_writer&) = delete;
  ~zmq_writer() override = default;

  [[nodiscard]] write_progress write(const result_message& message) override;
  void idle() override;
  void descriptors(std::vector<pollfd>& wanted) const override;
  [[nodiscard]] std::string_view failure() const override { return failure_; }

  /// As bound, with real ports.
  [[nodiscard]] const std::vector<std::string>& endpoints() const noexcept { return endpoints_; }

 private:
  void hear_of_receivers();
  void compose(const result_message& message);
  void compose_tagged(const result_message& message);
  void compose_penstock(const result_message& message);
  [[nodiscard]] bool try_send();
  [[nodiscard]] bool send_to_those_with_room();

  zmq_writer_settings settings_;
  zmq::context_t context_;
  std::optional<key_check> keys_;  // ends behind its socket: without it libzmq would admit everybody
  zmq::socket_t socket_;
  int descriptor_ = -1;
  std::vector<std::string> endpoints_;
  std::vector<zmq::message_t> parts_;
  std::vector<std::byte> header_;
  std::uint64_t arrivals_ = 1;                                // of receivers
  std::map<std::string, std::uint64_t, std::less<>> told_{};  // by stream: `arrivals_` when time and rate were said
  std::string failure_;
};

}  // namespace penstock::live
