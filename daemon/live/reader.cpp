#include "daemon/live/reader.hpp"

#include <stdexcept>
#include <string>

#include "daemon/config/source_text.hpp"
#include "daemon/live/file_reader.hpp"

namespace penstock::live {

std::unique_ptr<sample_reader> make_reader(const source_declaration& source, double& rate) {
  switch (source.type) {
    case source_type::file:
    case source_type::standard_input:
      return make_file_reader(source, rate);
    case source_type::zmq_sub:
    case source_type::zmq_pull:
    case source_type::udp:
    case source_type::tcp:
      break;
  }
  throw std::runtime_error("this daemon has no reader for sources of type \"" + std::string(name_of(source.type)) +
                           "\"");
}

}  // namespace penstock::live
