#include "daemon/live/wire/difi.hpp"

namespace penstock::live {

difi_packet classify_difi(const vita_packet& packet) noexcept {
  if (!packet.stream || !packet.class_id || packet.class_id->oui != difi_oui ||
      packet.seconds_kind == vita_packet::seconds_of::none || packet.fraction_kind == vita_packet::fraction_of::none) {
    return difi_packet::not_difi;
  }
  switch (packet.kind) {
    case vita_packet::kind_of::data:
      return packet.class_id->packet == 0 && packet.indicators == 0 ? difi_packet::data : difi_packet::not_difi;
    case vita_packet::kind_of::context:
      return packet.class_id->packet == 1 ? difi_packet::context : difi_packet::not_difi;
    case vita_packet::kind_of::extension_context:
      return packet.class_id->packet == 4 ? difi_packet::version : difi_packet::not_difi;
    case vita_packet::kind_of::command:
      return difi_packet::command;
    default:
      return difi_packet::not_difi;
  }
}

}  // namespace penstock::live
