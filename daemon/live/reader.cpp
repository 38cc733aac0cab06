#include "daemon/live/reader.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>

#include "daemon/live/file_reader.hpp"
#include "daemon/live/network/rtl_tcp_reader.hpp"
#include "daemon/live/network/udp_reader.hpp"
#include "daemon/live/network/zmq_reader.hpp"
#include "kernels/tensor.hpp"

namespace penstock::live {
namespace {

// The check allows each type its own framings only.
zmq_framing zmq_framing_of(source_framing framing) noexcept {
  return framing == source_framing::gnuradio_tags ? zmq_framing::gnuradio_tags
         : framing == source_framing::penstock    ? zmq_framing::penstock
                                                  : zmq_framing::raw;
}

udp_framing udp_framing_of(source_framing framing) noexcept {
  switch (framing) {
    case source_framing::sequence:
      return udp_framing::sequence;
    case source_framing::gnuradio_seq:
      return udp_framing::gnuradio;
    case source_framing::vita49:
      return udp_framing::vita49;
    case source_framing::difi:
      return udp_framing::difi;
    default:
      return udp_framing::raw;
  }
}

std::unique_ptr<sample_reader> make_zmq_reader(const source_declaration& source, double rate) {
  zmq_settings settings;
  settings.pattern =
      source.type == source_type::zmq_sub ? zmq_settings::pattern_of::sub : zmq_settings::pattern_of::pull;
  settings.connect = source.connect;
  settings.bind = source.bind;
  settings.topics = source.topics;
  if (source.encrypts()) {
    settings.keys = read_socket_keys(source.server_key, source.secret_key_file, source.authorized_keys_file);
  }
  settings.framing = zmq_framing_of(source.framing);
  settings.sample_bytes = source.sample_bytes;
  settings.sample_rate = rate;
  settings.stream_name = source.name;
  return std::make_unique<zmq_reader>(settings);
}

std::unique_ptr<sample_reader> make_udp_reader(const source_declaration& source, double rate) {
  udp_settings settings;
  settings.listen = source.listen;
  settings.interface = source.interface;
  settings.kernel_times = source.kernel_times;
  settings.framing = udp_framing_of(source.framing);
  settings.sample_bytes = source.sample_bytes;
  settings.number_bytes = size_of(source.dtype) / (is_complex(source.dtype) ? 2 : 1);
  settings.sample_rate = rate;
  settings.window = source.reorder.window;
  settings.max_wait = source.reorder.max_wait;
  settings.socket_buffer = source.socket_buffer;
  settings.max_streams = source.max_streams;
  settings.stream_name = source.name;
  return std::make_unique<udp_reader>(settings);
}

std::unique_ptr<sample_reader> make_rtl_tcp_reader(const source_declaration& source, double rate) {
  rtl_tcp_settings settings;
  settings.server = source.connect.front();
  if (rate > 0 && rate <= std::numeric_limits<std::uint32_t>::max()) {
    settings.sample_rate = static_cast<std::uint32_t>(std::llround(rate));
  }
  settings.stream_name = source.name;
  return std::make_unique<rtl_tcp_reader>(settings, std::chrono::steady_clock::now());
}

}  // namespace

std::unique_ptr<sample_reader> make_reader(const source_declaration& source, double& rate) {
  switch (source.type) {
    case source_type::zmq_sub:
    case source_type::zmq_pull:
      return make_zmq_reader(source, rate);
    case source_type::udp:
      return make_udp_reader(source, rate);
    case source_type::tcp:
      return make_rtl_tcp_reader(source, rate);
    case source_type::file:
    case source_type::standard_input:
      break;
  }
  return make_file_reader(source, rate);
}

}  // namespace penstock::live
