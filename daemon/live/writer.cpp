#include "daemon/live/writer.hpp"

#include <algorithm>

#include "daemon/live/file_writer.hpp"
#include "daemon/live/network/udp_writer.hpp"
#include "daemon/live/network/zmq_writer.hpp"

namespace penstock::live {
namespace {

// What a PUSH has given to a connection may be lost with it.
constexpr std::size_t most_for_push = 64;
constexpr std::size_t most_for_pub = 65536;

/// Messages that make up the queue of a sink.
int messages_of_queue(const sink_declaration& sink, std::size_t most) {
  std::size_t largest = 1;
  for (const sink_feed& feed : sink.feeds) {
    for (const sink_output& each : feed.outputs) {
      largest = std::max(largest, each.spec.bytes());
    }
  }
  return static_cast<int>(std::clamp<std::size_t>(sink.queue / largest, 1, most));
}

std::unique_ptr<result_writer> make_zmq_writer(const sink_declaration& sink) {
  const bool is_pub = sink.type == sink_type::zmq_pub;
  zmq_writer_settings settings;
  settings.pattern = is_pub ? zmq_writer_settings::pattern_of::pub : zmq_writer_settings::pattern_of::push;
  settings.connect = sink.connect;
  settings.bind = sink.bind;
  settings.framing = sink.framing == sink_framing::gnuradio_tags ? zmq_framing::gnuradio_tags
                     : sink.framing == sink_framing::penstock    ? zmq_framing::penstock
                                                                 : zmq_framing::raw;
  settings.has_topic = !sink.topic.empty();
  settings.drops = sink.on_full == full_policy::drop;
  if (sink.encrypts()) {
    settings.keys = read_socket_keys(sink.server_key, sink.secret_key_file, sink.authorized_keys_file);
  }
  settings.high_water_mark = messages_of_queue(sink, is_pub ? most_for_pub : most_for_push);
  return std::make_unique<zmq_writer>(settings);
}

std::unique_ptr<result_writer> make_udp_writer(const sink_declaration& sink) {
  udp_writer_settings settings;
  settings.to = sink.to;
  settings.has_numbers = sink.framing == sink_framing::sequence;
  settings.datagram_bytes = sink.datagram;
  settings.drops = sink.on_full == full_policy::drop;
  return std::make_unique<udp_writer>(settings);
}

}  // namespace

std::unique_ptr<result_writer> make_writer(const sink_declaration& sink) {
  switch (sink.type) {
    case sink_type::zmq_pub:
    case sink_type::zmq_push:
      return make_zmq_writer(sink);
    case sink_type::udp:
      return make_udp_writer(sink);
    case sink_type::sigmf:
      return make_recording_writer();
    case sink_type::file:
      break;
  }
  return make_file_writer();
}

}  // namespace penstock::live
