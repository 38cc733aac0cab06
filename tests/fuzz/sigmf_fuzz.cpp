// What the metadata of a recording is read as: one input is the text of a .sigmf-meta file. Whatever is taken can be
// written, and is read as the same again; whatever is refused is refused as sigmf_error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/sigmf.hpp"
#include "base/utc_time.hpp"

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto time = parse_utc_time(text)) {
    require(parse_utc_time(print_utc_time(*time)) == time);
  }
  try {
    const sigmf_meta meta = parse_sigmf(text);
    require(parse_sigmf(print_sigmf(meta)) == meta);
    for (const sigmf_capture& each : complete_captures(meta)) {
      require(each.global_index && each.epoch && each.lost_before && *each.global_index >> 62U == 0);
    }
    if (const std::string_view element = element_of_sigmf(meta.datatype); !element.empty()) {
      require(!sigmf_of_element(element).empty());
    }
  } catch (const sigmf_error&) {
    // It is no such text.
  }
  return 0;
}
